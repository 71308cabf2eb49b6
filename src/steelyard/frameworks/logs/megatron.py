"""Megatron-LM, core 0.2 to 0.20."""

import re
from dataclasses import replace

from steelyard.frameworks.logs import megatron_family as family
from steelyard.frameworks.logs.fields import Shape

_SECONDS = re.compile(rb"\d\d:\d\d:\d\d\] $")


def _era(shape: Shape, before: bytes) -> str:
    if family.MICROSECONDS.search(before):
        return "core 0.16 or newer"
    if b"energy per GPU (J/iter/GPU)" in shape.labels:
        return "core 0.13 to 0.15"
    if _SECONDS.search(before):
        return "core 0.6 to 0.15"
    return "core 0.5 or older"


DIALECT = replace(
    family.BASE,
    name="megatron",
    framework="megatron",
    era=_era,
    formulas={
        "": ("causal", "noncausal"),
        "core 0.5 or older": ("noncausal",),
        "core 0.13 to 0.15": ("causal",),
        "core 0.16 or newer": ("causal",),
    },
    counts_first_again=family.MICROSECONDS,
    others=family.OTHERS,
    companions=(re.compile(rb"-{3,} arguments -{3,}"), re.compile(rb"megatron\.(?:core|training)\b")),
)
