"""Tokens per step = global batch x sequence length; global batch = micro batch x accumulation x replicas."""

import math

import numpy as np

from steelyard.experiment.absent import not_recorded
from steelyard.frameworks.logs.settings import NONE, RAMP_UP, SAME_SHARE, TRAINED_SHARE
from steelyard.reasons import Code
from steelyard.records import Event
from steelyard.verdict.figures import STEP_TOKENS_UNKNOWN, missing_counts
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("batch_identity")
_BATCH, _LENGTH = "training.global_batch_size", "training.sequence_length"
_MICRO_BATCH, _ACCUMULATION = "training.micro_batch_size", "training.gradient_accumulation_steps"
KEYS = (_BATCH, _MICRO_BATCH, _ACCUMULATION, _LENGTH)
"""Settings whose logged value must equal the plan."""

STEP_TOKENS_MATCH = Code(
    "step_tokens_match",
    lambda expected, trained_share, **_: (
        f"every step has {expected:,} tokens (global batch x sequence length)"
        f"{'' if trained_share is None else f'; {100 * trained_share:.3g}% of them count in the loss'}"
    ),
)
"""Every step has global batch x sequence length tokens."""
STEP_TOKENS_VARY = Code("step_tokens_vary", "batch size or sequence length changes during the run")
"""The log shows that the batch size or the sequence length changes during the run."""
STEP_TOKENS_DIFFER = Code(
    "step_tokens_differ",
    "step {step:,} has {observed:,.0f} tokens, expected {expected:,} (global batch x sequence length)",
)
"""A step does not have global batch x sequence length tokens."""
BATCH_PRODUCT_DIFFERS = Code(
    "batch_product_differs",
    lambda observed, expected, parts, **_: (
        f"micro batch x accumulation x replicas = {' x '.join(map(str, parts))} = {observed}, "
        f"but the global batch size is {expected}"
    ),
)
"""Micro batch x accumulation steps x data-parallel size is not the global batch size."""
BATCH_CONTRADICTS_SETTINGS = Code("batch_contradicts_settings", "logged settings and steps disagree: {text}")
"""The settings in the log contain one batch size, and its steps another."""
SAMPLES_DIFFER = Code("samples_differ", "{text}")
"""The number of consumed samples in the log contradicts its batch size."""
BATCH_UNKNOWN = Code("batch_unknown", lambda missing, **_: not_recorded(missing))
"""The batch size or the sequence length is unknown."""


def check(subject: Subject) -> Results:
    if contradictions := subject.contradictions(*KEYS):
        yield CHECK.contradicted(contradictions)
        return
    if differing := subject.events_of("samples_differ"):
        event = differing[0]
        counted, logged = event.scalar("consumed"), event.scalar("said")
        yield CHECK.failed(SAMPLES_DIFFER, counted, logged, event.source, text=event.message)
        return
    planned, tokens, batch = subject.planned_tokens_per_step, subject.steps.tokens, subject.whole(_BATCH)
    sizes = [subject.whole(key) for key in (_MICRO_BATCH, _ACCUMULATION, "parallelism.data_parallel_size")]
    parts = tuple(size for size in sizes if size is not None)
    if batch is not None and len(parts) == len(sizes) and math.prod(parts) != batch:
        at = subject.evidence_of_manifest("global_batch_size")
        yield CHECK.failed(BATCH_PRODUCT_DIFFERS, math.prod(parts), batch, at, parts=parts)
        return
    if missing := missing_counts(subject, _BATCH, _LENGTH):
        yield CHECK.unknown(BATCH_UNKNOWN, missing=missing)
        return
    if planned is None or not tokens.given.any():
        yield CHECK.unknown(STEP_TOKENS_UNKNOWN, None, planned, missing=())
        return
    wrong = np.flatnonzero(tokens.given & (tokens.values != planned) & ~subject.steps.flag("rampup"))
    if len(wrong):
        # The log may show that batch size or sequence length change: a ramp-up or a curriculum.
        varies = subject.foreign and any(key in (_BATCH, _LENGTH) for key, _ in subject.changed_settings)
        row, codes = int(wrong[0]), (STEP_TOKENS_VARY, STEP_TOKENS_DIFFER)
        yield CHECK.judged(varies, codes, float(tokens.values[row]), planned, **subject.at(row))
    elif (change := _contradicting_steps(subject)) is not None:
        yield CHECK.failed(BATCH_CONTRADICTS_SETTINGS, planned, None, change.source, text=change.message)
    else:
        first, share = subject.evidence_of_step(0), _trained_share(subject)
        yield CHECK.passed(STEP_TOKENS_MATCH, planned, planned, first, trained_share=share)


def _contradicting_steps(subject: Subject) -> Event | None:
    """The event of a batch size that differs between the logged settings and the first step line."""
    ingested = subject.run.manifest.ingested
    ramp_up = ingested.said.get(RAMP_UP) if ingested is not None else None
    if ingested is None or (ramp_up is not None and ramp_up.value != NONE):
        return None
    first = subject.evidence_of_step(0)
    changed = (event for key, event in subject.changed_settings if key == _BATCH)
    return next((event for event in changed if event.source == first), None)


def _trained_share(subject: Subject) -> float | None:
    """Share of tokens that count in the loss, without padding and masked tokens; None if all of them do."""
    ingested = subject.run.manifest.ingested
    share = ingested.said[TRAINED_SHARE].value if ingested and TRAINED_SHARE in ingested.said else None
    return share if isinstance(share, float) and share < 1 - SAME_SHARE else None
