"""What a log reports agrees with itself: tokens/s with tokens over time, TFLOP/s with a formula of its framework."""

from collections.abc import Iterator

import numpy as np

from steelyard import accounting
from steelyard.experiment.experiment import Recompute
from steelyard.frameworks import flop_conventions
from steelyard.records import Column
from steelyard.records.columns import Floats
from steelyard.verdict.finding import Check, Finding, Found
from steelyard.verdict.subject import Subject

CHECK = Check("throughput_identity", required=True)
MARGIN = 0.02
"""Logs print three or four digits."""


def check(subject: Subject) -> Iterator[Found]:
    steps = subject.steps
    rates = {
        "reported tokens/s": steps.reported_tokens_per_s_per_gpu,
        "recorded tokens/s": steps.tokens_per_s_per_gpu,
    }
    parts = [_rate(subject, name, column) for name, column in rates.items() if column.given.any()]
    if steps.reported_tflops_per_gpu.given.any():
        parts.append(_tflops(subject))
    if not parts:
        yield CHECK.not_applicable("the log reports no tokens/s and no TFLOP/s")
        return
    order = ("fail", "unknown", "pass")
    yield min(parts, key=lambda part: order.index(part.status))


def _rate(subject: Subject, name: str, column: Column) -> Finding:
    """Step by step: a figure that is right on average and wrong at a step is wrong."""
    ours = subject.step_rates
    rows = np.flatnonzero(subject.figures.window.counted & column.given)
    if not len(rows):
        return CHECK.unknown(f"{name} are given, and no steady step to hold them against")
    if not np.isfinite(ours[rows]).all():
        return CHECK.unknown(f"{name} cannot be held against tokens over time: one of them is not given")
    worst, ratio = _worst(column.values[rows], ours[rows])
    row = int(rows[worst])
    holds = bool(abs(ratio - 1) <= MARGIN)
    message = (
        f"{name} are batch x sequence / step time at every steady step"
        if holds
        else f"{name} at step {subject.steps.step[row]} are {ratio:.4g} times batch x sequence / step time"
    )
    return CHECK.judged(holds, message, float(column.values[row]), float(ours[row]), subject.evidence_of_step(row))


def _worst(found: Floats, expected: Floats) -> tuple[int, float]:
    """The value that is furthest from what it should be, as a ratio; NaN is furthest of all."""
    with np.errstate(all="ignore"):
        ratio = found / expected
    worst = int(np.argmax(np.where(np.isnan(ratio), np.inf, np.abs(ratio - 1))))
    return worst, float(ratio[worst])


def _tflops(subject: Subject) -> Finding:
    steps, model, length = subject.steps, subject.model, subject.whole("training.sequence_length")
    ours = subject.step_rates
    rows = np.flatnonzero(subject.figures.window.counted & steps.reported_tflops_per_gpu.given)
    if model is None or length is None or not len(rows) or not np.isfinite(ours[rows]).all():
        return CHECK.unknown("reported TFLOP/s cannot be held against a formula: the model or the rate is not known")
    reported = steps.reported_tflops_per_gpu.values[rows]
    with np.errstate(all="ignore"):
        counted = float(np.median(reported / ours[rows])) * 1e12
    recompute: Recompute = subject.value("training.recompute") or "none"
    formulas = {
        name: accounting.flops_by_convention(name, model, length, None, recompute)
        for name in flop_conventions(subject.run.manifest.framework)
    }
    name = min(formulas, key=lambda one: abs(formulas[one] - counted))
    worst, ratio = _worst(reported * 1e12, ours[rows] * formulas[name])
    row = int(rows[worst])
    if abs(ratio - 1) <= MARGIN:
        message = f"reported TFLOP/s follow the {name} formula, {formulas[name]:.4g} FLOP a token, at every steady step"
        return CHECK.passed(message, counted, formulas[name], subject.evidence_of_step(row))
    message = (
        f"reported TFLOP/s follow no formula of its framework: at step {steps.step[row]} they are "
        f"{ratio:.4g} times the nearest, {name} ({formulas[name]:.4g} FLOP a token)"
    )
    return CHECK.failed(message, float(reported[worst]), formulas[name], subject.evidence_of_step(row))
