"""The loss has no spikes, or few."""

import numpy as np

from steelyard.accounting.arrays import around_median, chosen, row_of
from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("loss_spikes")


def _sentence(observed: int, losses: int, step: int, loss: float, high: float | None, **_: object) -> str:
    above = "" if high is None else f"; the loss later reaches {high:.5g}, above its first value"
    return f"{observed:,} of {losses:,} losses are spikes, largest {loss:.5g} at step {step:,}{above}"


NO_LOSS_SPIKES = Code("no_loss_spikes", "no loss spikes")
"""No loss is far above the losses before it."""
FEW_LOSS_SPIKES = Code("few_loss_spikes", _sentence)
"""A few losses are far above the losses before them."""
MANY_LOSS_SPIKES = Code("many_loss_spikes", _sentence)
"""Too many losses are far above the losses before them."""
TOO_FEW_LOSSES_FOR_SPIKES = Code(
    "too_few_losses_for_spikes", "too few finite losses to detect spikes: {losses}, at least {fewest} needed"
)
"""The record has too few finite losses to detect spikes."""
_FEWEST = 20
_BEFORE = 9
_SIGMAS = 8.0
_SHARE = 0.1
_LEAST = 0.1
"""Nats: near the loss floor, one end of a document in a batch multiplies the loss."""
_MOST = 0.05


def check(subject: Subject) -> Results:
    finite = subject.steps.loss.finite
    values = chosen(subject.steps.loss.values, finite)
    if len(values) < _FEWEST:
        yield CHECK.unknown(TOO_FEW_LOSSES_FOR_SPIKES, losses=len(values), fewest=_FEWEST)
        return
    count = len(values) - _BEFORE
    lowest = values[:count].copy()
    for after in range(1, _BEFORE):
        np.minimum(lowest, values[after : after + count], out=lowest)
    risen = np.subtract(values[_BEFORE:], lowest, out=lowest) > _LEAST
    rises = np.flatnonzero(risen)  # other records need no median
    usual, noise = around_median(np.lib.stride_tricks.sliding_window_view(values, _BEFORE)[rises])
    bound = np.maximum(np.maximum(_SIGMAS * noise, _SHARE * np.abs(usual)), _LEAST)
    spikes = rises[values[rises + _BEFORE] - usual > bound] + _BEFORE
    if not len(spikes):
        yield CHECK.passed(NO_LOSS_SPIKES, 0, 0)
        return
    row = row_of(finite, int(spikes[np.argmax(values[spikes])]))
    high = float(values[spikes[0] :].max())
    few, codes = len(spikes) <= max(1, _MOST * len(values)), (FEW_LOSS_SPIKES, MANY_LOSS_SPIKES)
    named = {"losses": len(values), "loss": float(subject.steps.loss.values[row]), **subject.at(row)}
    named["high"] = high if high > values[0] else None
    yield CHECK.judged(few, codes, len(spikes), f"<= {_MOST:.0%} of the records", **named)
