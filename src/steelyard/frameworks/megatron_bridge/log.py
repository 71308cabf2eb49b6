"""Megatron-Bridge: a `Step Time` line of rank 0, and a Megatron line of the last rank."""

import re
from dataclasses import replace

from steelyard.frameworks.logs.dialect import GIB, memory
from steelyard.frameworks.megatron.facts import FACTS as MEGATRON
from steelyard.frameworks.megatron_bridge.facts import FACTS
from steelyard.frameworks.megatron_family import log as family

_UTILIZATION = rb"Step Time : (?P<seconds>\d+(?:\.\d+)?)s GPU utilization: (?P<tflops>\d+(?:\.\d+)?)MODEL_TFLOP/s/GPU"

MEGATRON_BRIDGE = replace(
    family.BASE,
    name=FACTS.name,
    framework=FACTS.name,
    precedence=6,
    prints_lines_of=MEGATRON.name,
    rate_line=re.compile(_UTILIZATION),
    words=(*family.WORDS, rb"Step Time :", rb"memory \(GB\)"),
    telltales=(rb"megatron",),
    claims=lambda shape, before: False,  # its step line is Megatron's; other lines identify it
    others={
        rb"memory \(GB\) \|.{0,600}\bmem-max-reserved-gigabytes: (?P<memory>\d+(?:\.\d+)?)": memory(
            FACTS.memory_kind, lambda gb: gb * 1e9 / GIB
        )
    },
    companions=(_UTILIZATION, rb"memory \(GB\) \| mem-", rb"\bmegatron[./]bridge\b"),
)

DIALECTS = (MEGATRON_BRIDGE,)
