"""Tokens per step are global batch x sequence, the batch is micro-batch x accumulation x replicas, and the plan's."""

import math
from collections.abc import Iterator

import numpy as np

from steelyard.frameworks.logs.settings import NONE, RAMP_UP, SAME_SHARE, TRAINED_SHARE
from steelyard.records import Event
from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("batch_identity")
KEYS = (
    "training.global_batch_size",
    "training.micro_batch_size",
    "training.gradient_accumulation_steps",
    "training.sequence_length",
)
"""What the log must not say otherwise than the plan."""


def check(subject: Subject) -> Iterator[Found]:
    if denied := subject.denied(*KEYS):
        yield CHECK.contradicted(denied)
        return
    if counted := subject.events_of("samples_differ"):
        first = counted[0]
        yield CHECK.failed(first.message, first.scalar("consumed"), first.scalar("said"), first.source)
        return
    planned, tokens = subject.planned_tokens_per_step, subject.steps.tokens
    batch = subject.whole("training.global_batch_size")
    parts = [
        subject.whole(key)
        for key in (
            "training.micro_batch_size",
            "training.gradient_accumulation_steps",
            "parallelism.data_parallel_size",
        )
    ]
    known = [part for part in parts if part is not None]
    product = math.prod(known)
    if batch is not None and len(known) == len(parts) and product != batch:
        words = " x ".join(map(str, known))
        message = f"micro-batch x accumulation x replicas is {words} = {product}, and the global batch {batch}"
        yield CHECK.failed(message, product, batch, subject.evidence_of_manifest("global_batch_size"))
        return
    if planned is None or not tokens.given.any():
        missing = "the batch and sequence" if planned is None else "the tokens of a step"
        yield CHECK.unknown(f"{missing} are not known", None, planned)
        return
    wrong = np.flatnonzero(tokens.given & (tokens.values != planned) & ~subject.steps.flag("rampup"))
    if len(wrong) and subject.run.manifest.ingested is not None and _varies(subject):
        message = "the batch or sequence changes as the log goes on, and tokens with it"
        yield CHECK.passed(
            message, float(tokens.values[int(wrong[0])]), planned, subject.evidence_of_step(int(wrong[0]))
        )
    elif len(wrong):
        row = int(wrong[0])
        message = f"step {subject.steps.step[row]} has {tokens.values[row]:,.0f} tokens, and global batch x sequence is"
        yield CHECK.failed(f"{message} {planned:,}", float(tokens.values[row]), planned, subject.evidence_of_step(row))
    elif (asked := _asked_otherwise(subject)) is not None:
        message = f"its settings are not its steps': {asked.message}"
        yield CHECK.failed(message, planned, None, asked.source)
    else:
        message = f"every step has {planned:,} tokens, as global batch x sequence says{_untrained(subject)}"
        yield CHECK.passed(message, planned, planned, subject.evidence_of_step(0))


def _varies(subject: Subject) -> bool:
    """Whether the log itself says that batch or sequence change: a ramp-up, or a curriculum."""
    return any(key in ("training.global_batch_size", "training.sequence_length") for key, _ in subject.changed_settings)


def _asked_otherwise(subject: Subject) -> Event | None:
    """Where the log's dump of settings says one batch, and its step lines, from the first on, another."""
    ingested = subject.run.manifest.ingested
    ramp_up = ingested.said.get(RAMP_UP) if ingested is not None else None
    if ingested is None or (ramp_up is not None and ramp_up.value != NONE):
        return None
    first = subject.evidence_of_step(0)
    changed = (event for key, event in subject.changed_settings if key == "training.global_batch_size")
    return next((event for event in changed if event.source == first), None)


def _untrained(subject: Subject) -> str:
    """Padding and masked tokens are in every rate, and a person should know of them."""
    ingested = subject.run.manifest.ingested
    share = ingested.said.get(TRAINED_SHARE) if ingested is not None else None
    if share is None or not isinstance(share.value, float) or share.value >= 1 - SAME_SHARE:
        return ""
    return f", and trains on {100 * share.value:.3g} % of them"
