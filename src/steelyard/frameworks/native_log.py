"""Reads the log of the built-in trainer."""

import re
from collections.abc import Iterator

from steelyard.records.step import Event, Evidence, Step

START = "steelyard trainer | "
"""What the trainer's first line begins with."""

_STEP = re.compile(r"step: (?P<step>\d+)/(?P<steps>\d+) \| (?P<fields>.+)")
_LOOKS_LIKE_A_STEP = re.compile(r"\s*step: \d")
_OUT_OF_MEMORY = re.compile(
    r"torch(\.cuda)?\.OutOfMemoryError|(CUDA|HIP) out of memory|DefaultCPUAllocator: can't allocate"
)
_RANK = re.compile(r"^\[rank\d+\]: ")
_RAISED = re.compile(r"(?P<kind>[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit))(: (?P<message>.*))?")


class NativeReader:
    """Reads the trainer's lines, and the exception that ended it if one did."""

    def __init__(self, log: str) -> None:
        self._log = log
        self._in_traceback = False

    def feed(self, line: int, text: str) -> Iterator[Step | Event]:
        at, text = Evidence(self._log, line), _RANK.sub("", text)
        if found := _STEP.fullmatch(text):
            yield _step(found, at)
        elif _LOOKS_LIKE_A_STEP.match(text):
            yield Event(kind="unread_line", message=f"not readable as a step: {text[:200]!r}", source=at)
        elif text.startswith(START):
            yield Event(kind="started", message=text, source=at, details=_said(text.removeprefix(START)))
        elif text.startswith("training finished"):
            yield Event(kind="finished", message=text, source=at)
        else:
            yield from self._failure(text, at)

    def _failure(self, text: str, at: Evidence) -> Iterator[Event]:
        if text.startswith("Traceback (most recent call last)"):
            self._in_traceback = True
        elif _OUT_OF_MEMORY.search(text):
            self._in_traceback = False
            yield Event(kind="oom", message=text[:500], source=at)
        elif self._in_traceback and _RAISED.fullmatch(text):
            self._in_traceback = False
            yield Event(kind="error", message=text[:500], source=at)


_NUMBERS = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "step_time_s": "step_time_s",
    "memory_gib": "memory_gib",
    "tokens_per_s_per_gpu": "reported_tokens_per_s_per_gpu",
}
"""Fields of the line that are numbers, and what the step calls them."""


def _step(found: re.Match[str], at: Evidence) -> Step | Event:
    said = _said(found["fields"])
    try:
        numbers = {ours: float(said[theirs]) for theirs, ours in _NUMBERS.items()}
        return Step(
            step=int(found["step"]),
            reported_step=int(found["step"]),
            tokens=int(said["tokens"]),
            memory_kind=said["memory_kind"],
            time=said["time"],
            rank=0,
            source=at,
            **numbers,  # type: ignore[arg-type]
        )
    except KeyError as missing:
        reason = f"no field {missing}"
    except ValueError as wrong:
        reason = str(wrong)
    return Event(kind="unread_line", message=f"step {found['step']}: {reason}", step=int(found["step"]), source=at)


def _said(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition(": ") for part in text.split(" | "))}
