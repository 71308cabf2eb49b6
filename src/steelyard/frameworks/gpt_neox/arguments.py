"""The arguments that GPT-NeoX prints, each with `default` or `updated` after its value."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from steelyard.frameworks.gpt_neox.facts import FACTS
from steelyard.frameworks.logs import settings
from steelyard.frameworks.logs.arguments import UnreadArguments
from steelyard.frameworks.logs.dialect import Entry, Place
from steelyard.frameworks.logs.fields import whole_number
from steelyard.frameworks.logs.settings import NONE, flag, shaping

Given = Mapping[str, str]
"""Text of each argument by name."""

_ARGUMENT = re.compile(rb"^\s{0,4}(?P<name>[a-z_][a-z0-9_]*) \.*+ ?(?P<value>\S.*?)(?<!\.)\.*+(?:default|updated)\s*$")
# possessive, and the dots after a value from their start: a line of dots takes linear time
_END = re.compile(rb"-{3,} end of arguments -{3,}")
_OF_DEEPSPEED = re.compile(rb"\[config\.py:\d+:print\]")
"""A line of the engine's own settings, which differ: its world size is the number of replicas."""
_BETAS = re.compile(r"'betas': [\[(]([\d.]+), ?([\d.]+)[\])]")
_EPSILON = re.compile(r"'eps': ([\d.]+(?:e-?\d+)?)")
_CORPUS = re.compile(r"\[?'?(?P<path>[^'\",\[\]]+)'?\]?")

Convert = Callable[[str], Any]


def _stages(text: str) -> int:
    return max(1, whole_number(text))


_SIMPLE: Mapping[str, tuple[str, Convert]] = {
    "num_layers": ("model.num_layers", whole_number),
    "hidden_size": ("model.hidden_size", whole_number),
    "num_attention_heads": ("model.num_attention_heads", whole_number),
    "max_position_embeddings": ("model.max_position_embeddings", whole_number),
    "no_weight_tying": ("model.tied_embeddings", lambda text: not flag(text)),
    "seq_length": ("training.sequence_length", whole_number),
    "train_iters": ("training.steps", whole_number),
    "train_batch_size": ("training.global_batch_size", whole_number),
    "train_micro_batch_size_per_gpu": ("training.micro_batch_size", whole_number),
    "gradient_accumulation_steps": ("training.gradient_accumulation_steps", whole_number),
    "lr": ("training.learning_rate", float),
    "min_lr": ("training.min_learning_rate", float),
    "lr_decay_style": ("training.schedule", str),
    "lr_decay_iters": ("training.decay_steps", whole_number),
    "weight_decay": ("training.weight_decay", float),
    "gradient_clipping": ("training.clip_grad_norm", lambda text: float(text) or None),
    "seed": ("training.seed", whole_number),
    "save": ("training.checkpointing", lambda text: text != "None"),
    "tensorboard_dir": ("training.tracking", lambda text: text != "None"),
    "model_parallel_size": ("parallelism.tensor_parallel_size", whole_number),
    "pipe_parallel_size": ("parallelism.pipeline_parallel_size", _stages),
    "sequence_parallel": ("parallelism.sequence_parallel", flag),
    "zero_stage": ("parallelism.distributed_optimizer", lambda text: whole_number(text) > 0),
    "precision": ("precision.dtype", {"fp16": "fp16", "bfloat16": "bf16", "fp32": "fp32"}.__getitem__),
    "split": ("data.split", str),
    "tokenizer_type": ("data.tokenizer_type", str),
    "vocab_file": ("data.tokenizer", str),
    "hidden_dropout": (settings.HIDDEN_DROPOUT, float),
    "attention_dropout": (settings.ATTENTION_DROPOUT, float),
    "optimizer_type": (settings.OPTIMIZER, str.lower),
    "use_qk_layernorm": (settings.QK_NORM, flag),
    "eod_mask_loss": (settings.MASKED_EOD, flag),
    "log_interval": (settings.LOG_INTERVAL, whole_number),
    "global_num_gpus": (settings.WORLD_SIZE, whole_number),
    "padded_vocab_size": (settings.PADDED_VOCABULARY, whole_number),
}
"""Arguments that determine one of our keys, with the conversion of their text."""

