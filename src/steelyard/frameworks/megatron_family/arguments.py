"""The arguments a Megatron prints of itself, one by one and what they say together."""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from steelyard.experiment.presets import PRESETS
from steelyard.frameworks.logs.dialect import Place, Said
from steelyard.frameworks.logs.fields import UnreadError, whole_number
from steelyard.frameworks.logs.settings import (
    ATTENTION_DROPOUT,
    ATTENTION_VARIANT,
    ATTENTION_WINDOW,
    EXPERT_CAPACITY,
    EXPERT_LAYERS,
    EXPERT_WIDTH,
    EXPERTS,
    EXPERTS_PER_TOKEN,
    FIRST_MOMENT_DTYPE,
    FORCED_BALANCE,
    HIDDEN_DROPOUT,
    LATENT_ATTENTION,
    LAYER_PATTERN,
    LOG_INTERVAL,
    MAIN_GRADIENTS_DTYPE,
    MAIN_WEIGHTS_DTYPE,
    MASKED_EOD,
    NONE,
    OPTIMIZER,
    OPTIMIZER_OFFLOAD,
    PADDED_VOCABULARY,
    PRECISION_AWARE_OPTIMIZER,
    QK_NORM,
    RAMP_UP,
    RECOMPUTE_EXTENT,
    RESET_MASK,
    RESET_POSITIONS,
    SECOND_MOMENT_DTYPE,
    SHARED_EXPERT_WIDTH,
    TOKENS_AHEAD,
    WINDOWLESS_LAYERS,
    WORLD_SIZE,
    flag,
    how_many,
    or_none,
    shaping,
    stored,
)


def _dtype(arguments: Mapping[str, str]) -> str:
    if arguments.get("fp4", "None") != "None":
        return "fp4"  # what the products are made in, and no GPU's peak of ours
    return "bf16" if arguments.get("bf16") == "True" else "fp16" if arguments.get("fp16") == "True" else "fp32"


_NUMBER = re.compile(r"\d{1,6}(?:\.\d{1,6})?")
_PAIR = re.compile(r"[(\[](?P<left>\d{1,9}), ?(?P<right>-?\d{1,9})[)\]]")
_MODULE = re.compile(r"\w+")

Convert = Callable[[str], Any]


def _count(text: str | None) -> int | None:
    """A whole number; None for anything else."""
    try:
        return None if text is None else whole_number(text)
    except UnreadError:
        return None


def _negated(text: str) -> bool:
    return not flag(text)


def _or_null(convert: Convert) -> Convert:
    return lambda text: None if text == "None" else convert(text)


def _clip(text: str) -> float | None:
    return float(text) or None


def _recompute(text: str) -> str:
    return {"None": "none", "selective": "selective", "full": "full"}[text]


def _window(text: str) -> int | str:
    """Positions a token sees, itself among them, of (to the left, to the right); 0 where it sees all before it."""
    found = _PAIR.fullmatch(text)
    if found is None or found["right"] != "0":
        return 0 if text in ("None", "(-1, -1)", "(-1, 0)") else text
    return int(found["left"]) + 1


def _capacity(text: str) -> float:
    """Of an expert; 0 where none drops a token."""
    return 0.0 if text == "None" else max(0.0, float(text))


def _rope_scaling(factor: str) -> dict[str, float]:
    """Megatron's scaling is that of Llama 3.1; only its factor can be set."""
    return {**PRESETS["llama3.1-8b"]["rope_scaling"], "factor": float(factor)}


