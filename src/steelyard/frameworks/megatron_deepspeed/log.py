"""Megatron-DeepSpeed, and the BigScience fork, which prints seconds."""

from dataclasses import replace

from steelyard.frameworks.logs.dialect import memory
from steelyard.frameworks.logs.fields import Shape
from steelyard.frameworks.megatron_deepspeed.facts import FACTS
from steelyard.frameworks.megatron_family import log as family

_IN_SECONDS = b"elapsed time per iteration (s)"
_OWN = {b"consumed tokens", b"samples per second", b"tokens per gpu per second (tgs)", _IN_SECONDS}


def _era(shape: Shape, before: bytes) -> str:
    return "BigScience, in seconds" if _IN_SECONDS in shape.labels else ""


MEGATRON_DEEPSPEED = replace(
    family.BASE,
    name=FACTS.name,
    framework=FACTS.name,
    precedence=7,
    words=(*family.WORDS, rb"MaxMemAllocated"),
    telltales=(rb"log_dist",),
    claims=lambda shape, before: bool(_OWN & shape.labels),
    era=_era,
    others={
        rb"\bglobal_step=(?P<step>\d+).{0,300}\bMaxMemAllocated=(?P<memory>\d+(?:\.\d+)?)GB": memory(FACTS.memory_kind),
        rb"\bMaxMemAllocated=(?P<memory>\d+(?:\.\d+)?)GB": memory(FACTS.memory_kind),
    },
    companions=(rb"\[logging\.py:\d+:log_dist\]", rb"\bMaxMemAllocated="),
)

DIALECTS = (MEGATRON_DEEPSPEED,)
