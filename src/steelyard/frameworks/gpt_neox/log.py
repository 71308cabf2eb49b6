"""GPT-NeoX: Megatron's step line with `samples/sec` before it and `lm_loss` in it, every log_interval steps."""

import re
from collections.abc import Iterator
from dataclasses import replace

from steelyard.frameworks.gpt_neox.arguments import Arguments
from steelyard.frameworks.gpt_neox.facts import FACTS
from steelyard.frameworks.logs.dialect import Entry, Place, at_step, event, memory, states
from steelyard.frameworks.logs.fields import Shape
from steelyard.frameworks.logs.settings import PADDED_VOCABULARY
from steelyard.frameworks.megatron_family import log as family

_FLOPS = b"approx flops per GPU"


def _era(shape: Shape, before: bytes) -> str:
    return "2024-12 or newer" if b"MFU" in shape.labels else ""


def _nothing(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
    """The line of DeepSpeed's pipeline engine, which prints the same steps once more."""
    return iter(())


GPT_NEOX = replace(
    family.BASE,
    name=FACTS.name,
    framework=FACTS.name,
    precedence=8,
    words=(
        *family.WORDS,
        rb"padded vocab|memory \(MB\)|results at|exiting the program|NeoXArgs|(?:default|updated)$",
        rb"[Cc]heckpoint|successfully loaded",
    ),
    telltales=(rb"NeoXArgs", rb"neox"),
    claims=lambda shape, before: _FLOPS in shape.labels or b"samples/sec" in before,
    era=_era,
    dump=Arguments,
    others={
        rb"padded vocab \(size: (?P<size>\d+)\) with \d+ dummy tokens \(new size: (?P<padded>\d+)\)": states(
            size="model.vocab_size", padded=PADDED_VOCABULARY
        ),
        rb"memory \(MB\) \|.{0,300}\bmax reserved: (?P<memory>\d+(?:\.\d+)?)": memory(
            FACTS.memory_kind, lambda mb: mb / 1024
        ),
        FACTS.end_marker: event("finished"),
        rb"exiting the program at iteration \d+": event("exited_early"),
        rb"validation results at iteration (?P<step>\d+)\b[^|]*\|"
        rb"(?: lm_loss value: (?P<loss>\d{1,12}(?:\.\d{1,18})?(?:E[+-]\d{2})?)\b)?": at_step("eval", 1),
        rb"Checkpoint global_step(?P<step>\d+) is (?:about to be saved|begin to save)": at_step("checkpoint", 1),
        rb"successfully loaded \S{0,400}global_step(?P<step>\d+)": at_step("resumed"),
        rb"\bsteps: \d+ loss: \S+ iter time \(s\):": _nothing,
    },
    companions=(rb"\bNeoXArgs\.\w+\(\)", rb"\bneox_arguments\b"),
)

DIALECTS = (GPT_NEOX,)