ARGUMENTS: Mapping[str, tuple[str, Convert]] = MappingProxyType(
    {
        "num_layers": ("model.num_layers", whole_number),
        "hidden_size": ("model.hidden_size", whole_number),
        "ffn_hidden_size": ("model.ffn_hidden_size", whole_number),
        "num_attention_heads": ("model.num_attention_heads", whole_number),
        "kv_channels": ("model.head_dim", whole_number),
        "vocab_size": ("model.vocab_size", whole_number),
        "max_position_embeddings": ("model.max_position_embeddings", whole_number),
        "norm_epsilon": ("model.norm_epsilon", float),
        "layernorm_epsilon": ("model.norm_epsilon", float),
        "add_qkv_bias": ("model.qkv_bias", flag),
        "untie_embeddings_and_output_weights": ("model.tied_embeddings", _negated),
        "seed": ("training.seed", whole_number),
        "micro_batch_size": ("training.micro_batch_size", whole_number),
        "global_batch_size": ("training.global_batch_size", whole_number),
        "seq_length": ("training.sequence_length", whole_number),
        "train_iters": ("training.steps", whole_number),
        "lr": ("training.learning_rate", float),
        "min_lr": ("training.min_learning_rate", float),
        "lr_decay_style": ("training.schedule", str),
        "lr_decay_iters": ("training.decay_steps", _or_null(whole_number)),
        "lr_warmup_iters": ("training.warmup_steps", whole_number),
        "weight_decay": ("training.weight_decay", float),
        "adam_beta1": ("training.adam_beta1", float),
        "adam_beta2": ("training.adam_beta2", float),
        "adam_eps": ("training.adam_epsilon", float),
        "clip_grad": ("training.clip_grad_norm", _clip),
        "init_method_std": ("training.init_method_std", float),
        "recompute_granularity": ("training.recompute", _recompute),
        "tensor_model_parallel_size": ("parallelism.tensor_parallel_size", whole_number),
        "pipeline_model_parallel_size": ("parallelism.pipeline_parallel_size", whole_number),
        "context_parallel_size": ("parallelism.context_parallel_size", whole_number),
        "data_parallel_size": ("parallelism.data_parallel_size", whole_number),
        "sequence_parallel": ("parallelism.sequence_parallel", flag),
        "use_distributed_optimizer": ("parallelism.distributed_optimizer", flag),
        "overlap_grad_reduce": ("parallelism.overlap_grad_reduce", flag),
        "overlap_param_gather": ("parallelism.overlap_param_gather", flag),
        "accumulate_allreduce_grads_in_fp32": ("precision.grad_reduce_in_fp32", flag),
        "fp32_residual_connection": ("precision.fp32_residual_connection", flag),
        "fp8": ("precision.fp8", _or_null(lambda text: {"e4m3": "e4m3", "hybrid": "hybrid"}[text])),
        "save": ("training.checkpointing", lambda text: text != "None"),
        "tensorboard_dir": ("training.tracking", lambda text: text != "None"),
        "split": ("data.split", str),
        "tokenizer_type": ("data.tokenizer_type", str),
        "tokenizer_model": ("data.tokenizer", _or_null(str)),
        "world_size": (WORLD_SIZE, whole_number),
        "log_interval": (LOG_INTERVAL, whole_number),
        "padded_vocab_size": (PADDED_VOCABULARY, whole_number),
        "eod_mask_loss": (MASKED_EOD, flag),
        "mtp_num_layers": (TOKENS_AHEAD, how_many),
        "qk_layernorm": (QK_NORM, flag),
        "optimizer": (OPTIMIZER, str),
        "hidden_dropout": (HIDDEN_DROPOUT, float),
        "attention_dropout": (ATTENTION_DROPOUT, float),
        "rampup_batch_size": (RAMP_UP, or_none),
        "window_size": (ATTENTION_WINDOW, _window),
        "window_attn_skip_freq": (WINDOWLESS_LAYERS, or_none),
        "multi_latent_attention": (LATENT_ATTENTION, flag),
        "reset_attention_mask": (RESET_MASK, flag),
        "reset_position_ids": (RESET_POSITIONS, flag),
        "use_precision_aware_optimizer": (PRECISION_AWARE_OPTIMIZER, flag),
        "exp_avg_dtype": (FIRST_MOMENT_DTYPE, stored),
        "exp_avg_sq_dtype": (SECOND_MOMENT_DTYPE, stored),
        "main_params_dtype": (MAIN_WEIGHTS_DTYPE, stored),
        "main_grads_dtype": (MAIN_GRADIENTS_DTYPE, stored),
    }
)
"""A Megatron argument that says one thing of ours by itself, and how its text is read."""

CORPORA = ("data_args_path", "data_path", "per_split_data_args_path", "train_data_path")
"""Arguments that name the corpus, in the order Megatron asks them."""

