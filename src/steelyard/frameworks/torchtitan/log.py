"""torchtitan: step 1, then every tenth step; rates averaged over the interval; timestamps instead of step times."""

import ast
import math
import re
from collections.abc import Iterator

from steelyard.frameworks.logs.arguments import UnreadArguments
from steelyard.frameworks.logs.dialect import Dialect, Entry, Place, at_step, event, states, text_of
from steelyard.frameworks.logs.fields import STEP_DIGITS, Field, Shape, whole_number
from steelyard.frameworks.logs.settings import GPU_NAME, WORLD_SIZE, Setting
from steelyard.frameworks.torchtitan.facts import FACTS
from steelyard.records.step import Event

_RATE = "reported_tokens_per_s_per_gpu"


def _era(shape: Shape, before: bytes) -> str:
    if b"wps" in shape.labels:
        return "before 2024-11"
    return "2025-06 or newer" if b"grad_norm" in shape.labels else "before 2025-06"


_PLANNED = {
    b"total steps": "training.steps",
    b"local batch size": "training.micro_batch_size",
    b"global batch size": "training.global_batch_size",
    b"sequence length": "training.sequence_length",
    rb"\(warmup": "training.warmup_steps",
}


def _plan(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
    for name, key in _PLANNED.items():
        if number := re.search(rb"(?:^|[ ,])" + name + rb" (\d{1,12})\b", match.string):
            yield Setting(key, int(number[1]), place.evidence)


def _starts(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
    first = whole_number(match["step"], STEP_DIGITS)
    if first > 1:
        yield Event(kind="resumed", message=text_of(match.string), step=first - 1, source=place.evidence)
    yield from _plan(match, place)


_LONGEST_CONFIG = 100_000


def _configuration(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
    """The whole configuration as a Python dictionary, which `--job.print_config` prints."""
    try:
        values = ast.literal_eval(match["values"].decode("utf-8", "replace"))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return
    arguments = UnreadArguments()
    arguments.add_nested(values)
    yield from arguments.setting((), place.evidence)


_AXES = {
    b"pp": "parallelism.pipeline_parallel_size",
    b"cp": "parallelism.context_parallel_size",
    b"tp": "parallelism.tensor_parallel_size",
    b"dp_shard": "parallelism.fsdp_size",
}
_ON_GPUS_OF_THEIR_OWN = (b"pp", b"dp_replicate", b"dp_shard", b"cp", b"tp")
"""Axes of the mesh whose sizes multiply to the world size; experts share the GPUs of the others."""


def _mesh(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
    sizes = {axis: int(size) for axis, size in re.findall(rb"\b([a-z_]{2,12})=(\d{1,7})\b", match.string)}
    for axis, key in _AXES.items():
        if axis in sizes:
            yield Setting(key, sizes[axis], place.evidence)
    if all(axis in sizes for axis in _ON_GPUS_OF_THEIR_OWN):
        yield Setting(WORLD_SIZE, math.prod(sizes[axis] for axis in _ON_GPUS_OF_THEIR_OWN), place.evidence)


_RECIPES = {b"rowwise": "e4m3", b"rowwise_with_gw_hp": "e4m3", b"mxfp8": "e4m3"}
"""Other recipes have gradients in e5m2, like Megatron's hybrid."""


_float8 = states(lambda recipe: _RECIPES.get(recipe or b"", "hybrid"), recipe="precision.fp8")


def _allocation(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
    if int(match["count"]):
        yield place.event("oom", match.string, place.step or None)


TORCHTITAN = Dialect(
    name=FACTS.name,
    framework=FACTS.name,
    precedence=1,
    opening=rb"^\s*step:\s+\d",
    words=(
        rb"step: |CUDA capacity|Float|Training (?:completed|starts)|Ran out of data|OOM",
        rb"Running with |Trainer is initialized|device mesh with parallelism",
        rb"checkpoint|validat",
    ),
    telltales=(rb"\[titan\]", rb"torchtitan"),
    mark=re.compile(rb"(?<!validate )(?:\x1b\[[0-9;]*m|\b)step:\s+(?P<step>\d{1,12})(?=\s+(?:\x1b\[\d+m)*loss:)"),
    separator=None,
    fields={
        b"loss": Field("loss"),
        b"grad_norm": Field("grad_norm"),
        b"memory": Field("memory_gib"),
        b"tps": Field(_RATE),
        b"wps": Field(_RATE),
        b"tflops": Field("reported_tflops_per_gpu"),
    },
    required=("loss", _RATE, "memory_gib"),
    era=_era,
    card=re.compile(rb"memory:\s+(?P<used>\d{1,6}\.\d\d)GiB\((?P<share>\d{1,3}\.\d\d)%\)"),
    memory_kind=FACTS.memory_kind,
    negative_loss_is_none=True,
    timed_by_clock=True,
    others={
        rb"CUDA capacity: (?P<name>.{1,80}?)(?: \(\d+\))? with \d": states(
            lambda name: name.decode("utf-8", "replace"), name=GPU_NAME
        ),
        rb"Float8 (?:tensorwise scaled )?training active(?: with recipe (?P<recipe>\w+))?": _float8,
        rb"Swapped to Float8Linear layers with enable_fsdp_float8_all_gather=True(?P<recipe>)": _float8,
        rb"Applied (?P<mode>full|selective|memory_budget) activation checkpointing to the model": states(
            lambda mode: "full" if mode == b"full" else "selective", mode="training.recompute"
        ),
        rb"Running with (?:args|configs): (?P<values>\{.{2,%d}\})\s*$" % _LONGEST_CONFIG: _configuration,
        rb"Trainer is initialized with ": _plan,
        rb"Building device mesh with parallelism: ": _mesh,
        rb"Training starts at step (?P<step>\d+)": _starts,
        FACTS.end_marker: event("finished"),
        rb"Ran out of data; last step was canceled": event("exited_early"),
        rb"(?<!\d)(?P<count>\d{1,9}) CUDA OOM errors thrown": _allocation,
        rb"validate step:\s*(?P<step>\d+)(?:\s+loss:\s*(?P<loss>\d{1,6}(?:\.\d{1,18})?)\b)?": at_step("eval", 1),
        rb"Saving the checkpoint|Finished saving the checkpoint": event("checkpoint", after=1),
    },
    start=rb"torchtitan version: |Starting job: |Trainer is initialized with ",
    companions=(rb"\[titan\] ", rb"\btorchtitan\b"),
)

DIALECTS = (TORCHTITAN,)
