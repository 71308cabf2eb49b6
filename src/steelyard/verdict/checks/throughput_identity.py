"""What a log reports agrees with itself: tokens/s with tokens over time, TFLOP/s with a formula of its framework."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from steelyard import accounting
from steelyard.accounting.selection import blocks, chosen
from steelyard.experiment.experiment import Recompute
from steelyard.experiment.model import Model
from steelyard.experiment.sources import LOG
from steelyard.frameworks import flop_conventions
from steelyard.frameworks.logs import conventions_of
from steelyard.records import Column
from steelyard.records.columns import Floats, Mask
from steelyard.verdict.finding import Check, Finding, Found
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


def check(subject: Subject) -> Iterator[Found]:
    steps = subject.steps
    rates = {
        "reported tokens/s": steps.reported_tokens_per_s_per_gpu,
        "recorded tokens/s": steps.tokens_per_s_per_gpu,
    }
    parts = [_rate(subject, name, column) for name, column in rates.items() if column.given.any()]
    if steps.reported_tflops_per_gpu.given.any():
        parts.append(_tflops(subject))
    parts += _summaries(subject)
    parts += (CHECK.failed(one.message, None, None, one.source) for one in subject.events_of("samples_differ"))
    backwards = np.flatnonzero(steps.step_time_s.given & ~(steps.step_time_s.values > 0) & steps.step_time_s.finite)
    if len(backwards) and subject.as_printed:
        row = int(backwards[0])
        message = f"step {steps.step[row]} is said to take {steps.step_time_s.values[row]:g} s"
        parts.append(CHECK.failed(message, float(steps.step_time_s.values[row]), "> 0", subject.evidence_of_step(row)))
    if not parts:
        yield CHECK.not_applicable("the log reports no tokens/s and no TFLOP/s")
        return
    if subject.clock.contradicts:
        message = f"between its lines passes {subject.clock.ratio:.3g} times the time its steps are said to take"
        parts.append(CHECK.unknown(message, subject.clock.ratio, 1.0, subject.evidence_of_step(-1)))
    order = ("fail", "unknown", "pass")
    worst = min(parts, key=lambda part: order.index(part.status))
    if worst.status == "pass":
        worst = replace(parts[-1], message="; ".join(dict.fromkeys(part.message for part in parts)))
    yield worst


def _rate(subject: Subject, name: str, column: Column) -> Finding:
    """Step by step: a figure that is right on average and wrong at a step is wrong."""
    rows = subject.figures.window.counted & column.given
    if not rows.any():
        return CHECK.unknown(f"{name} are given, and no steady step to hold them against")
    ours = subject.step_rates
    known = np.isfinite(chosen(ours, rows))
    if not known.any() and _timed(subject, rows) and not subject.steps.flag("clocked").any():
        return _constant(subject, name, column, rows)
    if not known.any() and subject.steps.flag("clocked").any():
        return _by_the_clock(subject, name, column, rows)
    if not known.all():
        return CHECK.unknown(f"{name} cannot be held against tokens over time: one of them is not given")
    return _held(subject, name, column.values, ours, rows, "batch x sequence / step time")


def _by_the_clock(subject: Subject, name: str, column: Column, rows: Mask) -> Finding:
    """Where step times are made from the log's clock, which also counts what lies between, they agree in the main."""
    work = chosen(column.values, rows) * chosen(subject.steps.step_time_s.values, rows)
    work = chosen(work, np.isfinite(work))
    if len(work) < _FEWEST_SUMMED:
        return CHECK.passed(f"{name} are given, and too few moments to hold them against")
    spread = float(np.median(np.abs(work / np.median(work) - 1)))
    if spread <= _CLOCK_MARGIN:
        return CHECK.passed(f"{name} x the time between lines are the same, but for {spread:.1%} in the median", spread)
    message = f"{name} x the time between lines differ by {spread:.1%} in the median: one of the two is wrong"
    return CHECK.unknown(message, spread, f"<= {_CLOCK_MARGIN:.0%}")


def _held(subject: Subject, name: str, found: Floats, ours: Floats, rows: Mask, what: str) -> Finding:
    row, ratio, rounding = _worst(subject, rows, lambda part: found[part], lambda part: ours[part])
    holds = bool(abs(ratio - 1) <= MARGIN + rounding)
    message = (
        f"{name} are {what} at every steady step"
        if holds
        else f"{name} at step {subject.steps.step[row]} are {ratio:.4g} times {what}"
    )
    return CHECK.judged(holds, message, float(found[row]), float(ours[row]), subject.evidence_of_step(row))


def _summaries(subject: Subject) -> Iterator[Finding]:
    """What a log sums up at its end, against its steps but for the first two and the last, as its script takes them."""
    steps = subject.steps
    if len(steps) < _FEWEST_SUMMED or not subject.events_of("summary"):
        return
    time, tflops = steps.step_time_s.values[2:-1], steps.reported_tflops_per_gpu.values[2:-1]
    rates = subject.step_rates[2:-1]
    ours = {
        "tokens_per_s_per_gpu": (rates * time).sum() / time.sum() if np.isfinite(rates).all() else np.nan,
        "tflops_per_gpu": tflops.mean(),
        "step_time_ms": 1000 * time.mean(),
    }
    for event in subject.events_of("summary"):
        for name in event.details:
            value, mine = event.number(name), float(ours.get(name, np.nan))
            if value is None or not (np.isfinite(mine) and mine > 0):
                continue
            ratio = value / mine
            holds = abs(ratio - 1) <= _SUMMARY_MARGIN
            words = "agree with" if holds else f"are {ratio:.3g} times"
            message = f"the summary's {name} {words} the steps' own"
            yield CHECK.judged(holds, message, float(value), mine, event.source)


