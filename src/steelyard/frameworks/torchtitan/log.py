"""torchtitan: step 1, then every tenth; rates averaged over the interval, and a clock in place of a step time."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from steelyard.frameworks.logs.dialect import Dialect, Known, Place, Said, at_step, event
from steelyard.frameworks.logs.fields import STEP_DIGITS, Field, Shape, Values, whole_number
from steelyard.frameworks.logs.settings import GPU_NAME, Setting
from steelyard.frameworks.torchtitan.facts import FACTS
from steelyard.records.step import Event

FIELDS: Mapping[bytes, Field] = MappingProxyType(
    {
        b"loss": Field("loss"),
        b"grad_norm": Field("grad_norm"),
        b"memory": Field("memory_gib"),
        b"tps": Field("reported_tokens_per_s_per_gpu"),
        b"wps": Field("reported_tokens_per_s_per_gpu"),
        b"tflops": Field("reported_tflops_per_gpu"),
    }
)


def _number(mark: re.Match[bytes], values: Values) -> tuple[int, int, int | None]:
    return int(mark["step"]), int(mark["step"]), None


def _era(shape: Shape, before: bytes) -> str:
    if b"wps" in shape.labels:
        return "before 2024-11"
    return "2025-06 or newer" if b"grad_norm" in shape.labels else "before 2025-06"


def _gpu(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    yield Setting(GPU_NAME, found["name"].decode("utf-8", "replace"), place.evidence)


_STARTING = {
    b"total steps": "training.steps",
    b"global batch size": "training.global_batch_size",
    b"sequence length": "training.sequence_length",
}


def _starts(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    first = whole_number(found["step"], STEP_DIGITS)
    if first > 1:
        yield Event(
            kind="resumed",
            message=found.string.decode("utf-8", "replace").strip()[:500],
            step=first - 1,
            source=place.evidence,
        )
    for name, key in _STARTING.items():
        if said := re.search(rb"\b" + name + rb" (\d{1,12})\b", found.string):
            yield Setting(key, int(said[1]), place.evidence)


_RECIPES = {b"rowwise": "e4m3", b"rowwise_with_gw_hp": "e4m3", b"mxfp8": "e4m3"}
"""Other recipes make gradients in e5m2, as Megatron's hybrid does."""


def _float8(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    yield Setting("precision.fp8", _RECIPES.get(found["recipe"] or b"", "hybrid"), place.evidence)


_RECOMPUTE = {b"full": "full", b"selective": "selective", b"memory_budget": "selective"}


def _recomputes(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    if found["mode"] in _RECOMPUTE:
        yield Setting("training.recompute", _RECOMPUTE[found["mode"]], place.evidence)


def _allocation(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    if int(found["count"]):
        yield from event("oom")(found, place)


TORCHTITAN = Dialect(
    name=FACTS.name,
    framework=FACTS.name,
    precedence=1,
    opening=rb"^\s*step:\s+\d",
    words=(
        rb"step: ",
        rb"CUDA capacity",
        rb"Float",
        rb"Training (?:completed|starts)",
        rb"Ran out of data",
        rb"OOM",
        rb"checkpoint",
        rb"validat",
    ),
    telltales=(rb"\[titan\]", rb"torchtitan"),
    mark=re.compile(rb"(?<!validate )(?:\x1b\[[0-9;]*m|\b)step:\s+(?P<step>\d{1,12})(?=\s+(?:\x1b\[\d+m)*loss:)"),
    separator=None,
    fields=FIELDS,
    required=("loss", "reported_tokens_per_s_per_gpu", "memory_gib"),
    number=_number,
    era=_era,
    card=re.compile(rb"memory:\s+(?P<used>\d{1,6}\.\d\d)GiB\((?P<share>\d{1,3}\.\d\d)%\)"),
    memory_kind=FACTS.memory_kind,
    timed_by_clock=True,
    others=(
        Known(re.compile(rb"CUDA capacity: (?P<name>.{1,80}?)(?: \(\d+\))? with \d"), _gpu),
        Known(re.compile(rb"Float8 (?:tensorwise scaled )?training active(?: with recipe (?P<recipe>\w+))?"), _float8),
        Known(
            re.compile(rb"Swapped to Float8Linear layers with enable_fsdp_float8_all_gather=True(?P<recipe>)"), _float8
        ),
        Known(re.compile(rb"Applied (?P<mode>\w+) activation checkpointing to the model"), _recomputes),
        Known(re.compile(rb"Training starts at step (?P<step>\d+)"), _starts),
        Known(re.compile(FACTS.end_marker), event("finished")),
        Known(re.compile(rb"Ran out of data; last step was canceled"), event("exited_early")),
        Known(re.compile(rb"(?<!\d)(?P<count>\d{1,9}) CUDA OOM errors thrown"), _allocation),
        Known(
            re.compile(rb"validate step:\s*(?P<step>\d+)(?:\s+loss:\s*(?P<loss>\d{1,6}(?:\.\d{1,18})?)\b)?"),
            at_step("eval", after=1),
        ),
        Known(re.compile(rb"Saving the checkpoint|Finished saving the checkpoint"), event("checkpoint", after=1)),
    ),
    companions=(re.compile(rb"\[titan\] "), re.compile(rb"\btorchtitan\b")),
)

DIALECTS = (TORCHTITAN,)
