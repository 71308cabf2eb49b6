"""ROCm's fork of Megatron-LM: the memory of the device on every line, and a summary after the last."""

import re
from collections.abc import Iterator
from dataclasses import replace

from steelyard.frameworks.logs import megatron_family as family
from steelyard.frameworks.logs.dialect import Known, Place, Said, text_of
from steelyard.frameworks.logs.fields import Shape
from steelyard.records.step import Event


def _claims(shape: Shape, before: bytes) -> bool:
    return b"mem usages" in shape.labels and not shape.paired


def _summary(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    name = found["name"].decode()
    yield Event(
        kind="summary",
        message=text_of(found.string),
        source=place.evidence,
        details={_SUMMARY[name]: float(found["value"])},
    )


_SUMMARY = {
    "throughput per GPU": "tflops_per_gpu",
    "elapsed time per iteration": "step_time_ms",
    "tokens/GPU/s": "tokens_per_s_per_gpu",
    "mem usages": "memory_fraction",
}
"""What train_llama2.sh and train_llama3.sh print at the end: means without the first two and the last line."""

DIALECT = replace(
    family.BASE,
    name="rocm-megatron",
    framework="megatron",
    claims=_claims,
    memory_kind=family.DEVICE_USED,
    formulas={"": ("causal", "noncausal")},
    others=(
        Known(
            re.compile(
                rb"^(?P<name>throughput per GPU|elapsed time per iteration|tokens/GPU/s|mem usages): "
                rb"(?P<value>\d+(?:\.\d+)?)\s*$"
            ),
            _summary,
        ),
    ),
)