def _timed(subject: Subject, rows: Mask) -> bool:
    return bool(np.isfinite(chosen(subject.steps.step_time_s.values, rows)).all())


def _constant(subject: Subject, name: str, column: Column, rows: Mask) -> Finding:
    """Where batch and model are not known they are at least the same at every step, and so is rate x time."""
    work = column.values * subject.steps.step_time_s.values
    usual = np.broadcast_to(np.median(chosen(work, rows)), work.shape)
    found = _held(subject, f"{name} x step time", work, usual, rows, "the same")
    if found.status == "pass":
        return CHECK.passed(
            f"{name} x step time are the same at every steady step; of what batch and model is not known",
            float(usual[0]),
            None,
            found.evidence,
        )
    return found


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
    subject: Subject, rows: Mask, found: Callable[[slice], Floats], expected: Callable[[slice], Floats]
) -> tuple[int, float, float]:
    """The row that is furthest from what it should be, as a ratio, and its rounding; NaN is furthest of all."""
    worst, furthest = (0, np.nan, 0.0), -np.inf
    for part in blocks(len(rows)):
        if not rows[part].any():
            continue
        rounding = _rounding(subject, part)
        with np.errstate(all="ignore"):
            ratio = found(part) / expected(part)
        away = np.where(np.isnan(ratio), np.inf, np.abs(ratio - 1) - rounding)
        at = int(np.argmax(np.where(rows[part], away, -np.inf)))
        if away[at] > furthest:
            worst, furthest = (int(part.start + at), float(ratio[at]), float(rounding[at])), away[at]
    return worst


def _tflops(subject: Subject) -> Finding:
    steps, model, length = subject.steps, subject.model, subject.whole("training.sequence_length")
    reported = steps.reported_tflops_per_gpu
    rows = subject.figures.window.counted & reported.given
    if not rows.any():
        return CHECK.unknown("TFLOP/s are reported, and no steady step to hold them against")
    rates, of = subject.step_rates, steps.reported_tokens_per_s_per_gpu
    if not np.isfinite(chosen(rates, rows)).all():
        rates = of.values  # the log's own rate: what it counts per token can still be told
    given = bool(np.isfinite(chosen(rates, rows)).all())
    if not given and _timed(subject, rows) and not steps.flag("clocked").any():
        return _constant(subject, "reported TFLOP/s", reported, rows)
    if not given:
        return CHECK.unknown("reported TFLOP/s cannot be held against anything: neither rate nor step time is known")
    with np.errstate(all="ignore"):
        counted = float(np.median(chosen(reported.values, rows) / chosen(rates, rows), overwrite_input=True)) * 1e12
    if model is None or length is None:
        name = f"reported TFLOP/s over tokens/s ({counted / 1e9:.2f} GFLOP a token)"
        expected = rates * counted / 1e12
        return _held(subject, name, reported.values, expected, rows, "the same")
    known: Recompute | None = subject.value("training.recompute")
    formulas = dict(_formulas(subject, model, length, known))
    name = min(formulas, key=lambda one: abs(formulas[one] - counted))
    formula = formulas[name]
    row, ratio, rounding = _worst(
        subject, rows, lambda part: reported.values[part] * 1e12, lambda part: rates[part] * formula
    )
    if abs(ratio - 1) <= MARGIN + rounding:
        message = f"reported TFLOP/s follow the {name} formula, {formulas[name]:.4g} FLOP a token, at every steady step"
        return CHECK.passed(message, counted, formulas[name], subject.evidence_of_step(row))
    message = (
        f"reported TFLOP/s follow no formula of its framework: at step {steps.step[row]} they are "
        f"{ratio:.4g} times the nearest, {name} ({formulas[name]:.4g} FLOP a token){_whose_model(subject)}"
    )
    return CHECK.failed(message, float(reported.values[row]), formulas[name], subject.evidence_of_step(row))


def _formulas(subject: Subject, model: Model, length: int, known: Recompute | None) -> Iterator[tuple[str, float]]:
    """What its framework may count a token as, by name; one alone counts recomputation as work."""
    for name in _conventions(subject):
        if name != "megatron_deepspeed":
            yield name, accounting.flops_by_convention(name, model, length)
            continue
        for recompute in (known,) if known else _RECOMPUTE:
            words = f" with {recompute} recomputation" if recompute != "none" else ""
            yield f"{name}{words}", accounting.flops_by_convention(name, model, length, None, recompute)


def _whose_model(subject: Subject) -> str:
    """A model that somebody typed may be the wrong one."""
    source = subject.source("model.num_layers") or LOG
    return "" if source == LOG else f"; its model is by {source}: is it the right one?"


def _conventions(subject: Subject) -> tuple[str, ...]:
    """The formulas its framework may mean: by the versions that print such lines, where they tell."""
    manifest = subject.run.manifest
    if manifest.ingested is not None:
        found = conventions_of(manifest.ingested.dialect, manifest.ingested.era)
        if found:
            return found
    return flop_conventions(manifest.framework)
