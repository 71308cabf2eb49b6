"""What the logs of Megatron-LM and its descendants share: the step line, memory, checkpoints and endings."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from steelyard.accounting.stragglers import LEAST_FACTOR
from steelyard.frameworks.logs.dialect import Dialect, Known, Place, Said, at_step, event, memory
from steelyard.frameworks.logs.fields import Field, whole_number
from steelyard.frameworks.logs.settings import (
    PADDED_VOCABULARY,
    Setting,
)
from steelyard.records.step import Event

MARK = re.compile(rb"(?<!, )\biteration\s+(?P<step>\d{1,12})\s*/\s*(?P<total>\d{1,12})\s*(?=\|)")

_TFLOPS, _RATE = Field("tflops"), Field("tokens_per_s")

FIELDS: Mapping[bytes, Field] = MappingProxyType(
    {
        b"elapsed time per iteration (ms)": Field("step_time_s", 1000.0),
        b"elapsed time per iteration (s)": Field("step_time_s"),
        b"throughput per GPU (TFLOP/s/GPU)": _TFLOPS,
        b"throughput per GPU": _TFLOPS,
        b"compute per GPU (TFLOP/s/GPU)": _TFLOPS,
        b"TFLOPs": _TFLOPS,
        b"tokens per GPU (tokens/s/GPU)": _RATE,
        b"tokens/s/GPU inst/harmonic mean": _RATE,
        b"tokens per gpu per second (tgs)": _RATE,
        b"Tokens per second per GPU (Tok/s/GPU)": _RATE,
        b"tokens/GPU/s": _RATE,
        b"learning rate": Field("learning_rate"),
        b"global batch size": Field("global_batch_size"),
        b"consumed samples": Field("consumed_samples"),
        b"lm loss": Field("loss"),
        b"grad norm": Field("grad_norm"),
        b"number of skipped iterations": Field("skipped"),
        b"actual seqlen": Field("sequence_length"),
        b"seq_length": Field("sequence_length"),
        b"mem usages": Field("memory_fraction"),
        b"hip mem usage/free/total/usage_ratio": Field("memory_gib"),
    }
)
"""Labels of every version and fork; what is not here is passed over."""

MICROSECONDS = re.compile(rb"\d\d:\d\d:\d\d\.\d{6}\]")
"""Before a step line of core 0.16 or newer."""

LAST_FIELD = b"number of nan iterations"
"""Every version prints it, so a line without it is cut."""

DEVICE_USED = "device_used"
RESERVED_PEAK = "torch_reserved_peak"
ALLOCATED_PEAK = "torch_allocated_peak"


def _padded_vocabulary(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    yield Setting("model.vocab_size", whole_number(found["size"]), place.evidence)
    yield Setting(PADDED_VOCABULARY, whole_number(found["padded"]), place.evidence)


def _memory_mb(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    yield memory(float(found["reserved"]) / 1024, RESERVED_PEAK, place, found.string)


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


OTHERS = (
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
    Known(re.compile(rb"\[after training is done\]"), event("finished")),
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

BASE = Dialect(
    name="megatron-family",
    framework="megatron",
    mark=MARK,
    separator=b"|",
    fields=FIELDS,
    last_field=LAST_FIELD,
    required=("step_time_s",),
    absent_loss_is_nan=True,
)
"""What each of them prints alike; its own module says the rest."""
