"""The built-in trainer."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from steelyard.frameworks.logs.dialect import Dialect, Known, Place, Said, event, text_of
from steelyard.frameworks.logs.fields import Field
from steelyard.frameworks.native.facts import FACTS
from steelyard.records.step import Event

START = "steelyard trainer | "
"""What the trainer's first line begins with."""

FIELDS: Mapping[bytes, Field] = MappingProxyType(
    {
        b"tokens": Field("tokens"),
        b"loss": Field("loss"),
        b"grad_norm": Field("grad_norm"),
        b"learning_rate": Field("learning_rate"),
        b"step_time_s": Field("step_time_s"),
        b"memory_gib": Field("memory_gib"),
        b"tokens_per_s_per_gpu": Field("reported_tokens_per_s_per_gpu"),
    }
)


def _pairs(text: str) -> dict[str, str]:
    """A line of `name: value` pairs."""
    return {name: value for name, _, value in (part.partition(": ") for part in text.split(" | "))}


def _started(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    text = text_of(found.string, 10_000)
    details = _pairs(text.removeprefix(START))
    yield Event(kind="started", message=text, node=place.origin.node, source=place.evidence, details=details)


NATIVE = Dialect(
    name=FACTS.name,
    framework=FACTS.name,
    opening=rb"^\s*step:\s+\d",
    words=(rb"step: ", rb"steelyard trainer", rb"training finished"),
    mark=re.compile(rb"^(?:\[rank\d+\]: )?step: (?P<step>\d{1,12})/(?P<total>\d{1,12}) (?=\|)"),
    separator=b"|",
    fields=FIELDS,
    required=(
        "tokens",
        "loss",
        "grad_norm",
        "learning_rate",
        "step_time_s",
        "memory_gib",
        "reported_tokens_per_s_per_gpu",
    ),
    texts=MappingProxyType({b"memory_kind: ": "memory_kind", b"time: ": "time"}),
    interval=1,
    others=(
        Known(re.compile(rb"^" + START.encode().replace(b"|", rb"\|")), _started),
        Known(re.compile(FACTS.end_marker), event("finished")),
    ),
    companions=(re.compile(rb"^" + START.encode().replace(b"|", rb"\|")),),
)

DIALECTS = (NATIVE,)
