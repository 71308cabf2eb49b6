"""The built-in trainer."""

import re
from collections.abc import Iterator

from steelyard.frameworks.logs.dialect import Dialect, Entry, Place, event, text_of
from steelyard.frameworks.logs.fields import Field
from steelyard.frameworks.native.facts import FACTS
from steelyard.records.step import Event

START = "steelyard trainer | "
"""What the trainer's first line begins with."""
_START = b"^" + re.escape(START.encode())

_SAME_NAME = ("tokens", "loss", "grad_norm", "learning_rate", "step_time_s", "memory_gib")
_RATE = "reported_tokens_per_s_per_gpu"


def _started(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
    """A line of `name: value` pairs."""
    text = text_of(match.string, 10_000)
    pairs = (part.partition(": ") for part in text.removeprefix(START).split(" | "))
    details = {name: value for name, _, value in pairs}
    yield Event(kind="started", message=text, node=place.origin.node, source=place.evidence, details=details)


NATIVE = Dialect(
    name=FACTS.name,
    framework=FACTS.name,
    opening=rb"^\s*step:\s+\d",
    words=(rb"step: ", rb"steelyard trainer", rb"training finished"),
    mark=re.compile(rb"^(?:\[rank\d+\]: )?step: (?P<step>\d{1,12})/(?P<total>\d{1,12}) (?=\|)"),
    separator=b"|",
    fields={**{name.encode(): Field(name) for name in _SAME_NAME}, b"tokens_per_s_per_gpu": Field(_RATE)},
    required=(*_SAME_NAME, _RATE),
    texts={b"memory_kind: ": "memory_kind", b"time: ": "time"},
    interval=1,
    others={_START: _started, FACTS.end_marker: event("finished")},
    start=_START,
    companions=(_START,),
)

DIALECTS = (NATIVE,)
