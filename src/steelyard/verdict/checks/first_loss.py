"""The first loss is that of an untrained model: ln(padded vocabulary) + hidden x std^2 / 2."""

import math
from collections.abc import Collection, Iterator

from steelyard.experiment.absent import not_recorded
from steelyard.frameworks.facts import MockData
from steelyard.frameworks.logs.settings import PADDED_VOCABULARY
from steelyard.frameworks.registry import facts, is_planned
from steelyard.reasons import Code
from steelyard.verdict.figures import missing_counts
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("first_loss")
_SENTENCE = "first loss {observed:.5g}, expected {expected:.5g} +- {margin:.2g} for an untrained model"
FIRST_LOSS_AS_PLANNED = Code("first_loss_as_planned", _SENTENCE)
"""The first loss is that of an untrained model with the planned vocabulary and initialization."""
FIRST_LOSS_OFF = Code(
    "first_loss_off", f"{_SENTENCE}; check the vocabulary size, init_method_std, and whether a checkpoint was loaded"
)
"""The first loss differs from that of an untrained model with the planned vocabulary and initialization."""
FIRST_LOSS_APART = Code(
    "first_loss_apart", f"{_SENTENCE}; too far for most data and too near for an error: compare a run on other data"
)
"""The first loss is up to twice as far from that of an untrained model as the scatter of text explains."""
FIRST_LOSS_NOT_FINITE = Code("first_loss_not_finite", "step 1 has no finite loss")
"""Step 1 has no finite loss."""
FIRST_LOSS_NOT_RECORDED = Code("first_loss_not_recorded", "loss of step 1 not recorded")
"""The record does not start with step 1, or its first record is a mean over several steps."""
UNTRAINED_LOSS_UNKNOWN = Code(
    "untrained_loss_unknown",
    lambda missing, framework, **_: (
        "expected first loss unknown: "
        + (not_recorded(missing) if missing else f"it cannot be computed for {framework}")
    ),
)
"""The loss of an untrained model cannot be computed, because the vocabulary or the initialization is unknown."""
RESUMED_FROM_CHECKPOINT = Code(
    "resumed_from_checkpoint", "resumed from a checkpoint, so the first loss is not that of an untrained model"
)
"""The run resumed from a checkpoint, so its first loss is not that of an untrained model."""
LEAST_MARGIN = 0.05
"""Nats; larger where the scatter of the first batch is larger."""
_SIGMAS = 3.0
_REPEATED = {MockData.COUNTING: 4 / (3 * 4096), MockData.UNIFORM: 0.0, MockData.FIXED_BATCH: 0.0}
"""Chance that two places of generated data have the same input token and the same target. Counting: token k is in every
document longer than k, of 1 to 4095 tokens."""
_REPEATED_IN_TEXT = 1e-3
"""The same for text, measured as the sum of squared frequencies of neighboring words and punctuation marks: 0.0006 in
the Rust book and in Python's help, 0.0008 in Perl's manual, 0.0013 in Node's reference, 0.002 in Vim's."""


def check(subject: Subject) -> Results:
    expected, steps = subject.expected("first_loss"), subject.steps
    if subject.events_of("resumed"):
        yield CHECK.not_applicable(RESUMED_FROM_CHECKPOINT)
    elif not len(steps) or steps.step[0] != 1 or steps.steps_covered[0] != 1:
        yield CHECK.unknown(FIRST_LOSS_NOT_RECORDED, None, expected)
    elif not steps.loss.finite[0]:
        yield CHECK.unknown(FIRST_LOSS_NOT_FINITE, None, expected, subject.evidence_of_step(0))
    elif expected is None:
        framework = subject.run.manifest.framework
        yield CHECK.unknown(UNTRAINED_LOSS_UNKNOWN, missing=tuple(_missing(subject)), framework=framework)
    else:
        first, margin = float(steps.loss.values[0]), max(LEAST_MARGIN, _SIGMAS * _scatter(subject))
        off, at = abs(first - expected), subject.evidence_of_step(0)
        if margin < off <= 2 * margin:
            yield CHECK.unknown(FIRST_LOSS_APART, first, expected, at, margin=margin)
        else:
            codes = (FIRST_LOSS_AS_PLANNED, FIRST_LOSS_OFF)
            yield CHECK.judged(off <= margin, codes, first, expected, at, margin=margin)


def _missing(subject: Subject) -> Iterator[str]:
    """Settings without which the loss of an untrained model is unknown; none if it cannot be computed at all."""
    name, padding_logged = subject.run.manifest.framework, PADDED_VOCABULARY in _logged(subject)
    framework = facts(name)
    if not padding_logged and framework.pads_vocabulary is not False and not is_planned(name):
        return
    if not padding_logged:
        yield from missing_counts(subject, "model.vocab_size")
        if framework.pads_vocabulary:
            yield from missing_counts(subject, "parallelism.tensor_parallel_size")
    if not framework.unit_logits:
        yield from missing_counts(subject, "model.hidden_size")
        if not isinstance(subject.value("training.init_method_std"), float):
            yield "training.init_method_std=N"


def _logged(subject: Subject) -> Collection[str]:
    ingested = subject.run.manifest.ingested
    return ingested.said if ingested else ()


def _scatter(subject: Subject) -> float:
    """Standard deviation of the first loss over batches and seeds: logits are N(0, hidden x std^2).

    A loss is a mean over pairs of input token and target, and each pair has its own logit. Pairs repeat in text, so a
    batch has at most as many independent logits as text has pairs, however large it is: 1 / (1 / tokens + sum p^2).
    """
    hidden, std = subject.whole("model.hidden_size"), subject.value("training.init_method_std")
    tokens, spread = subject.steps.tokens.values[0], subject.expected("logit_std")
    if spread is None and hidden is not None and isinstance(std, float):
        spread = math.sqrt(hidden) * std
    if spread is None:
        return 0.0
    repeated = _REPEATED.get(subject.value("data.source"), _REPEATED_IN_TEXT)
    return spread * math.sqrt((1 / tokens if tokens > 0 else 0.0) + repeated)
