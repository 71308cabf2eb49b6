"""What a log reports agrees with itself: tokens/s with tokens over time, TFLOP/s with a formula of its framework."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from steelyard import accounting
from steelyard.accounting.arrays import Floats, Mask, blocks, chosen
from steelyard.accounting.flops import COUNT_RECOMPUTATION
from steelyard.experiment.experiment import Recompute
from steelyard.experiment.model import Model
from steelyard.experiment.sources import LOG
from steelyard.frameworks.registry import conventions_of, flop_conventions
from steelyard.reasons import Code, Reason
from steelyard.records import Column
from steelyard.verdict.checks.batch_identity import SAMPLES_DIFFER
from steelyard.verdict.finding import Check, Finding, Results, Status, worst
from steelyard.verdict.subject import Subject

CHECK = Check("throughput_identity", required=True)
MARGIN = 0.02
"""Logs print three or four digits."""

_FEWEST_SUMMED = 8
_SUMMARY_MARGIN = 0.05
_CLOCK_MARGIN = 0.1
_RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "full")

_HALF_A_DIGIT = 0.0505
"""Of TFLOP/s, which most print to a tenth."""
_HALF_A_MILLISECOND = 0.00051

RATES_AGREE = Code("rates_agree", lambda parts, **_: "; ".join(dict.fromkeys(part.message for part in parts)))
"""All rates in the log agree with its steps."""
RATE_AGREES = Code("rate_agrees", "{rate} are {formula} at every steady step")
"""A reported rate agrees with the value computed from the steps at every steady step."""
RATE_DISAGREES = Code("rate_disagrees", "{rate} at step {step} are {ratio:.4g} times {formula}")
"""A reported rate differs from the value computed from the steps."""
RATE_CONSTANT = Code(
    "rate_constant", "{rate} x step time are the same at every steady step; of what batch and model is not known"
)
"""Rate x step time is the same at every steady step; batch and model are unknown."""
RATE_WITHOUT_STEADY_STEP = Code(
    "rate_without_steady_step", "{rate} are {verb}, and no steady step to hold them against"
)
"""The log reports a rate, and the run has no steady step to compare it with."""
RATE_NOT_COMPARABLE = Code(
    "rate_not_comparable", "{rate} cannot be held against tokens over time: one of them is not given"
)
"""The log reports a rate, and the tokens or the time of some steps are unknown."""
TFLOPS_NOT_COMPARABLE = Code(
    "tflops_not_comparable", "reported TFLOP/s cannot be held against anything: neither rate nor step time is known"
)
"""The log reports TFLOP/s, and neither the token rate nor the step time is known."""
TFLOPS_FOLLOW_FORMULA = Code(
    "tflops_follow_formula",
    "reported TFLOP/s follow the {formula} formula, {expected:.4g} FLOP a token, at every steady step",
)
"""Reported TFLOP/s follow a FLOP formula of the framework at every steady step."""
TFLOPS_FOLLOW_NO_FORMULA = Code(
    "tflops_follow_no_formula",
    lambda expected, formula, step, ratio, model_source, **_: (
        f"reported TFLOP/s follow no formula of its framework: at step {step} they are {ratio:.4g} times the nearest, "
        f"{formula} ({expected:.4g} FLOP a token)"
        f"{'' if model_source is None else f'; its model is by {model_source}: is it the right one?'}"
    ),
)
"""Reported TFLOP/s do not follow any FLOP formula of the framework."""
SUMMARY_AGREES = Code("summary_agrees", "the summary's {figure} agree with the steps' own")
"""The summary at the end of the log agrees with its steps."""
SUMMARY_DISAGREES = Code("summary_disagrees", "the summary's {figure} are {ratio:.3g} times the steps' own")
"""The summary at the end of the log differs from its steps."""
TIMESTAMPS_AGREE_WITH_RATE = Code(
    "timestamps_agree_with_rate", "{rate} x the time between lines are the same, but for {observed:.1%} in the median"
)
"""A reported rate x the time between log lines is nearly the same at every step."""
TIMESTAMPS_DISAGREE_WITH_RATE = Code(
    "timestamps_disagree_with_rate",
    "{rate} x the time between lines differ by {observed:.1%} in the median: one of the two is wrong",
)
"""A reported rate x the time between log lines varies too much from step to step."""
TOO_FEW_TIMESTAMPS = Code("too_few_timestamps", "{rate} are given, and too few moments to hold them against")
"""The log has too few timestamps to check the reported rate."""
CLOCK_CONTRADICTS_LOG = Code(
    "clock_contradicts_log", "between its lines passes {observed:.3g} times the time its steps are said to take"
)
"""The time between log lines differs from the reported step times throughout the run."""
STEP_TIME_NOT_POSITIVE = Code("step_time_not_positive", "step {step} is said to take {observed:g} s")
"""A step time is zero or negative."""
NO_RATES = Code("no_rates", "the log reports no tokens/s and no TFLOP/s")
"""The log reports neither tokens/s nor TFLOP/s."""


def check(subject: Subject) -> Results:
    steps = subject.steps
    rates = {"reported tokens/s": steps.reported_tokens_per_s_per_gpu, "recorded tokens/s": steps.tokens_per_s_per_gpu}
    parts = [_rate(subject, name, column) for name, column in rates.items() if column.given.any()]
    if steps.reported_tflops_per_gpu.given.any():
        parts.append(_tflops(subject))
    parts += _summaries(subject)
    for event in subject.events_of("samples_differ"):
        parts.append(CHECK.failed(SAMPLES_DIFFER, None, None, event.source, text=event.message))
    backwards = np.flatnonzero(steps.step_time_s.given & ~(steps.step_time_s.values > 0) & steps.step_time_s.finite)
    if len(backwards) and subject.as_printed:
        value = float(steps.step_time_s.values[backwards[0]])
        parts.append(CHECK.failed(STEP_TIME_NOT_POSITIVE, value, "> 0", **subject.at(backwards[0])))
    if not parts:
        yield CHECK.not_applicable(NO_RATES)
        return
    if subject.clock.contradicts:
        parts.append(CHECK.unknown(CLOCK_CONTRADICTS_LOG, subject.clock.ratio, 1.0, subject.evidence_of_step(-1)))
    status = worst(part.status for part in parts)
    if status == Status.PASS and len(parts) > 1:
        yield replace(parts[-1], reason=Reason(RATES_AGREE, {"parts": tuple(part.reason for part in parts)}))
    else:
        yield next(part for part in parts if part.status == status)


def _rate(subject: Subject, name: str, column: Column) -> Finding:
    """Step by step: a figure that is right on average and wrong at a step is wrong."""
    rows = subject.figures.window.counted & column.given
    if not rows.any():
        return CHECK.unknown(RATE_WITHOUT_STEADY_STEP, rate=name, verb="given")
    rates, clocked = subject.step_rates, subject.steps.flag("clocked").any()
    known = np.isfinite(chosen(rates, rows))
    if not known.any() and _timed(subject, rows) and not clocked:
        return _constant(subject, name, column, rows)
    if not known.any() and clocked:
        return _by_the_clock(subject, name, column, rows)
    if not known.all():
        return CHECK.unknown(RATE_NOT_COMPARABLE, rate=name)
    return _held(subject, name, column.values, rates, rows, "batch x sequence / step time")


def _by_the_clock(subject: Subject, name: str, column: Column, rows: Mask) -> Finding:
    """Where step times are made from the log's clock, which also counts what lies between, they agree in the main."""
    work = chosen(column.values, rows) * chosen(subject.steps.step_time_s.values, rows)
    work = chosen(work, np.isfinite(work))
    if len(work) < _FEWEST_SUMMED:
        return CHECK.passed(TOO_FEW_TIMESTAMPS, rate=name)
    spread = float(np.median(np.abs(work / np.median(work) - 1)))
    if spread <= _CLOCK_MARGIN:
        return CHECK.passed(TIMESTAMPS_AGREE_WITH_RATE, spread, rate=name)
    return CHECK.unknown(TIMESTAMPS_DISAGREE_WITH_RATE, spread, f"<= {_CLOCK_MARGIN:.0%}", rate=name)


