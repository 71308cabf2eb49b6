"""Megatron-LM, core 0.2 to 0.20; ROCm's fork adds device memory to each line, and a summary at the end."""

import re
from collections.abc import Iterator
from dataclasses import replace

from steelyard.accounting.stragglers import LEAST_FACTOR
from steelyard.frameworks.facts import DEVICE_USED
from steelyard.frameworks.logs.dialect import Entry, Place, at_step, event, memory, states, text_of
from steelyard.frameworks.logs.fields import Shape
from steelyard.frameworks.logs.settings import PADDED_VOCABULARY, VERSION
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


def _round_trips(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
    """A line of the straggler detector: the fastest and slowest rank of an interval, without waiting times."""
    fast, slow = float(match["fast"]) / 1000, float(match["slow"]) / 1000
    if not slow > LEAST_FACTOR * fast > 0:
        return
    rank, other = int(match["slow_rank"]), int(match["fast_rank"])
    message = f"rank {rank} takes {slow / fast:.3g} times as long per step as rank {other} ({slow:.3g} s, {fast:.3g} s)"
    details = {"rank": rank, "slowest_s": slow, "fastest_s": fast, "factor": slow / fast}
    at = place.step or None
    yield Event(kind="nodes_differ", message=message, step=at, source=place.evidence, details=details)


MEGATRON = replace(
    family.BASE,
    name=FACTS.name,
    framework=FACTS.name,
    precedence=4,
    words=(
        *family.WORDS,
        rb"padded vocab|memory \(MB\)|MnRtt/|after training is done|exiting program",
        rb"checkpoint|validat",
    ),
    telltales=(rb"megatron",),
    era=_era,
    counts_first_again=family.MICROSECONDS,
    others={
        rb"padded vocab \(size: (?P<size>\d+)\) with \d+ dummy tokens \(new size: (?P<padded>\d+)\)": states(
            size="model.vocab_size", padded=PADDED_VOCABULARY
        ),
        rb"> Megatron-Core version \.+ (?P<version>[\w.+-]{1,60})": states(
            lambda version: f"core {version.decode()}", version=VERSION
        ),
        rb"memory \(MB\) \|.{0,300}\bmax reserved: (?P<memory>\d+\.\d+)": memory(
            FACTS.memory_kind, lambda mb: mb / 1024
        ),
        rb"MnRtt/Rnk: (?P<fast>\d+(?:\.\d+)?)ms/(?P<fast_rank>\d{1,7})"
        rb" \| MxRtt/Rnk: (?P<slow>\d+(?:\.\d+)?)ms/(?P<slow_rank>\d{1,7})": _round_trips,
        FACTS.end_marker: event("finished"),
        rb"\[exiting program after consuming all available data": event("data_ended"),
        rb"\[exiting program (?:at iteration \d+|after)": event("exited_early"),
        rb"validation loss at iteration (?P<step>\d+)\b[^|]*\|"
        rb"(?: lm loss value: (?P<loss>\d{1,12}(?:\.\d{1,18})?(?:E[+-]\d{2})?)\b)?": at_step("eval", 1),
        rb"\bsaving checkpoint at iteration\s+(?P<step>\d+)": at_step("checkpoint", 1),
        rb"\b(?:successfully saved|scheduled an async) checkpoint\b.{0,40}\biteration\s+(?P<step>\d+)": at_step(
            "checkpoint_saved"
        ),
        rb"(?:successfully loaded|loading|loading distributed) checkpoint from .{1,400} at iteration (?P<step>\d+)": (
            at_step("resumed")
        ),
    },
    cut=rb"memory \(MB\)(?!.*\bmax reserved: \d+\.\d)",
    companions=(rb"-{3,} arguments -{3,}", rb"megatron\.(?:core|training)\b"),
)


_SUMMARY = {
    b"throughput per GPU": "tflops_per_gpu",
    b"elapsed time per iteration": "step_time_ms",
    b"tokens/GPU/s": "tokens_per_s_per_gpu",
    b"mem usages": "memory_fraction",
}
"""The summary of train_llama2.sh and train_llama3.sh: means without the first two lines and the last."""


def _summary(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
    details = {_SUMMARY[match["name"]]: float(match["value"])}
    yield Event(kind="summary", message=text_of(match.string), source=place.evidence, details=details)


ROCM_MEGATRON = replace(
    family.BASE,
    name="rocm-megatron",
    framework=FACTS.name,
    precedence=5,
    words=(*family.WORDS, *(name + b": " for name in _SUMMARY)),
    claims=lambda shape, before: b"mem usages" in shape.labels and not shape.paired,
    memory_kind=DEVICE_USED.name,
    others={rb"^(?P<name>" + b"|".join(_SUMMARY) + rb"): (?P<value>\d+(?:\.\d+)?)\s*$": _summary},
)

DIALECTS = (ROCM_MEGATRON, MEGATRON)
