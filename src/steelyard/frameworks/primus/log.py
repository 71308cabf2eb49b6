"""Primus on Megatron, v0.1 to v26.5: `inst/avg` pairs, and device memory in one of five places."""

import re
from collections.abc import Iterator
from dataclasses import replace

from steelyard.frameworks.logs.dialect import Entry, Place, event
from steelyard.frameworks.logs.failures import ECHO, failed
from steelyard.frameworks.logs.fields import Shape, whole_number
from steelyard.frameworks.megatron_family import log as family
from steelyard.frameworks.primus.facts import FACTS

_PREFIX = re.compile(rb"\[(?:\x1b\[\d+m)*rank-\d+/\d+(?:\x1b\[\d+m)*\]")
_DATED = re.compile(rb"\[(?:\x1b\[\d+m)*\d{8} \d\d:\d\d:\d\d")
_MEMORY = b"hip mem usage/free/total/usage_ratio"


def _claims(shape: Shape, before: bytes) -> bool:
    marks = shape.paired or _MEMORY in shape.labels or b"tokens/s/GPU inst/harmonic mean" in shape.labels
    return marks or bool(_PREFIX.search(before))


def _era(shape: Shape, before: bytes) -> str:
    if b"mem usages" in shape.labels:
        return "v0.1"
    if {b"tokens/s/GPU inst/harmonic mean", b"compute per GPU (TFLOP/s/GPU)"} & shape.labels:
        return "v26.5 or newer"
    if b"throughput per GPU" in shape.labels:
        return "v26.2 to v26.4, core runtime"
    if any(b"max mem usage" in label for label in shape.labels):
        return "v0.6 to v26.4, legacy trainer"
    return "v0.2 to v0.5" if _DATED.search(before) or _MEMORY in shape.labels else ""


def _exited(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
    if whole_number(match["code"]):
        yield failed("exit", match.string, place, ECHO)
    else:
        yield place.event("launcher_finished", match.string)


PRIMUS = replace(
    family.BASE,
    name=FACTS.name,
    framework=FACTS.name,
    precedence=8,
    words=(*family.WORDS, rb"launcher exited", rb"torchrun finished"),
    telltales=(rb"primus", rb"rank-"),
    claims=_claims,
    era=_era,
    card=re.compile(
        rb"mem usage/free/total/usage_ratio:\s*[\d.]{1,12}Gi?B/[\d.]{1,12}Gi?B/(?P<gib>\d{1,6}(?:\.\d{1,6})?)Gi?B/"
    ),
    memory_kind=FACTS.memory_kind,
    counts_first_again=family.MICROSECONDS,
    others={
        rb"primus launcher exited with code (?P<code>\d+)": _exited,
        rb"torchrun finished successfully": event("launcher_finished"),
    },
    companions=(rb"\[rank-\d+/\d+\]\[\w+ *\]", rb"primus launcher"),
)

DIALECTS = (PRIMUS,)
