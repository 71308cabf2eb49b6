"""Logged rates are consistent: tokens/s with tokens and step times, TFLOP/s with a FLOP formula of the framework."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from steelyard.accounting.arrays import Floats, Mask, chosen
from steelyard.reasons import Code, Reason
from steelyard.records import Column
from steelyard.verdict.checks.batch_identity import SAMPLES_DIFFER
from steelyard.verdict.deviation import furthest, half_a_digit
from steelyard.verdict.figures import GPU_COUNT_UNKNOWN, NO_STEP_TIME, tokens_of, why_no_tokens
from steelyard.verdict.finding import Check, Finding, Results, Status, worst
from steelyard.verdict.reported_flops import TFLOPS_NOT_COMPARABLE, judge_tflops
from steelyard.verdict.subject import Subject

CHECK = Check("throughput_identity", required=True)
_FEWEST_SUMMED = 8
_SUMMARY_MARGIN = 0.05
_CLOCK_MARGIN = 0.1
_LAST_DIGIT = 0.1
_MEDIAN = "their median"


def _all_agree(parts: Sequence[Reason], **_: object) -> str:
    """The messages of all parts; rates that agree with the same formula are named together."""
    rates = dict[str, list[str]]()
    for part in parts:
        if part.code is RATE_AGREES:
            rates.setdefault(part.values["formula"], []).append(part.values["rate"])
    together = [Reason(RATE_AGREES, {"rate": " and ".join(names), "formula": of}) for of, names in rates.items()]
    others = [part for part in parts if part.code is not RATE_AGREES]
    return "; ".join(dict.fromkeys(part.message for part in (*together, *others)))


RATES_AGREE = Code("rates_agree", _all_agree)
"""All rates in the log agree with its steps."""
RATE_AGREES = Code("rate_agrees", "{rate} agree with {formula}")
"""A reported rate agrees with the value computed from the steps at every steady step."""
RATE_DISAGREES = Code(
    "rate_disagrees",
    "{rate} at step {step:,} are {ratio:.3g} times {formula}; check batch size, sequence length and GPU count",
)
"""A reported rate differs from the value computed from the steps."""
RATE_CONSTANT = Code(
    "rate_constant", "{rate} x step time are constant over all steady steps; batch size or model unknown"
)
"""Rate x step time is the same at every steady step; batch and model are unknown."""
RATE_WITHOUT_STEADY_STEP = Code("rate_without_steady_step", "{rate} cannot be checked: no steady step")
"""The log reports a rate, and the run has no steady step to compare it with."""
RATE_NOT_COMPARABLE = Code(
    "rate_not_comparable",
    lambda rate, missing, **_: f"{rate} cannot be checked: {'; '.join(reason.message for reason in missing)}",
)
"""The log reports a rate, and the tokens or the time of some steps are unknown."""
SUMMARY_AGREES = Code("summary_agrees", "{figure} in the summary of the log agrees with the steps")
"""The summary at the end of the log agrees with its steps."""
SUMMARY_DISAGREES = Code(
    "summary_disagrees",
    "{figure} in the summary of the log is {observed:,.1f}, {ratio:.3g} times the {expected:,.1f} from its steps",
)
"""The summary at the end of the log differs from its steps."""
TIMESTAMPS_AGREE_WITH_RATE = Code(
    "timestamps_agree_with_rate", "{rate} agree with the timestamps of the log within {observed:.1%} (median)"
)
"""A reported rate x the time between log lines is nearly the same at every step."""
TIMESTAMPS_DISAGREE_WITH_RATE = Code(
    "timestamps_disagree_with_rate",
    "{rate} and the timestamps of the log differ by {observed:.1%} (median): one of them is wrong",
)
"""A reported rate x the time between log lines varies too much from step to step."""
TOO_FEW_TIMESTAMPS = Code("too_few_timestamps", "too few timestamps to check {rate}")
"""The log has too few timestamps to check the reported rate."""
CLOCK_CONTRADICTS_LOG = Code(
    "clock_contradicts_log",
    "time between log lines is {observed:.3g} times the logged step times; one of them is wrong",
)
"""The time between log lines differs from the reported step times throughout the run."""
STEP_TIME_NOT_POSITIVE = Code(
    "step_time_not_positive", "step time is {observed:g} s at step {step:,}, so the timer of the log is wrong"
)
"""A step time is zero or negative, so the timer of the program is wrong, but not necessarily its training."""
NO_RATES = Code("no_rates", "tokens/s and TFLOP/s not recorded")
"""The log reports neither tokens/s nor TFLOP/s."""


def check(subject: Subject) -> Results:
    steps = subject.steps
    rates = {"reported tokens/s": steps.reported_tokens_per_s_per_gpu, "computed tokens/s": steps.tokens_per_s_per_gpu}
    parts = [_rate(subject, name, column) for name, column in rates.items() if column.given.any()]
    if steps.reported_tflops_per_gpu.given.any():
        parts.append(_tflops(subject))
    parts += _summaries(subject)
    for event in subject.events_of("samples_differ"):
        parts.append(CHECK.failed(SAMPLES_DIFFER, None, None, event.source, text=event.message))
    backwards = np.flatnonzero(steps.step_time_s.given & ~(steps.step_time_s.values > 0) & steps.step_time_s.finite)
    if len(backwards) and subject.as_printed:
        value = float(steps.step_time_s.values[backwards[0]])
        parts.append(CHECK.unknown(STEP_TIME_NOT_POSITIVE, value, "> 0", **subject.at(backwards[0])))
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
    """Check every step: a rate that is right on average and wrong at one step is wrong."""
    rows = subject.figures.window.counted & column.given
    if not rows.any():
        return CHECK.unknown(RATE_WITHOUT_STEADY_STEP, rate=name)
    rates, clocked = subject.step_rates, subject.steps.flag("clocked").any()
    known = np.isfinite(chosen(rates, rows))
    if not known.any() and _timed(subject, rows) and not clocked:
        return _constant(subject, name, column, rows)
    if not known.any() and clocked:
        return _by_the_clock(subject, name, column, rows)
    if not known.all():
        return CHECK.unknown(RATE_NOT_COMPARABLE, rate=name, missing=tuple(_missing(subject, rows)))
    return _compared(subject, name, column.values, rates, rows, "batch x sequence length / step time")


def _missing(subject: Subject, rows: Mask) -> Iterator[Reason]:
    """Why tokens / step time / GPUs cannot be computed."""
    if not np.isfinite(chosen(tokens_of(subject.steps, subject.planned_tokens_per_step), rows)).all():
        yield why_no_tokens(subject)
    if subject.world_size is None:
        yield Reason(GPU_COUNT_UNKNOWN)
    if not _timed(subject, rows):
        yield Reason(NO_STEP_TIME)


def _by_the_clock(subject: Subject, name: str, column: Column, rows: Mask) -> Finding:
    """Step times made from timestamps also contain pauses, so only the median is checked."""
    work = chosen(column.values, rows) * chosen(subject.steps.step_time_s.values, rows)
    work = chosen(work, np.isfinite(work))
    if len(work) < _FEWEST_SUMMED:
        return CHECK.passed(TOO_FEW_TIMESTAMPS, rate=name)
    spread = float(np.median(np.abs(work / np.median(work) - 1)))
    if spread <= _CLOCK_MARGIN:
        return CHECK.passed(TIMESTAMPS_AGREE_WITH_RATE, spread, rate=name)
    return CHECK.unknown(TIMESTAMPS_DISAGREE_WITH_RATE, spread, f"<= {_CLOCK_MARGIN:.0%}", rate=name)


def _compared(
    subject: Subject, name: str, reported: Floats, derived: Floats, rows: Mask, formula: str, digit: float = 1.0
) -> Finding:
    away = furthest(subject, rows, reported, derived, half=half_a_digit(subject, reported, rows, digit))
    values = {"rate": name, "formula": formula, "ratio": away.ratio, **subject.at(away.row)}
    figures = float(reported[away.row]), float(derived[away.row])
    return CHECK.judged(away.holds, (RATE_AGREES, RATE_DISAGREES), *figures, **values)


def _summaries(subject: Subject) -> Iterator[Finding]:
    """The summary of a log against its steps without the first two and the last, as ROCm's scripts compute it."""
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
    """If batch size or model are unknown: rate x step time is the same at every step."""
    times = subject.steps.step_time_s.values
    usual = float(np.median(chosen(column.values * times, rows)))
    with np.errstate(all="ignore"):
        derived = usual / times
    finding = _compared(subject, f"{name} x step time", column.values, derived, rows, _MEDIAN, _LAST_DIGIT)
    if finding.status == Status.PASS:
        return CHECK.passed(RATE_CONSTANT, usual, None, finding.evidence, rate=name)
    return finding


def _tflops(subject: Subject) -> Finding:
    steps = subject.steps
    reported = steps.reported_tflops_per_gpu
    rows = subject.figures.window.counted & reported.given
    if not rows.any():
        return CHECK.unknown(RATE_WITHOUT_STEADY_STEP, rate="reported TFLOP/s")
    rates = subject.step_rates
    if not np.isfinite(chosen(rates, rows)).all():
        rates = steps.reported_tokens_per_s_per_gpu.values  # enough for the FLOPs per token of the log
    if np.isfinite(chosen(rates, rows)).all():
        return judge_tflops(subject, CHECK, rows, rates)
    if _timed(subject, rows) and not steps.flag("clocked").any():
        return _constant(subject, "reported TFLOP/s", reported, rows)
    return CHECK.unknown(TFLOPS_NOT_COMPARABLE)