def _held(subject: Subject, name: str, reported: Floats, derived: Floats, rows: Mask, formula: str) -> Finding:
    row, ratio, holds = _worst(subject, rows, reported, derived)
    values = {"rate": name, "formula": formula, "ratio": ratio, **subject.at(row)}
    return CHECK.judged(holds, (RATE_AGREES, RATE_DISAGREES), float(reported[row]), float(derived[row]), **values)


def _summaries(subject: Subject) -> Iterator[Finding]:
    """What a log sums up at its end, against its steps but for the first two and the last, as its script takes them."""
    steps = subject.steps
    if len(steps) < _FEWEST_SUMMED or not subject.events_of("summary"):
        return
    time, tflops = steps.step_time_s.values[2:-1], steps.reported_tflops_per_gpu.values[2:-1]
    rates = subject.step_rates[2:-1]
    derived = {
        "tokens_per_s_per_gpu": (rates * time).sum() / time.sum() if np.isfinite(rates).all() else np.nan,
        "tflops_per_gpu": tflops.mean(),
        "step_time_ms": 1000 * time.mean(),
    }
    for event in subject.events_of("summary"):
        for name in event.details:
            value, own = event.number(name), float(derived.get(name, np.nan))
            if value is None or not (np.isfinite(own) and own > 0):
                continue
            ratio, codes = value / own, (SUMMARY_AGREES, SUMMARY_DISAGREES)
            holds = abs(ratio - 1) <= _SUMMARY_MARGIN
            yield CHECK.judged(holds, codes, float(value), own, event.source, figure=name, ratio=ratio)


