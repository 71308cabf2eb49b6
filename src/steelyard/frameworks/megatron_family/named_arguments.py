"""The arguments that Megatron prints, by name, each with the key of ours and the conversion of its text."""

import re
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, get_args

from steelyard.experiment.experiment import Fp8, TransformerImpl
from steelyard.experiment.keys import KEYS
from steelyard.frameworks.logs import settings
from steelyard.frameworks.logs.fields import whole_number
from steelyard.frameworks.logs.settings import flag, how_many, or_none, stored
from steelyard.frameworks.megatron_family.facts import NAMES

_PAIR = re.compile(r"[(\[](?P<left>\d{1,9}), ?(?P<right>-?\d{1,9})[)\]]")

Convert = Callable[[str], Any]


def _or_null(convert: Convert) -> Convert:
    return lambda text: None if text == "None" else convert(text)


def _one_of(choices: Any) -> Convert:
    """One of the values of a literal type; KeyError for any other text."""
    return {choice: choice for choice in get_args(choices)}.__getitem__


def is_given(text: str) -> bool:
    return text != "None"


def _window(text: str) -> int | str:
    """Positions that a token attends to, including itself, from (left, right); 0 for all positions before it."""
    pair = _PAIR.fullmatch(text)
    if pair is None or pair["right"] != "0":
        return 0 if text in ("None", "(-1, -1)", "(-1, 0)") else text
    return int(pair["left"]) + 1


def _capacity(text: str) -> float:
    """Capacity of an expert; 0 if no token is dropped."""
    return 0.0 if text == "None" else max(0.0, float(text))


_BY_TYPE: Mapping[Any, Convert] = {
    **{int: whole_number, float: float, bool: flag, str: str},
    int | None: _or_null(whole_number),
}
_BY_KEY: Mapping[str, Convert] = {
    "model.tied_embeddings": lambda text: not flag(text),
    "training.schedule": str,
    "training.clip_grad_norm": lambda text: float(text) or None,
    "training.recompute": {"None": "none", "selective": "selective", "full": "full"}.__getitem__,
    "training.checkpointing": is_given,
    "training.tracking": is_given,
    "data.tokenizer": _or_null(str),
    "data.tokenizer_type": str,
}
_ONLY_TOGETHER = ("num_query_groups", "rotary_base", "vocab_size")
"""Arguments that depend on others: whether queries are grouped, positions are rotary, and who counts tokens."""

_SETTINGS: Mapping[Convert, tuple[str, ...]] = {
    whole_number: (settings.LOG_INTERVAL, settings.PADDED_VOCABULARY),
    how_many: (settings.TOKENS_AHEAD,),
    float: (settings.HIDDEN_DROPOUT, settings.ATTENTION_DROPOUT),
    str: (settings.OPTIMIZER,),
    flag: (
        *(settings.MASKED_EOD, settings.QK_NORM, settings.LATENT_ATTENTION, settings.RESET_MASK),
        *(settings.RESET_POSITIONS, settings.PRECISION_AWARE_OPTIMIZER, settings.ATTENTION_GATE),
    ),
    or_none: (settings.RAMP_UP, settings.WINDOWLESS_LAYERS),
    stored: (
        *(settings.FIRST_MOMENT_DTYPE, settings.SECOND_MOMENT_DTYPE),
        *(settings.MAIN_WEIGHTS_DTYPE, settings.MAIN_GRADIENTS_DTYPE),
    ),
}
"""Arguments without an experiment key, under their own names."""

GOVERNED: Mapping[Convert, tuple[str, ...]] = {
    how_many: ("virtual_pipeline_model_parallel_size", "cpu_offloading_num_layers"),
    float: ("rotary_percent",),
    or_none: (
        *("decoupled_lr", "decoupled_min_lr", "embedding_init_method_std", "rotary_seq_len_interpolation_factor"),
        *("dataloader_type", "weight_decay_incr_style", "lr_warmup_fraction"),
    ),
    is_given: ("load", "pretrained_checkpoint"),
    flag: (
        *("add_bias_linear", "freeze_all_layers", "sft", "fim_data", "use_mup", "init_method_xavier_uniform"),
        *("calculate_per_token_loss", "apply_query_key_layer_scaling", "attention_softmax_in_fp32", "squared_relu"),
        *("tp_comm_overlap", "fine_grained_activation_offloading", "rotary_interleaved", "finetune"),
        *("apply_residual_connection_post_layernorm", "apply_layernorm_1p", "data_parallel_random_init"),
    ),
}
"""Further arguments with a policy of their own, under their own names."""

