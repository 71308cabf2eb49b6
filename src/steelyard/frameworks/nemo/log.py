"""NeMo 2's ProgressPrinter: four significant digits, counted from 0, keys in any order."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from steelyard.frameworks.logs.dialect import GIB, Dialect, Known, Place, Said, event
from steelyard.frameworks.logs.fields import STEP_DIGITS, TARGETS, Field, Shape, Values, whole_number
from steelyard.frameworks.logs.settings import PADDED_VOCABULARY, Setting
from steelyard.frameworks.nemo.facts import FACTS

_GLOBAL_STEP = TARGETS.index("global_step")

FIELDS: Mapping[bytes, Field] = MappingProxyType(
    {
        b"lr": Field("learning_rate"),
        b"global_batch_size": Field("global_batch_size"),
        b"global_step": Field("global_step"),
        b"consumed_samples": Field("consumed_samples"),
        b"reduced_train_loss": Field("loss"),
        b"grad_norm": Field("grad_norm"),
        b"train_step_timing in s": Field("step_time_s"),
        b"tokens_per_sec_per_gpu": Field("reported_tokens_per_s_per_gpu"),
        b"TFLOPS_per_GPU": Field("reported_tflops_per_gpu"),
        b"max_memory_reserved": Field("memory_gib", GIB),
        b"peak_memory_usage": Field("memory_gib", GIB),
    }
)


def _number(mark: re.Match[bytes], values: Values) -> tuple[int, int, int | None]:
    """By global_step, since the iteration starts again with every epoch."""
    reported, total = int(mark["step"]), int(mark["total"]) + 1
    step = values[_GLOBAL_STEP]
    step = int(step) if step is not None and 0 <= step < 1e12 else reported
    return step + 1, step, total


def _era(shape: Shape, before: bytes) -> str:
    if b"max_memory_reserved" in shape.labels:
        return "2.4 or newer"
    return "2.3 or older" if b"peak_memory_usage" in shape.labels else ""


def _vocabulary(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    yield Setting(PADDED_VOCABULARY, whole_number(found["padded"]), place.evidence)
    yield Setting("model.vocab_size", whole_number(found["size"]), place.evidence)


def _finished(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    yield Setting("training.steps", whole_number(found["steps"], STEP_DIGITS), place.evidence)
    yield from event("finished")(found, place)


_PROGRESS_BAR = re.compile(
    rb"Epoch (?P<epoch>\d{1,12}):\s*\d+%\|[^|]*\|\s*(?P<step>\d{1,12})/(?P<total>\d{1,12}) \[(?P<rest>[^\]]*)\]"
)
_PAIR = re.compile(rb"(?:^|, )(?P<name>[^=,]+)=(?P<value>[^,]+)")


def _from_progress_bar(body: bytes) -> bytes | None:
    """tqdm's line in the printer's words; b"" where it shows no step yet, None for another line."""
    found = _PROGRESS_BAR.search(body)
    if found is None:
        return None
    pairs = [(one["name"].strip(), one["value"].strip()) for one in _PAIR.finditer(found["rest"])]
    named = dict(pairs)
    if b"reduced_train_loss" not in named or b"global_step" not in named:
        return b""
    words = b" | ".join(name + b": " + value for name, value in pairs if name in FIELDS)
    last = int(found["total"]) - 1
    return b"Training epoch %b, iteration %d/%d | %b" % (found["epoch"], int(found["step"]) - 1, last, words)


NEMO = Dialect(
    name=FACTS.name,
    framework=FACTS.name,
    precedence=3,
    opening=rb"^\s*Training epoch \d",
    words=(
        rb"Training epoch",
        rb"Epoch .*train_step",
        rb"Padded vocab",
        rb"Trainer.fit",
        rb"checkpoint",
        rb"Restor",
        rb"Loading full state",
        rb"Validation",
    ),
    telltales=(rb"\[NeMo", rb"nemo_run"),
    redrawn=_from_progress_bar,
    mark=re.compile(rb"Training epoch \d+, iteration (?P<step>\d{1,12})/(?P<total>\d{1,12})\s*(?=\|)"),
    separator=b"|",
    fields=FIELDS,
    required=("loss", "step_time_s", "global_step"),
    number=_number,
    zero_based=True,
    era=_era,
    memory_kind=FACTS.memory_kind,
    others=(
        Known(
            re.compile(rb"Padded vocab_size: (?P<padded>\d+), original vocab_size: (?P<size>\d+), dummy tokens: \d+"),
            _vocabulary,
        ),
        Known(re.compile(FACTS.end_marker), _finished),
        Known(
            re.compile(rb"Restor(?:ing|ed all) states from the checkpoint|Loading full state from"),
            event("resumed"),
        ),
        Known(re.compile(rb"Validation: iteration \d+/\d+"), event("validating")),
        Known(re.compile(rb"checkpoint save for (?!step)|Saving checkpoint"), event("checkpoint", after=1)),
    ),
    companions=(re.compile(rb"\[NeMo [IWED] \d{4}-"), re.compile(rb"\bnemo_run\b")),
)

DIALECTS = (NEMO,)