OF_EXPERTS: Mapping[str, tuple[str, Convert]] = MappingProxyType(
    {
        "moe_router_topk": (EXPERTS_PER_TOKEN, whole_number),
        "moe_ffn_hidden_size": (EXPERT_WIDTH, whole_number),
        "moe_shared_expert_intermediate_size": (SHARED_EXPERT_WIDTH, how_many),
        "moe_expert_capacity_factor": (EXPERT_CAPACITY, _capacity),
        "moe_layer_freq": (EXPERT_LAYERS, str),
        "moe_router_force_load_balancing": (FORCED_BALANCE, flag),
    }
)
"""Arguments that say something of a model of experts alone."""

RENAMED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        ATTENTION_VARIANT: ("experimental_attention_variant", "linear_attention_type"),
        LAYER_PATTERN: ("hybrid_layer_pattern", "hybrid_override_pattern"),
    }
)
"""What versions call by one name or another, and some by both: the one that is used says it."""

_TOGETHER = {
    "bf16",
    "fp16",
    "fp4",
    "recompute_granularity",
    "recompute_method",
    "recompute_num_layers",
    "recompute_modules",
    "optimizer_cpu_offload",
    "optimizer_offload_fraction",
    *OF_EXPERTS,
    *(name for names in RENAMED.values() for name in names),
    "swiglu",
    "normalization",
    "position_embedding_type",
    "rotary_base",
    "use_rope_scaling",
    "rope_scaling_factor",
    "num_experts",
    "num_query_groups",
    "group_query_attention",
    "num_attention_heads",
    "mock_data",
    *CORPORA,
    "seed",
    "use_torch_fsdp2",
    "use_megatron_fsdp",
}
"""Arguments that say one thing of ours only together."""

ARGUMENT = re.compile(rb"(?:^\s{0,4}|\s\s)(?P<name>[a-z_][a-z0-9_]*) \.{2,} (?P<value>.*?)\s*$")
END = re.compile(rb"- end of arguments -")


class Arguments:
    """Gathers a dump of arguments, and says what it means once it ends."""

    tells = None

    def __init__(self) -> None:
        self._together: dict[str, tuple[str, Place]] = {}
        self.ended = 0

    def take(self, body: bytes, place: Place) -> Iterator[Said] | None:
        if found := ARGUMENT.search(body):
            return self._argument(found, place)
        if END.search(body):
            self.ended += 1
            return self._end()
        return None

    def close(self) -> Iterator[Said]:
        return iter(())  # a dump has an end of its own

    def _argument(self, found: re.Match[bytes], place: Place) -> Iterator[Said]:
        name, text = found["name"].decode(), found["value"].decode("utf-8", "replace")
        if name in _TOGETHER:
            self._together[name] = text, place
        if name in ARGUMENTS:
            key, convert = ARGUMENTS[name]
            try:
                yield from shaping(key, convert(text), place.evidence)
            except (ValueError, KeyError):
                return  # None, or a value we have no word for: not known

    def _end(self) -> Iterator[Said]:
        together, self._together = self._together, {}
        for key, value, name in _meaning({name: text for name, (text, _) in together.items()}):
            yield from shaping(key, value, together[name][1].evidence)


