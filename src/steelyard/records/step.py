"""A step and an event: what a log says, as every later stage reads it."""

import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

LineNumber = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
StepNumber = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
StepCount = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
TokenCount = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
"""Bounds no run reaches: what lies beyond is no record of one."""

NONFINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""The names JSON lacks."""


FAILURES = ("oom", "xid", "ecc", "gpu_hang", "nan_abort", "nccl", "xla", "crash", "error", "exit", "fatal", "node_lost")
"""Kinds of events that end a run or should have."""


NOTICES = (
    "restart",
    "repeated",
    "broken_file",
    "config_differs",
    "plan_differs",
    "setting_changed",
    "left_out",
    "unread_columns",
    "dialects",
    "nodes_differ",
)
"""Kinds of events that a person should know of beside the findings."""


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """Where a statement comes from: a file of the run directory, and its 1-based line."""

    file: str
    line: LineNumber


class Step(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One optimizer step's record. None is a value the source did not give; NaN one it gave as NaN."""

    step: StepNumber
    """1-based count of optimizer steps."""
    reported_step: int | None = None
    steps_covered: StepCount = msgspec.field(default_factory=lambda: 1)  # written out, where a plain one is left out
    """Values are means over so many steps."""
    tokens: TokenCount | None = None
    """Tokens of one step over all ranks."""
    loss: float | None = None
    grad_norm: float | None = None
    learning_rate: float | None = None
    step_time_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    """Ours: tokens / step_time_s / GPUs."""
    tflops_per_gpu: float | None = None
    """Ours: tokens_per_s_per_gpu x the causal formula's FLOPs per token."""
    memory_gib: float | None = None
    memory_kind: str | None = None
    memory_fraction: float | None = None
    """Of the device, where the source gives no more than a share."""
    skipped: TokenCount | None = None
    """Optimizer steps skipped among those it covers."""
    reported_tokens_per_s_per_gpu: float | None = None
    reported_tflops_per_gpu: float | None = None
    node: str | None = None
    rank: int | None = None
    time: str | None = None
    source: Evidence | None = None
    flags: tuple[str, ...] = msgspec.field(default_factory=lambda: ())

    def derived(self, world_size: int, flops_per_token: float | None) -> "Step":
        """With our own rates, where tokens and time are known."""
        if self.tokens is None or not self.step_time_s or not math.isfinite(self.step_time_s):
            return self
        rate = self.tokens / self.step_time_s / world_size
        tflops = None if flops_per_token is None else rate * flops_per_token / 1e12
        return replace(self, tokens_per_s_per_gpu=rate, tflops_per_gpu=tflops)

    def nonfinite(self) -> tuple[str, ...]:
        """Names of the values that are NaN or infinite."""
        return tuple(_nonfinite(self))


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened beside the steps."""

    kind: str
    """started, finished, unread_line, nan, oom, error, interrupted …"""
    message: str
    step: StepNumber | None = None
    node: str | None = None
    time: str | None = None
    source: Evidence | None = None
    details: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """What a reader of a kind looks for; a value of another type than it expects counts as not given."""

    def text(self, name: str) -> str | None:
        """A detail that is text."""
        value = self.details.get(name)
        return value if isinstance(value, str) else None

    def number(self, name: str) -> float | int | None:
        """A detail that is a finite number."""
        value = self.details.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        return value if abs(value) < MOST_DETAIL else None

    def whole(self, name: str) -> int | None:
        """A detail that is a whole number."""
        value = self.number(name)
        return value if isinstance(value, int) else None

    def scalar(self, name: str) -> float | int | str | None:
        """A detail that is text, a number or a flag."""
        value = self.details.get(name)
        return value if isinstance(value, str | bool) else self.number(name)


MOST_DETAIL = 1e300
"""Larger numbers cannot be reckoned with: products of two are infinite, and whole ones are no floats."""


def first_cause(failures: Iterable[Event]) -> Event | None:
    """The failure that came first, causes (order 0) ahead of what others echo of them."""
    return min(failures, key=lambda event: event.whole("order") or 0, default=None)


def outlived(events: Sequence[Event]) -> bool:
    """Whether every failure a log names came amid its steps, and was followed there by a restart and by its end."""
    failures = [event for event in events if event.kind in FAILURES]
    finished = [event.source for event in events if event.kind == "finished" and event.source is not None]
    if not failures or not finished:
        return False
    last, end = 0, finished[-1]
    for event in failures:
        if event.step is None or event.source is None or event.source.file != end.file:
            return False
        last = max(last, event.source.line)
    again = [event.source for event in events if event.kind in ("resumed", "restart") and event.source is not None]
    return any(at.file == end.file and last < at.line < end.line for at in again)


def _fields_of(*kinds: Any) -> tuple[str, ...]:
    return tuple(name for name, kind in Step.__annotations__.items() if kind in kinds)


METRICS = _fields_of(float | None, TokenCount | None)
"""The numbers a step may give, NaN among them."""

DERIVED = ("tokens_per_s_per_gpu", "tflops_per_gpu")
"""Worked out by us; what somebody else worked out is `reported_` and the same name."""

LOGGED = tuple(name for name in METRICS if name not in DERIVED)
"""What a step line may give: the labels that give it are in the `log.py` of each framework."""

COLUMNS = tuple(name for name in METRICS if name not in ("tflops_per_gpu", "memory_fraction"))
"""What is kept of all steps at once: not what follows from another column by one factor."""

WHOLE_NUMBERS = _fields_of(int | None, StepNumber, StepCount, TokenCount | None)

COUNTS = tuple(name for name in LOGGED if name in WHOLE_NUMBERS)
"""Metrics that are whole numbers."""

_encode = msgspec.json.Encoder().encode


def to_line(record: Step | Event) -> bytes:
    """One line of strict JSON: absent values are left out, non-finite ones are null and named beside."""
    line = _encode(record)
    if b":null" not in line:  # what was not given is left out, so a null is a value JSON has no name for
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
    """The step a parsed line describes; keys of a later version are passed over, a wrong one is a ValueError."""
    step = msgspec.convert(content, Step)
    values: dict[str, Any] = {}
    for name, word in dict(content.get("nonfinite") or {}).items():
        if not isinstance(word, str) or word not in NONFINITE:
            raise ValueError(f"nonfinite.{name} is {reprlib.repr(word)}, expected one of {', '.join(NONFINITE)}")
        if name in METRICS:
            values[name] = NONFINITE[word]
    return replace(step, **values) if values else step


def event_of(content: dict[str, Any]) -> Event:
    """The event a parsed line describes, read as leniently and as strictly."""
    return msgspec.convert(content, Event)
