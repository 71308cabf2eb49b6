"""Megatron-Bridge: rank 0's `Step Time` line beside the last rank's Megatron line."""

import re
from collections.abc import Iterator
from dataclasses import replace

from steelyard.frameworks.logs.dialect import GIB, Known, Place, Said, memory
from steelyard.frameworks.megatron.facts import FACTS as MEGATRON
from steelyard.frameworks.megatron_bridge.facts import FACTS
from steelyard.frameworks.megatron_family import log as family

UTILIZATION = re.compile(
    rb"Step Time : (?P<seconds>\d+(?:\.\d+)?)s GPU utilization: (?P<tflops>\d+(?:\.\d+)?)MODEL_TFLOP/s/GPU"
)


def _memory_gb(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    yield memory(float(found["reserved"]) * 1e9 / GIB, FACTS.memory_kind, place, found.string)


MEGATRON_BRIDGE = replace(
    family.BASE,
    name=FACTS.name,
    framework=FACTS.name,
    precedence=6,
    prints_lines_of=MEGATRON.name,
    rate_line=UTILIZATION,
    words=(*family.WORDS, rb"Step Time :", rb"memory \(GB\)"),
    telltales=(rb"megatron",),
    claims=lambda shape, before: False,  # its step line is Megatron's; the lines beside it tell
    others=(
        Known(
            re.compile(rb"memory \(GB\) \|.{0,600}\bmem-max-reserved-gigabytes: (?P<reserved>\d+(?:\.\d+)?)"),
            _memory_gb,
        ),
    ),
    companions=(UTILIZATION, re.compile(rb"memory \(GB\) \| mem-"), re.compile(rb"\bmegatron[./]bridge\b")),
)

DIALECTS = (MEGATRON_BRIDGE,)