def _meaning(said: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """What arguments say together: key, value, and the argument to point at."""
    if "bf16" in said and "fp16" in said:
        dtype = _dtype(said)
        yield "precision.dtype", dtype, dtype if dtype in said else "fp16"
        yield "precision.loss_scale", "dynamic" if dtype == "fp16" else None, "fp16"
    yield from _experts(said)
    yield from _recomputed(said)
    for key, names in RENAMED.items():
        if given := [name for name in names if name in said]:
            used = next((name for name in given if said[name] != "None"), given[0])
            yield key, or_none(said[used]), used
    if "optimizer_cpu_offload" in said:
        share = said.get("optimizer_offload_fraction", "1.0")
        offloads = said["optimizer_cpu_offload"] == "True" and _NUMBER.fullmatch(share)
        yield OPTIMIZER_OFFLOAD, float(share) if offloads else 0.0, "optimizer_cpu_offload"
    yield from _attention(said)
    yield from _positions(said)
    if (seed := _count(said.get("seed"))) is not None:
        yield "data.seed", seed, "seed"  # it has one, for weights and order
    if said.get("use_torch_fsdp2") == "False" and said.get("use_megatron_fsdp", "False") == "False":
        yield "parallelism.fsdp_size", 1, "use_torch_fsdp2"
    named = next((name for name in CORPORA if said.get(name, "None") not in ("None", "[]")), None)
    if said.get("mock_data") == "True":
        yield "data.source", "counting", "mock_data"
    elif named is not None:
        yield "data.source", "tokens", named
        if path := _corpus(said[named]):
            yield "data.path", path, named


def _attention(said: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """Key and value heads, and the family of the layers."""
    heads, groups = _count(said.get("num_attention_heads")), _count(said.get("num_query_groups"))
    if said.get("group_query_attention") == "True" and groups is not None:
        yield "model.num_key_value_heads", groups, "num_query_groups"
    elif heads is not None:
        yield "model.num_key_value_heads", heads, "num_attention_heads"
    if said.get("swiglu") == "True" and said.get("normalization", "RMSNorm") == "RMSNorm":
        yield "model.architecture", "llama", "swiglu"
    elif said.get("swiglu") == "False" and said.get("normalization", "LayerNorm") == "LayerNorm":
        yield "model.architecture", "gpt", "swiglu"


def _positions(said: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """How positions are told apart."""
    if said.get("position_embedding_type") == "rope" and "rotary_base" in said:
        try:
            yield "model.rope_theta", float(said["rotary_base"]), "rotary_base"
        except ValueError:
            return
        if said.get("use_rope_scaling", "False") == "False":
            yield "model.rope_scaling", None, "rotary_base"
        elif _NUMBER.fullmatch(said.get("rope_scaling_factor", "")):
            yield "model.rope_scaling", _rope_scaling(said["rope_scaling_factor"]), "use_rope_scaling"
    elif said.get("position_embedding_type") == "learned_absolute":
        yield "model.rope_theta", None, "position_embedding_type"
        yield "model.rope_scaling", None, "position_embedding_type"


_WORD = r"'[^'\\]*'|\"[^\"\\]*\"|[\w.+-]+"
_WORDS = re.compile(rf"\[(?:(?:{_WORD})(?:, ?|(?=\])))*\]")
"""A list of texts and numbers as Python prints it; a text with a backslash is none of these."""


def _corpus(text: str) -> str | None:
    """A corpus, or a blend of several with their weights, as one text; None for a list that cannot be read."""
    if not text.startswith("["):
        path = text
    elif _WORDS.fullmatch(text):
        path = " ".join(word[1:-1] if word[0] in "'\"" else word for word in re.findall(_WORD, text))
    else:
        return None
    return path if path.isprintable() else None


def _experts(said: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """Of a dense model the router's arguments say nothing."""
    found = said.get("num_experts", "")
    if found == "None":
        yield EXPERTS, 0, "num_experts"
    elif (experts := _count(found)) is not None:
        yield EXPERTS, experts if experts > 1 else 0, "num_experts"
        for name, (key, convert) in OF_EXPERTS.items():
            try:
                yield key, convert(said[name]), name
            except (ValueError, KeyError):
                continue  # not given, or None: not known


def _recomputed(said: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """Of which layers or modules activations are recomputed; older versions know of one module alone."""
    granularity, method = said.get("recompute_granularity"), said.get("recompute_method", "None")
    layers = _count(said.get("recompute_num_layers"))
    if granularity == "None":
        yield RECOMPUTE_EXTENT, NONE, "recompute_granularity"
    elif granularity == "selective":
        modules = _MODULE.findall(said.get("recompute_modules", "None"))
        extent = "core_attn" if modules in ([], ["None"]) else ", ".join(sorted(modules))
        yield RECOMPUTE_EXTENT, extent, "recompute_granularity"
    elif granularity == "full" and method != "None" and layers is not None:
        yield RECOMPUTE_EXTENT, f"{method} {layers}", "recompute_method"
