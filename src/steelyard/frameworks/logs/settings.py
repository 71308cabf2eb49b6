"""Logged settings: their keys, a setting with its line, and the last value of each."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from steelyard.experiment.keys import STATED
from steelyard.experiment.problems import spelt
from steelyard.frameworks.logs.fields import whole_number
from steelyard.hardware.catalog import CPU, same_gpu
from steelyard.records.step import Event, Evidence


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that the training program printed: the value in force, independent of any config."""

    key: str
    """A dotted key of the experiment, or one of those below."""
    value: Any
    source: Evidence

    @property
    def takes_back(self) -> bool:
        """Whether it retracts the earlier value: a step is beyond the planned steps."""
        return self.value is None and self.key == "training.steps"


WORLD_SIZE = "platform.world_size"
GPU_NAME = "platform.gpu_name"
GPU_GIB = "platform.gpu_gib"
LOG_INTERVAL = "log_interval"
PADDED_VOCABULARY = "padded_vocab_size"
MASKED_EOD = "eod_mask_loss"
RAMP_UP = "rampup_batch_size"
EXPERTS = "num_experts"
EXPERTS_PER_TOKEN = "moe_router_topk"
EXPERT_WIDTH = "moe_ffn_hidden_size"
SHARED_EXPERT_WIDTH = "moe_shared_expert_intermediate_size"
EXPERT_CAPACITY = "moe_expert_capacity_factor"
EXPERT_LAYERS = "moe_layer_freq"
FORCED_BALANCE = "moe_router_force_load_balancing"
TOKENS_AHEAD = "mtp_num_layers"
QK_NORM = "qk_layernorm"
ATTENTION_WINDOW = "attention_window"
WINDOWLESS_LAYERS = "window_attn_skip_freq"
LATENT_ATTENTION = "multi_latent_attention"
ATTENTION_VARIANT = "experimental_attention_variant"
LAYER_PATTERN = "hybrid_layer_pattern"
ATTENTION_GATE = "attention_output_gate"
PACKED_SEQUENCES = "packed_sequences"
RESET_MASK = "reset_attention_mask"
RESET_POSITIONS = "reset_position_ids"
PACKING = "packing"
TRAINED_SHARE = "trained_share"
RECOMPUTE_EXTENT = "recompute_extent"
OPTIMIZER_OFFLOAD = "optimizer_cpu_offload"
PRECISION_AWARE_OPTIMIZER = "use_precision_aware_optimizer"
FIRST_MOMENT_DTYPE = "exp_avg_dtype"
SECOND_MOMENT_DTYPE = "exp_avg_sq_dtype"
MAIN_WEIGHTS_DTYPE = "main_params_dtype"
MAIN_GRADIENTS_DTYPE = "main_grads_dtype"
OPTIMIZER = "optimizer"
HIDDEN_DROPOUT = "hidden_dropout"
ATTENTION_DROPOUT = "attention_dropout"
VERSION = "version"
ARGUMENTS = "arguments"
"""Arguments that determine no key of ours, by name."""


SAME_SHARE = 0.05
"""Tolerance between shares of trained tokens, which vary by batch."""


def flag(text: str) -> bool:
    """A boolean as Python prints it; KeyError for anything else."""
    return {"True": True, "False": False}[text]


NONE = "none"
"""The value of a part that a model does not have; null would mean unknown."""


def or_none(text: str) -> str:
    """A text; None means not used."""
    return NONE if text in ("None", "") else text


def stored(text: str) -> str:
    """A number format in our spelling; KeyError for any other."""
    return {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "uint8": "fp8"}[text.removeprefix("torch.")]


def how_many(text: str) -> int:
    """A count; None means 0."""
    return 0 if text == "None" else whole_number(text)


SHAPING = frozenset({RAMP_UP, *(name.partition(".")[2] for name in STATED)})
"""Logged keys that shape a run and have no experiment key."""

UNCOUNTED = (
    *(EXPERTS, TOKENS_AHEAD, ATTENTION_WINDOW, ATTENTION_GATE, PACKED_SEQUENCES),
    *(LATENT_ATTENTION, ATTENTION_VARIANT, LAYER_PATTERN),
)
"""Parts of a model whose FLOPs our formulas do not count, or not as every framework does."""


def shaping(key: str, value: Any, source: Evidence) -> Iterator[Setting]:
    """A setting of `SHAPING`. An uncounted part also becomes a model key, so that FLOPs stay unknown."""
    yield Setting(key, value, source)
    if key in UNCOUNTED and value and value != NONE:
        yield Setting(f"model.{key}", value, source)


SAME_CARD = 0.06
"""Tolerance between two figures of one GPU's memory: drivers and tools reserve some percent, and the nearest two sizes
on the market (180 and 192 GB) differ by 7%. A partition of a GPU counts as another GPU."""


@dataclass(slots=True)
class LoggedSettings:
    """The settings of one log, by key."""

    last: dict[str, Setting] = field(default_factory=dict)
    changed: dict[str, Event] = field(default_factory=dict)
    """The first change of each setting."""
    arguments: dict[str, str] = field(default_factory=dict)

    def take(self, setting: Setting) -> None:
        """Record a setting; the last value counts."""
        key, value = setting.key, setting.value
        if key == ARGUMENTS:
            self.arguments = {**self.arguments, **value}
            return
        if setting.takes_back:
            self.last.pop(key, None)
            return
        before = self.last.get(key)
        if before is not None and not same(key, before.value, value) and key not in self.changed:
            message = f"{key} changes from {spelt(before.value)} to {spelt(value)}"
            details = {"key": key}
            self.changed[key] = Event(kind="setting_changed", message=message, source=setting.source, details=details)
        self.last[key] = setting

    def whole(self, key: str) -> int | None:
        """A logged count."""
        value = self.last[key].value if key in self.last else None
        return value if type(value) is int else None


def same(key: str, value: Any, other: Any) -> bool:
    """Whether two values of a key are equal: numbers up to rounding, GPUs by catalog, memory sizes by tolerance."""
    if key == GPU_NAME:
        return (value == CPU) == (other == CPU) and same_gpu(str(value), str(other))
    if key == GPU_GIB:
        return math.isclose(value, other, rel_tol=SAME_CARD)
    if key == TRAINED_SHARE:
        return bool(abs(value - other) <= SAME_SHARE)
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, int | float) and isinstance(other, int | float):
        return math.isclose(value, other, rel_tol=1e-9)
    return bool(value == other)