_TOGETHER = {
    *("hidden_size", "num_attention_heads", "num_kv_heads", "intermediate_size", "expansion_factor", "activation"),
    *("mlp_type", "norm", "layernorm_epsilon", "rms_norm_epsilon", "pos_emb", "rotary_emb_base", "use_mup"),
    *("init_method", "init_method_std", "warmup", "lr_decay_iters", "lr_decay_fraction", "train_iters", "optimizer"),
    *("checkpoint_activations", "checkpoint_num_layers", "moe_num_experts", "precision", "seed", "zero_stage"),
    *("data_path", "train_data_paths", "attention_config"),
}
"""Arguments that determine a key of ours only together."""


class Arguments:
    """Collects a dump of arguments, and interprets it at its end."""

    identifies = FACTS.name

    def __init__(self) -> None:
        self._together: dict[str, tuple[str, Place]] = {}
        self._open = False
        self._unread = UnreadArguments()
        self.ended = 0

    def take(self, body: bytes, place: Place) -> Iterator[Entry] | None:
        if match := _ARGUMENT.search(body):
            self._open = True
            return self._argument(match, place)
        if self._open and _END.search(body):
            self._open = False
            self.ended += 1
            return self._end(place)
        if self.ended and _OF_DEEPSPEED.search(body):
            return iter(())
        return None

    def close(self) -> Iterator[Entry]:
        return iter(())  # a dump has an end marker

    def _argument(self, match: re.Match[bytes], place: Place) -> Iterator[Entry]:
        name, text = match["name"].decode(), match["value"].decode("utf-8", "replace").strip()
        if name in _TOGETHER:
            self._together[name] = text, place
        if name not in _SIMPLE and name not in _TOGETHER:
            self._unread.add(name, text)
        if name in _SIMPLE and (text != "None" or name in ("save", "tensorboard_dir")):
            key, convert = _SIMPLE[name]
            try:
                yield from shaping(key, convert(text), place.evidence)
            except (ValueError, KeyError):
                return  # a value without an equivalent: unknown

    def _end(self, place: Place) -> Iterator[Entry]:
        together, self._together = self._together, {}
        for key, value, name in _meaning({name: text for name, (text, _) in together.items()}):
            yield from shaping(key, value, together[name][1].evidence)
        yield from self._unread.setting((), place.evidence)


def _count(given: Given, name: str) -> int | None:
    """A count; None for anything else."""
    try:
        return whole_number(given.get(name, ""))
    except ValueError:
        return None


