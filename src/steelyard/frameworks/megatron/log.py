"""Megatron-LM, core 0.2 to 0.20; ROCm's fork prints the device's memory on every line, and a summary at the end."""

import re
from collections.abc import Iterator
from dataclasses import replace

from steelyard.accounting.stragglers import LEAST_FACTOR
from steelyard.frameworks.logs.dialect import Known, Place, Said, at_step, event, memory, text_of
from steelyard.frameworks.logs.fields import Shape, whole_number
from steelyard.frameworks.logs.settings import PADDED_VOCABULARY, Setting
from steelyard.frameworks.megatron.facts import FACTS
from steelyard.frameworks.megatron_family import log as family
from steelyard.records.step import Event

_SECONDS = re.compile(rb"\d\d:\d\d:\d\d\] $")


def _era(shape: Shape, before: bytes) -> str:
    if family.MICROSECONDS.search(before):
        return "core 0.16 or newer"
    if b"energy per GPU (J/iter/GPU)" in shape.labels:
        return "core 0.13 to 0.15"
    if _SECONDS.search(before):
        return "core 0.6 to 0.15"
    return "core 0.5 or older"


def _padded_vocabulary(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    yield Setting("model.vocab_size", whole_number(found["size"]), place.evidence)
    yield Setting(PADDED_VOCABULARY, whole_number(found["padded"]), place.evidence)


def _memory_mb(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    yield memory(float(found["reserved"]) / 1024, FACTS.memory_kind, place, found.string)


def _round_trips(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    """The straggler detector's line: the fastest and the slowest rank of an interval, without what they wait for."""
    fast, slow = float(found["fast"]) / 1000, float(found["slow"]) / 1000
    if not slow > LEAST_FACTOR * fast > 0:
        return
    ranks = [int(found[name]) for name in ("slow_rank", "fast_rank")]
    message = f"rank {ranks[0]} takes {slow:.4g} s a step and rank {ranks[1]} {fast:.4g} s, {slow / fast:.3g} times"
    details = {"rank": ranks[0], "slowest_s": slow, "fastest_s": fast, "factor": slow / fast}
    at = place.step or None
    yield Event(kind="nodes_differ", message=message, step=at, source=place.evidence, details=details)


_OTHERS = (
    Known(
        re.compile(rb"padded vocab \(size: (?P<size>\d+)\) with \d+ dummy tokens \(new size: (?P<padded>\d+)\)"),
        _padded_vocabulary,
    ),
    Known(
        re.compile(rb"memory \(MB\) \|.{0,300}\bmax reserved: (?P<reserved>\d+(?:\.\d+)?)"),
        _memory_mb,
    ),
    Known(
        re.compile(
            rb"MnRtt/Rnk: (?P<fast>\d+(?:\.\d+)?)ms/(?P<fast_rank>\d{1,7})"
            rb" \| MxRtt/Rnk: (?P<slow>\d+(?:\.\d+)?)ms/(?P<slow_rank>\d{1,7})"
        ),
        _round_trips,
    ),
    Known(re.compile(FACTS.end_marker), event("finished")),
    Known(re.compile(rb"\[exiting program (?:at iteration \d+|after)"), event("exited_early")),
    Known(
        re.compile(
            rb"validation loss at iteration (?P<step>\d+)\b[^|]*\|"
            rb"(?: lm loss value: (?P<loss>\d{1,12}(?:\.\d{1,18})?(?:E[+-]\d{2})?)\b)?"
        ),
        at_step("eval", after=1),
    ),
    Known(re.compile(rb"\bsaving checkpoint at iteration\s+(?P<step>\d+)"), at_step("checkpoint", after=1)),
    Known(re.compile(rb"successfully loaded checkpoint from .{1,400} at iteration (?P<step>\d+)"), at_step("resumed")),
    Known(
        re.compile(rb"loading (?:distributed )?checkpoint from .{1,400} at iteration (?P<step>\d+)"), at_step("resumed")
    ),
)

MEGATRON = replace(
    family.BASE,
    name=FACTS.name,
    framework=FACTS.name,
    precedence=4,
    words=(
        *family.WORDS,
        rb"padded vocab",
        rb"memory \(MB\)",
        rb"MnRtt/",
        rb"after training is done",
        rb"exiting program",
        rb"checkpoint",
        rb"validat",
    ),
    telltales=(rb"megatron",),
    era=_era,
    counts_first_again=family.MICROSECONDS,
    others=_OTHERS,
    companions=(re.compile(rb"-{3,} arguments -{3,}"), re.compile(rb"megatron\.(?:core|training)\b")),
)


def _claims_rocm(shape: Shape, before: bytes) -> bool:
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

ROCM_MEGATRON = replace(
    family.BASE,
    name="rocm-megatron",
    framework=FACTS.name,
    precedence=5,
    words=(
        *family.WORDS,
        rb"throughput per GPU: ",
        rb"elapsed time per iteration: ",
        rb"tokens/GPU/s: ",
        rb"mem usages: ",
    ),
    claims=_claims_rocm,
    memory_kind="device_used",
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

DIALECTS = (ROCM_MEGATRON, MEGATRON)
