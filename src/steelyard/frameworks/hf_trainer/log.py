"""Hugging Face Trainer: dictionaries between progress bars, without step numbers."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from steelyard.frameworks.hf_trainer.facts import FACTS
from steelyard.frameworks.hf_trainer.tracker import Tracker
from steelyard.frameworks.logs.dialect import Dialect, Entry, Place, event
from steelyard.frameworks.logs.fields import Field, whole_number
from steelyard.frameworks.logs.settings import LOG_INTERVAL, Setting, flag

_ARGUMENT = re.compile(rb"^\s*(?P<name>[a-z][a-z0-9_]{1,60})=(?P<value>[^=]{0,500}?),\s*$")
_SCHEDULES = {"linear": "linear", "cosine": "cosine", "constant": "constant", "constant_with_warmup": "constant"}


def _schedule(text: str) -> str:
    return _SCHEDULES[text.removeprefix("SchedulerType.").strip("'\"").lower()]


def _positive(text: str) -> int:
    if not (number := whole_number(text)):
        raise ValueError(text)
    return number


_ARGUMENTS: Mapping[bytes, tuple[str, Callable[[str], Any]]] = {
    b"logging_steps": (LOG_INTERVAL, lambda text: _positive(text.removesuffix(".0"))),
    b"learning_rate": ("training.learning_rate", float),
    b"weight_decay": ("training.weight_decay", float),
    b"adam_beta1": ("training.adam_beta1", float),
    b"adam_beta2": ("training.adam_beta2", float),
    b"adam_epsilon": ("training.adam_epsilon", float),
    b"max_grad_norm": ("training.clip_grad_norm", lambda text: float(text) or None),
    b"lr_scheduler_type": ("training.schedule", _schedule),
    b"warmup_steps": ("training.warmup_steps", _positive),
    b"gradient_checkpointing": ("training.recompute", lambda text: "full" if flag(text) else "none"),
    b"seed": ("training.seed", whole_number),
}
"""TrainingArguments, printed one per line, that determine one of our keys."""


def _argument(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
    if match["name"] in _ARGUMENTS:
        key, convert = _ARGUMENTS[match["name"]]
        try:
            yield Setting(key, convert(match["value"].decode("utf-8", "replace")), place.evidence)
        except (ValueError, KeyError):
            return


HF_TRAINER = Dialect(
    name=FACTS.name,
    framework=FACTS.name,
    opening=rb"\x00hf-trainer step ",
    mark=re.compile(rb"\x00hf-trainer step (?P<step>\d{1,12})/(?P<total>\d{1,12}) (?=\|)"),
    separator=b"|",
    fields={
        b"loss": Field("loss"),
        b"grad_norm": Field("grad_norm"),
        b"learning_rate": Field("learning_rate"),
        b"memory(GiB)": Field("memory_gib"),
        b"step_time_s": Field("step_time_s"),
    },
    required=("loss",),
    flags=lambda line: ("clocked",) if b" step_time_s: " in line else (),
    memory_kind=FACTS.memory_kind,
    words=(
        rb"'loss':|'train_runtime':|'eval_|/s\]|s/it|\[:<|it\]",
        rb"Running |Num examples|Num Epochs|batch size|Accumulation steps|optimization steps",
        rb"Continuing training|max_steps is given|logging_steps|Saving model checkpoint|^\s*[a-z_]+=.*,\s*$",
    ),
    telltales=(rb"'train_runtime':|Running training",),
    tracker=Tracker,
    others={
        rb"Saving model checkpoint to ": event("checkpoint", after=1),
        _ARGUMENT.pattern: _argument,
    },
    start=rb"\*{3,} Running training \*{3,}",
    companions=(rb"\*{3,} Running training \*{3,}", FACTS.end_marker),
)

DIALECTS = (HF_TRAINER,)