def _number(given: Given, name: str) -> float | None:
    """A finite number; None for anything else."""
    try:
        value = float(given.get(name, ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _meaning(given: Given) -> Iterator[tuple[str, Any, str]]:
    """Settings from several arguments: key, value, and the argument for evidence."""
    yield from _model(given)
    yield from _optimizer(given)
    if given.get("checkpoint_activations") == "False":
        yield "training.recompute", "none", "checkpoint_activations"
        yield settings.RECOMPUTE_EXTENT, NONE, "checkpoint_activations"
    elif given.get("checkpoint_activations") == "True":
        yield "training.recompute", "full", "checkpoint_activations"
        if (layers := _count(given, "checkpoint_num_layers")) is not None:
            yield settings.RECOMPUTE_EXTENT, f"uniform {layers}", "checkpoint_num_layers"
    if "precision" in given:
        yield "precision.loss_scale", "dynamic" if given["precision"] == "fp16" else None, "precision"
        yield "precision.fp8", None, "precision"
    if (seed := _count(given, "seed")) is not None:
        yield "data.seed", seed, "seed"  # one seed for weights and data order
        yield "parallelism.context_parallel_size", 1, "seed"  # it has none
    if given.get("zero_stage") in ("0", "1", "2"):
        yield "parallelism.fsdp_size", 1, "zero_stage"
    for name in ("data_path", "train_data_paths"):
        if given.get(name, "None") != "None":
            yield "data.source", "tokens", name
            if (corpus := _CORPUS.fullmatch(given[name])) and corpus["path"].isprintable():
                yield "data.path", corpus["path"].strip(), name


def _model(given: Given) -> Iterator[tuple[str, Any, str]]:
    """Heads, architecture, width of the feed-forward block, and positions."""
    width, heads = _count(given, "hidden_size"), _count(given, "num_attention_heads")
    if width and heads and width % heads == 0:
        yield "model.head_dim", width // heads, "num_attention_heads"
    if heads:
        groups = _count(given, "num_kv_heads")
        yield "model.num_key_value_heads", groups or heads, "num_attention_heads"
    norm, activation = given.get("norm", ""), given.get("activation", "")
    architecture = None
    if activation == "gelu" and norm.endswith("layernorm"):
        architecture = "gpt"
    elif norm.endswith("rmsnorm") and (activation == "swiglu" or given.get("mlp_type") == "llama"):
        architecture = "llama"
    if architecture is not None:
        yield "model.architecture", architecture, "norm"
    if width and architecture is not None and (inside := _inside(given, width, architecture == "llama")):
        yield "model.ffn_hidden_size", inside, "hidden_size"
    epsilon = "rms_norm_epsilon" if norm == "rmsnorm" else "layernorm_epsilon" if norm == "layernorm" else ""
    if (value := _number(given, epsilon)) is not None:
        yield "model.norm_epsilon", value, epsilon
    if given.get("pos_emb") == "rotary" and (base := _number(given, "rotary_emb_base")) is not None:
        yield "model.rope_theta", base, "rotary_emb_base"
        yield "model.rope_scaling", None, "rotary_emb_base"
    elif given.get("pos_emb") == "learned":
        yield "model.rope_theta", None, "pos_emb"
        yield "model.rope_scaling", None, "pos_emb"
    experts = _count(given, "moe_num_experts")
    if experts is not None:
        yield settings.EXPERTS, experts if experts > 1 else 0, "moe_num_experts"
    kinds = set(re.findall(r"'(\w+)'", given.get("attention_config", "")))
    if kinds - {"global", "flash"}:
        yield settings.ATTENTION_VARIANT, ", ".join(sorted(kinds)), "attention_config"


def _inside(given: Given, width: int, gated: bool) -> int | None:
    """Width inside the feed-forward block, as megatron/model/transformer.py rounds it."""
    factor = _number(given, "expansion_factor")
    asked = _count(given, "intermediate_size") or int((factor or 4) * width)
    if gated:
        return -(-(int(asked * 2 / 3) // (1 if given.get("mlp_type") == "llama" else 2)) // 256) * 256
    return -(-asked // 512) * 512


def _optimizer(given: Given) -> Iterator[tuple[str, Any, str]]:
    """First weights, warm-up, and Adam's parameters."""
    width, method = _count(given, "hidden_size"), given.get("init_method")
    if given.get("use_mup", "False") == "False" and width:
        std = _number(given, "init_method_std") if method == "normal" else None
        std = math.sqrt(2 / (5 * width)) if method == "small_init" else std
        if std is not None:
            yield "training.init_method_std", std, "init_method"
    steps, share = _count(given, "lr_decay_iters") or _count(given, "train_iters"), _number(given, "warmup")
    if steps and share is not None and given.get("lr_decay_fraction", "None") == "None":
        yield "training.warmup_steps", round(share * steps), "warmup"
    optimizer = given.get("optimizer", "")
    if betas := _BETAS.search(optimizer):
        yield "training.adam_beta1", float(betas[1]), "optimizer"
        yield "training.adam_beta2", float(betas[2]), "optimizer"
    if epsilon := _EPSILON.search(optimizer):
        yield "training.adam_epsilon", float(epsilon[1]), "optimizer"
