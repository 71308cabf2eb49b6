"""Megatron-DeepSpeed, and the BigScience fork that prints seconds."""

import re
from collections.abc import Iterator
from dataclasses import replace

from steelyard.frameworks.logs.dialect import Known, Place, Said, memory
from steelyard.frameworks.logs.fields import Shape
from steelyard.frameworks.megatron_deepspeed.facts import FACTS
from steelyard.frameworks.megatron_family import log as family

_OWN = {
    b"consumed tokens",
    b"samples per second",
    b"tokens per gpu per second (tgs)",
    b"elapsed time per iteration (s)",
}


def _claims(shape: Shape, before: bytes) -> bool:
    return bool(_OWN & shape.labels)


def _era(shape: Shape, before: bytes) -> str:
    return "BigScience, in seconds" if b"elapsed time per iteration (s)" in shape.labels else ""


def _timer(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    yield memory(float(found["gib"]), FACTS.memory_kind, place, found.string)


MEGATRON_DEEPSPEED = replace(
    family.BASE,
    name=FACTS.name,
    framework=FACTS.name,
    precedence=7,
    words=(*family.WORDS, rb"MaxMemAllocated"),
    telltales=(rb"log_dist",),
    claims=_claims,
    era=_era,
    others=(Known(re.compile(rb"\bMaxMemAllocated=(?P<gib>\d+(?:\.\d+)?)GB"), _timer),),
    companions=(re.compile(rb"\[logging\.py:\d+:log_dist\]"), re.compile(rb"\bMaxMemAllocated=")),
)

DIALECTS = (MEGATRON_DEEPSPEED,)
