"""What a log reports agrees with itself: tokens/s with tokens over time, TFLOP/s with a formula of its framework."""

from collections.abc import Iterator

import numpy as np

from steelyard import accounting
from steelyard.experiment.experiment import Recompute
from steelyard.frameworks import flop_conventions
from steelyard.records import Column
from steelyard.verdict.finding import Check, Finding, Found
from steelyard.verdict.subject import Subject

CHECK = Check("throughput_identity", required=True)
MARGIN = 0.02
"""Logs print three or four digits."""


def check(subject: Subject) -> Iterator[Found]:
    steps, window = subject.steps, subject.figures.window.mask
    rates = {
        "reported tokens/s": steps.reported_tokens_per_s_per_gpu,
        "recorded tokens/s": steps.tokens_per_s_per_gpu,
    }
    given = {name: column for name, column in rates.items() if (column.given & window).any()}
    tflops = (steps.reported_tflops_per_gpu.given & window).any()
    if not given and not tflops:
        yield CHECK.not_applicable("the log reports no tokens/s and no TFLOP/s")
        return
    parts = [_rate(subject, name, column) for name, column in given.items()]
    if tflops:
        parts.append(_tflops(subject))
    order = ("fail", "unknown", "pass")
    yield min(parts, key=lambda part: order.index(part.status))


def _rate(subject: Subject, name: str, column: Column) -> Finding:
    """Step by step: a figure that is right on average and wrong at a step is wrong."""
    steps = subject.steps
    tokens = np.where(steps.tokens.given, steps.tokens.values, subject.planned_tokens_per_step or np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        ours = tokens / steps.step_time_s.values / subject.world_size
    rows = np.flatnonzero(subject.figures.window.mask & column.given)
    if not np.isfinite(ours[rows]).all():
        return CHECK.unknown(f"{name} cannot be held against tokens over time: one of them is not given")
    ratio = column.values[rows] / ours[rows]
    worst = int(np.argmax(np.nan_to_num(np.abs(ratio - 1), nan=np.inf)))
    row = int(rows[worst])
    holds = bool(abs(ratio[worst] - 1) <= MARGIN)
    message = (
        f"{name} are batch x sequence / step time at every steady step"
        if holds
        else f"{name} at step {steps.step[row]} are {ratio[worst]:.4g} times batch x sequence / step time"
    )
    return CHECK.judged(holds, message, float(column.values[row]), float(ours[row]), subject.evidence_of_step(row))


def _tflops(subject: Subject) -> Finding:
    steps, model, length = subject.steps, subject.model, subject.value("training.sequence_length")
    rate = subject.figures.tokens_per_s_per_gpu.value
    if model is None or not isinstance(length, int) or rate is None:
        return CHECK.unknown("reported TFLOP/s cannot be held against a formula: the model or the rate is not known")
    rows = np.flatnonzero(subject.figures.window.mask & steps.reported_tflops_per_gpu.given)
    found = float(np.median(steps.reported_tflops_per_gpu.values[rows])) * 1e12 / rate
    recompute: Recompute = subject.value("training.recompute") or "none"
    formulas = {
        name: accounting.flops_by_convention(name, model, length, None, recompute)
        for name in flop_conventions(subject.run.manifest.framework)
    }
    name = min(formulas, key=lambda one: abs(formulas[one] - found))
    at = subject.evidence_of_step(int(rows[0]))
    holds = abs(found / formulas[name] - 1) <= MARGIN
    words = f"the {name} formula" if holds else f"no formula of its framework; the nearest, {name}, gives"
    message = f"reported TFLOP/s count {found:.4g} FLOP a token, {words} ({formulas[name]:.4g})"
    return CHECK.judged(holds, message, found, formulas[name], at)
