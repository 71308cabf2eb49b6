"""NeMo 2's ProgressPrinter: four significant digits, steps count from 0, keys in any order."""

import re
from collections.abc import Iterator

from steelyard.frameworks.logs.dialect import GIB, Dialect, Entry, Place, StepLine, Tracked, event, states
from steelyard.frameworks.logs.fields import STEP_DIGITS, Field, Shape, whole_number
from steelyard.frameworks.logs.settings import PADDED_VOCABULARY, Setting
from steelyard.frameworks.nemo.facts import FACTS

FIELDS = {
    b"lr": Field("learning_rate"),
    b"global_batch_size": Field("global_batch_size"),
    b"global_step": Field("global_step"),
    b"consumed_samples": Field("consumed_samples"),
    b"reduced_train_loss": Field("loss"),
    b"grad_norm": Field("grad_norm"),
    b"train_step_timing in s": Field("step_time_s"),
    b"tokens_per_sec_per_gpu": Field("reported_tokens_per_s_per_gpu"),
    b"TFLOPS_per_GPU": Field("reported_tflops_per_gpu"),
    b"tflops_per_sec_per_gpu": Field("reported_tflops_per_gpu"),
    b"max_memory_reserved": Field("memory_gib", GIB),
    b"peak_memory_usage": Field("memory_gib", GIB),
}


def _era(shape: Shape, before: bytes) -> str:
    if b"max_memory_reserved" in shape.labels:
        return "2.4 or newer"
    return "2.3 or older" if b"peak_memory_usage" in shape.labels else ""


def _finished(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
    yield Setting("training.steps", whole_number(match["steps"], STEP_DIGITS), place.evidence)
    yield place.event("finished", match.string, place.step or None)


_PROGRESS_BAR = re.compile(
    rb"Epoch (?P<epoch>\d{1,12}):(?: :)?\s*\d+%(?:\|[^|]*\|)?\s*"
    rb"(?P<step>\d{1,12})/(?P<total>\d{1,12}) \[(?P<rest>[^\]]*)\]"
)
_AFTER_THE_BAR = re.compile(rb"DLL \S+ \S+ - \d{1,12} +(?P<rest>\S.*)$")
"""The record of NVIDIA's DLLogger, which has more digits than the bar before it."""
_LOGGED_PAIR = re.compile(rb"(?:^|  )(?P<name>\w[^:]{0,60}?) : (?P<value>\S+)")
_GLOBAL_STEP = re.compile(rb"\| global_step: (?P<step>\d{1,12})(?:\.0+)?\b")
_PAIR = re.compile(rb"(?:^|, )(?P<name>[^=,]+)=(?P<value>[^,]+)")


def _from_progress_bar(body: bytes) -> bytes | None:
    """A line of tqdm as a step line of the printer; b"" without a step, None for any other line."""
    *_, bar = (None, *_PROGRESS_BAR.finditer(body))  # without a terminal, a bar that is drawn again is appended
    if bar is None:
        return None
    record = _AFTER_THE_BAR.search(body, bar.end())
    matches = _PAIR.finditer(bar["rest"]) if record is None else _LOGGED_PAIR.finditer(record["rest"])
    pairs = [(pair["name"].strip(), pair["value"].strip()) for pair in matches]
    if not {b"reduced_train_loss", b"global_step"} <= {name for name, _ in pairs}:
        return b""
    words = b" | ".join(name + b": " + value for name, value in pairs if name in FIELDS)
    last = int(bar["total"]) - 1
    return b"Training epoch %b, iteration %d/%d | %b" % (bar["epoch"], int(bar["step"]) - 1, last, words)


class ProgressBars:
    """Makes step lines of progress bars; a bar that is drawn again counts once."""

    holds = False

    def take(self, body: bytes, prefix: bytes, place: Place) -> Iterator[Tracked] | None:
        shown = _from_progress_bar(body)
        if not shown:
            return None if shown is None else iter(())
        step = _GLOBAL_STEP.search(shown)
        if step is not None and whole_number(step["step"], STEP_DIGITS) + 1 == place.step:
            return iter(())
        return iter((StepLine(shown, place.evidence.line),))

    def end(self) -> Iterator[Tracked]:
        return iter(())


NEMO = Dialect(
    name=FACTS.name,
    framework=FACTS.name,
    precedence=3,
    opening=rb"^\s*Training epoch \d",
    words=(
        rb"Training epoch|Epoch .*train_step|Padded vocab|Trainer.fit",
        rb"checkpoint",
        rb"Restor|Loading full state|Validation",
    ),
    telltales=(rb"\[NeMo", rb"nemo_run"),
    tracker=ProgressBars,
    mark=re.compile(rb"Training epoch \d+, iteration (?P<step>\d{1,12})/(?P<total>\d{1,12})\s*(?=\|)"),
    separator=b"|",
    fields=FIELDS,
    required=("loss", "step_time_s", "global_step"),
    zero_based=True,
    era=_era,
    memory_kind=FACTS.memory_kind,
    others={
        rb"Padded vocab_size: (?P<padded>\d+), original vocab_size: (?P<size>\d+), dummy tokens: \d+": states(
            padded=PADDED_VOCABULARY, size="model.vocab_size"
        ),
        FACTS.end_marker: _finished,
        rb"Restor(?:ing|ed all) states from the checkpoint|Loading full state from": event("resumed"),
        rb"Validation: iteration \d+/\d+": event("validating"),
        rb"checkpoint save for (?!step)|Saving checkpoint": event("checkpoint", after=1),
    },
    start=rb"Initializing distributed: GLOBAL_RANK: |GPU available: ",
    companions=(rb"\[NeMo [IWED] \d{4}-", rb"\bnemo_run\b"),
)

DIALECTS = (NEMO,)
