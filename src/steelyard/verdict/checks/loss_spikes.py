"""The loss does not jump, or comes back when it does."""

from collections.abc import Iterator

import numpy as np

from steelyard.accounting.robust import around_median
from steelyard.accounting.selection import chosen, row_of
from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("loss_spikes")
_FEWEST = 20
_BEFORE = 9
_SIGMAS = 8.0
_SHARE = 0.1
_LEAST = 0.1
"""Nats: where hardly anything is left to learn, the end of one document in a batch is many times the usual loss."""
_MOST = 0.05


def check(subject: Subject) -> Iterator[Found]:
    finite = subject.steps.loss.finite
    values = chosen(subject.steps.loss.values, finite)
    if len(values) < _FEWEST:
        yield CHECK.unknown(f"too few finite losses to tell a spike: {len(values)}, expected {_FEWEST} or more")
        return
    count = len(values) - _BEFORE
    lowest = values[:count].copy()
    for after in range(1, _BEFORE):
        np.minimum(lowest, values[after : after + count], out=lowest)
    risen = np.subtract(values[_BEFORE:], lowest, out=lowest) > _LEAST
    rises = np.flatnonzero(risen)  # of the others no median is needed
    usual, noise = around_median(np.lib.stride_tricks.sliding_window_view(values, _BEFORE)[rises])
    bound = np.maximum(np.maximum(_SIGMAS * noise, _SHARE * np.abs(usual)), _LEAST)
    spikes = rises[values[rises + _BEFORE] - usual > bound] + _BEFORE
    if not len(spikes):
        yield CHECK.passed("no loss jumps above those before it", 0, 0)
        return
    row = row_of(finite, int(spikes[np.argmax(values[spikes])]))
    high = float(values[spikes[0] :].max())
    at = f"the highest at step {subject.steps.step[row]} ({subject.steps.loss.values[row]:.4f})"
    above = f"; the loss then reaches {high:.4f}, above where it began" if high > values[0] else ""
    message = f"{len(spikes):,} of {len(values):,} losses jump above those before them, {at}{above}"
    few = len(spikes) <= max(1, _MOST * len(values))
    yield CHECK.judged(few, message, len(spikes), f"<= {_MOST:.0%} of the records", subject.evidence_of_step(row))
