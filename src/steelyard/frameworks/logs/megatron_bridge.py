"""Megatron-Bridge: rank 0's `Step Time` line beside the last rank's Megatron line."""

import re
from collections.abc import Iterator
from dataclasses import replace

from steelyard.frameworks.logs import megatron_family as family
from steelyard.frameworks.logs.dialect import GIB, Known, Place, Said, memory

UTILIZATION = re.compile(
    rb"Step Time : (?P<seconds>\d+(?:\.\d+)?)s GPU utilization: (?P<tflops>\d+(?:\.\d+)?)MODEL_TFLOP/s/GPU"
)


def _memory_gb(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    yield memory(float(found["reserved"]) * 1e9 / GIB, family.RESERVED_PEAK, place, found.string)


DIALECT = replace(
    family.BASE,
    name="megatron-bridge",
    framework="megatron-bridge",
    claims=lambda shape, before: False,  # its step line is Megatron's; the lines beside it tell
    formulas={"": ("causal",)},
    others=(
        Known(
            re.compile(rb"memory \(GB\) \|.{0,600}\bmem-max-reserved-gigabytes: (?P<reserved>\d+(?:\.\d+)?)"),
            _memory_gb,
        ),
    ),
    companions=(UTILIZATION, re.compile(rb"memory \(GB\) \| mem-"), re.compile(rb"\bmegatron[./]bridge\b")),
)
