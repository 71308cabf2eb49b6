"""Steps and events: the content of a log, for all later stages."""

import math
import reprlib
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

LineNumber = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
StepNumber = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
StepCount = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
TokenCount = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
"""Limits beyond any real run; larger values are refused."""

NONFINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Names of values that JSON does not have."""


NOTICES = (
    "restart",
    "repeated",
    "broken_file",
    "config_differs",
    "folder_differs",
    "plan_differs",
    "setting_changed",
    "setting_overridden",
    "left_out",
    "unread_columns",
    "dialects",
    "nodes_differ",
    "several_runs",
)
"""Kinds of events that are shown in addition to the findings."""


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """A file of the run directory and a line, counted from 1."""

    file: str
    line: LineNumber


class Step(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The record of one optimizer step, or of several. None means not recorded; NaN was recorded as NaN."""

    step: StepNumber
    """Optimizer steps, counted from 1."""
    reported_step: int | None = None
    steps_covered: StepCount = msgspec.field(default_factory=lambda: 1)  # a factory, so that the value is written
    """Values are means over this many steps."""
    tokens: TokenCount | None = None
    """Tokens of one step over all ranks."""
    loss: float | None = None
    grad_norm: float | None = None
    learning_rate: float | None = None
    step_time_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    """Computed: tokens / step_time_s / GPUs."""
    tflops_per_gpu: float | None = None
    """Computed: tokens_per_s_per_gpu x FLOPs per token by the causal formula."""
    memory_gib: float | None = None
    memory_kind: str | None = None
    memory_fraction: float | None = None
    """Share of the GPU's memory, if the source contains only a share."""
    skipped: TokenCount | None = None
    """Skipped optimizer steps among the covered ones."""
    reported_tokens_per_s_per_gpu: float | None = None
    reported_tflops_per_gpu: float | None = None
    node: str | None = None
    rank: int | None = None
    time: str | None = None
    source: Evidence | None = None
    flags: tuple[str, ...] = msgspec.field(default_factory=lambda: ())

    def derived(self, world_size: int, flops_per_token: float | None) -> "Step":
        """The step with computed rates, if tokens and step time are known."""
        if self.tokens is None or not self.step_time_s or not math.isfinite(self.step_time_s):
            return self
        rate = self.tokens / self.step_time_s / world_size
        tflops = None if flops_per_token is None else rate * flops_per_token / 1e12
        return replace(self, tokens_per_s_per_gpu=rate, tflops_per_gpu=tflops)

    def nonfinite(self) -> tuple[str, ...]:
        """Names of values that are NaN or infinite."""
        return tuple(_nonfinite(self))


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Anything that happened, other than a step."""

    kind: str
    """started, finished, unread_line, nan, oom, error, interrupted …"""
    message: str
    step: StepNumber | None = None
    node: str | None = None
    time: str | None = None
    source: Evidence | None = None
    details: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Values by name. A reader treats a value of an unexpected type as missing."""

    def text(self, name: str) -> str | None:
        """The detail if it is text."""
        value = self.details.get(name)
        return value if isinstance(value, str) else None

    def number(self, name: str) -> float | int | None:
        """The detail if it is a finite number."""
        value = self.details.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        return value if abs(value) < MOST_DETAIL else None

    def whole(self, name: str) -> int | None:
        """The detail if it is an integer."""
        value = self.number(name)
        return value if isinstance(value, int) else None

    def scalar(self, name: str) -> float | int | str | None:
        """The detail if it is text, a number or a flag."""
        value = self.details.get(name)
        return value if isinstance(value, str | bool) else self.number(name)


MOST_DETAIL = 1e300
"""Larger numbers overflow: their products are infinite, and integers do not fit into floats."""


def _fields_of(*kinds: Any) -> tuple[str, ...]:
    return tuple(name for name, kind in Step.__annotations__.items() if kind in kinds)


METRICS = _fields_of(float | None, TokenCount | None)
"""Numbers of a step, which may be NaN."""

DERIVED = ("tokens_per_s_per_gpu", "tflops_per_gpu")
"""Computed by us; the source's own values have the same name with `reported_`."""

LOGGED = tuple(name for name in METRICS if name not in DERIVED)
"""Values of a step line; each framework's `log.py` has their labels."""

COLUMNS = tuple(name for name in METRICS if name not in ("tflops_per_gpu", "memory_fraction"))
"""Columns kept for all steps, without those that are a constant multiple of another."""

REPEATED = ("learning_rate", "memory_gib", "skipped")
"""Metrics that runs of one plan share: equal values do not show that one run is a copy of another."""

FIGURES = tuple(name for name in COLUMNS if name not in (*DERIVED, *REPEATED))
"""The metrics by which a copy of a run is recognized. Derived ones change with the GPUs a user states for a log."""

WHOLE_NUMBERS = _fields_of(int | None, StepNumber, StepCount, TokenCount | None)

COUNTS = tuple(name for name in LOGGED if name in WHOLE_NUMBERS)
"""Metrics that are integers."""

_encode = msgspec.json.Encoder().encode


def to_line(record: Step | Event) -> bytes:
    """One line of strict JSON: missing values are omitted, non-finite ones are null and listed in `nonfinite`."""
    line = _encode(record)
    if b":null" not in line:  # missing values are omitted, so a null is a non-finite value
        return line + b"\n"
    words = _nonfinite(record)
    return _encode({**msgspec.to_builtins(record), **({"nonfinite": words} if words else {})}) + b"\n"


def _nonfinite(record: Step | Event) -> dict[str, str]:
    values = {name: getattr(record, name) for name in record.__struct_fields__}
    return {
        name: "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        for name, value in values.items()
        if isinstance(value, float) and not math.isfinite(value)
    }


def step_of(content: dict[str, Any]) -> Step:
    """The step of a parsed line; unknown keys are ignored, an invalid value is a ValueError."""
    step = msgspec.convert(content, Step)
    values: dict[str, Any] = {}
    for name, word in dict(content.get("nonfinite") or {}).items():
        if not isinstance(word, str) or word not in NONFINITE:
            raise ValueError(f"nonfinite.{name} is {reprlib.repr(word)}, expected one of {', '.join(NONFINITE)}")
        if name in METRICS:
            values[name] = NONFINITE[word]
    return replace(step, **values) if values else step


def event_of(content: dict[str, Any]) -> Event:
    """The event of a parsed line, with the same rules."""
    return msgspec.convert(content, Event)