ARGUMENTS: Mapping[str, tuple[str, Convert]] = {
    **{
        name: (key, _BY_KEY.get(key) or _BY_TYPE[KEYS[key].type])
        for key, name in NAMES.items()
        if name not in _ONLY_TOGETHER
    },
    "layernorm_epsilon": ("model.norm_epsilon", float),
    "data_parallel_size": ("parallelism.data_parallel_size", whole_number),
    "accumulate_allreduce_grads_in_fp32": ("precision.grad_reduce_in_fp32", flag),
    "fp8": ("precision.fp8", _or_null(_one_of(Fp8))),
    "transformer_impl": ("kernels.transformer_impl", _one_of(TransformerImpl)),
    "gradient_accumulation_fusion": ("kernels.gradient_accumulation_fusion", flag),
    "world_size": (settings.WORLD_SIZE, whole_number),
    "window_size": (settings.ATTENTION_WINDOW, _window),
    **{name: (name, convert) for table in (_SETTINGS, GOVERNED) for convert, names in table.items() for name in names},
}
"""Megatron arguments that determine one of our keys, with the conversion of their text."""

CORPORA = ("data_args_path", "data_path", "per_split_data_args_path", "train_data_path")
"""Arguments with the corpus, in Megatron's order of precedence."""

OF_EXPERTS: Mapping[str, Convert] = {
    settings.EXPERTS_PER_TOKEN: whole_number,
    settings.EXPERT_WIDTH: whole_number,
    settings.SHARED_EXPERT_WIDTH: how_many,
    settings.EXPERT_CAPACITY: _capacity,
    settings.EXPERT_LAYERS: str,
    settings.FORCED_BALANCE: flag,
    "expert_model_parallel_size": whole_number,
    "moe_router_load_balancing_type": str,
    "moe_aux_loss_coeff": str,
    "moe_z_loss_coeff": or_none,
    "moe_token_dispatcher_type": str,
}
"""Arguments of a mixture of experts, under their own names."""

OF_FP8: Mapping[str, Convert] = {
    "fp8_param_gather": flag,
    "first_last_layers_bf16": flag,
}
"""Arguments of FP8 products, under their own names."""
WITH_OTHERS = {*OF_EXPERTS, *OF_FP8, "save_interval", "end_weight_decay", "start_weight_decay"}
"""Arguments that matter only where another is in use; without it they count as unread."""

RENAMED: Mapping[str, tuple[str, ...]] = {
    settings.ATTENTION_VARIANT: ("experimental_attention_variant", "linear_attention_type"),
    settings.LAYER_PATTERN: ("hybrid_layer_pattern", "hybrid_override_pattern"),
}
"""Arguments with several names over the versions; the name in use counts."""

TOGETHER = {
    *(
        "bf16",
        "fp16",
        "fp4",
        "fp8",
        "fp8_recipe",
        "optimizer_cpu_offload",
        "optimizer_offload_fraction",
        "seed",
        "mock_data",
        *CORPORA,
    ),
    *("recompute_granularity", "recompute_method", "recompute_num_layers", "recompute_modules"),
    *("swiglu", "normalization", "num_attention_heads", "num_query_groups", "group_query_attention", "num_experts"),
    *("position_embedding_type", "rotary_base", "use_rope_scaling", "rope_scaling_factor"),
    *("fp8_hybrid", "fp8_e4m3", "add_bias_linear", "add_qkv_bias"),
    *("use_torch_fsdp2", "use_megatron_fsdp", *WITH_OTHERS, "save", "fp8", *chain.from_iterable(RENAMED.values())),
    *("vocab_size", "tokenizer_type", "make_vocab_size_divisible_by", "tensor_model_parallel_size"),
}
"""Arguments that determine a key of ours only together."""