def _timed(subject: Subject, rows: Mask) -> bool:
    return bool(np.isfinite(chosen(subject.steps.step_time_s.values, rows)).all())


def _constant(subject: Subject, name: str, column: Column, rows: Mask) -> Finding:
    """Where batch and model are not known they are at least the same at every step, and so is rate x time."""
    work = column.values * subject.steps.step_time_s.values
    usual = np.broadcast_to(np.median(chosen(work, rows)), work.shape)
    held = _held(subject, f"{name} x step time", work, usual, rows, "the same")
    if held.status == "pass":
        return CHECK.passed(RATE_CONSTANT, float(usual[0]), None, held.evidence, rate=name)
    return held


def _rounding(subject: Subject, rows: slice) -> Floats:
    """How far a ratio may be off because of the digits that were not printed."""
    if not subject.as_printed:
        return np.zeros(rows.stop - rows.start)
    with np.errstate(all="ignore"):
        seconds = np.nan_to_num(_HALF_A_MILLISECOND / np.abs(subject.steps.step_time_s.values[rows]), posinf=0.0)
        tflops = np.nan_to_num(_HALF_A_DIGIT / np.abs(subject.steps.reported_tflops_per_gpu.values[rows]), posinf=0.0)
    printed: Floats = seconds + tflops
    return printed


def _worst(
    subject: Subject, rows: Mask, reported: Floats, derived: Floats, per_token: float = 1.0, unit: float = 1.0
) -> tuple[int, float, bool]:
    """The row that is furthest from what it should be, as a ratio, and whether it is near; NaN is furthest of all."""
    row, off, digits, furthest = 0, np.nan, 0.0, -np.inf
    for part in blocks(len(rows)):
        if not rows[part].any():
            continue
        rounding = _rounding(subject, part)
        with np.errstate(all="ignore"):
            ratio = reported[part] * unit / (derived[part] * per_token)
        away = np.where(np.isnan(ratio), np.inf, np.abs(ratio - 1) - rounding)
        at = int(np.argmax(np.where(rows[part], away, -np.inf)))
        if away[at] > furthest:
            row, off, digits, furthest = int(part.start + at), float(ratio[at]), float(rounding[at]), away[at]
    return row, off, bool(abs(off - 1) <= MARGIN + digits)


def _tflops(subject: Subject) -> Finding:
    steps, model, length = subject.steps, subject.model, subject.whole("training.sequence_length")
    reported = steps.reported_tflops_per_gpu
    rows = subject.figures.window.counted & reported.given
    if not rows.any():
        return CHECK.unknown(RATE_WITHOUT_STEADY_STEP, rate="TFLOP/s", verb="reported")
    rates = subject.step_rates
    if not np.isfinite(chosen(rates, rows)).all():
        rates = steps.reported_tokens_per_s_per_gpu.values  # what the log counts per token can still be told
    given = bool(np.isfinite(chosen(rates, rows)).all())
    if not given and _timed(subject, rows) and not steps.flag("clocked").any():
        return _constant(subject, "reported TFLOP/s", reported, rows)
    if not given:
        return CHECK.unknown(TFLOPS_NOT_COMPARABLE)
    with np.errstate(all="ignore"):
        counted = float(np.median(chosen(reported.values, rows) / chosen(rates, rows), overwrite_input=True)) * 1e12
    if model is None or length is None:
        name = f"reported TFLOP/s over tokens/s ({counted / 1e9:.2f} GFLOP a token)"
        return _held(subject, name, reported.values, rates * counted / 1e12, rows, "the same")
    formulas = dict(_formulas(subject, model, length))
    name, formula = min(formulas.items(), key=lambda item: abs(item[1] - counted))
    row, ratio, holds = _worst(subject, rows, reported.values, rates, formula, 1e12)
    if holds:
        return CHECK.passed(TFLOPS_FOLLOW_FORMULA, counted, formula, subject.evidence_of_step(row), formula=name)
    source = subject.source("model.num_layers") or LOG
    values = {"formula": name, "ratio": ratio, "model_source": None if source == LOG else source, **subject.at(row)}
    return CHECK.failed(TFLOPS_FOLLOW_NO_FORMULA, float(reported.values[row]), formula, **values)


def _formulas(subject: Subject, model: Model, length: int) -> Iterator[tuple[str, float]]:
    """What its framework may count a token as, by name; one alone counts recomputation as work."""
    manifest, known = subject.run.manifest, subject.value("training.recompute")
    by_version = conventions_of(manifest.ingested.dialect, manifest.ingested.era) if manifest.ingested else ()
    for name in by_version or flop_conventions(manifest.framework):
        if name not in COUNT_RECOMPUTATION:
            yield name, accounting.flops_by_convention(name, model, length)
            continue
        for recompute in (known,) if known else _RECOMPUTE:
            words = f" with {recompute} recomputation" if recompute != "none" else ""
            yield f"{name}{words}", accounting.flops_by_convention(name, model, length, None, recompute)
