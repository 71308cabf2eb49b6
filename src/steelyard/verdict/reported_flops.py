"""Reported TFLOP/s as FLOPs per token: by a formula of the framework, or within what the known dimensions allow."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from steelyard.accounting.arrays import Floats, Mask, chosen
from steelyard.accounting.flop_bounds import NEEDED, Extras, bounds
from steelyard.accounting.flops import Convention, countable
from steelyard.experiment.experiment import Recompute
from steelyard.experiment.model import Model
from steelyard.experiment.sources import LOG
from steelyard.frameworks.logs import settings
from steelyard.frameworks.registry import conventions_of, facts, flop_conventions
from steelyard.reasons import Code
from steelyard.verdict.deviation import furthest, half_a_digit, is_coarse
from steelyard.verdict.finding import Check, Finding, Status
from steelyard.verdict.subject import Subject

_RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "full")
_LAST_DIGIT = 0.1
"""TFLOP/s are printed with one decimal or more."""
_OF_A_FORK = 0.2
"""How far a fork's formula may be from the framework's."""
_UNBOUNDED = (settings.LATENT_ATTENTION, settings.ATTENTION_VARIANT, settings.LAYER_PATTERN)
_BOUNDED = ("ffn_hidden_size", "vocab_size", "num_attention_heads", "num_key_value_heads", "architecture")
_LENGTH = "training.sequence_length"


def _giga(flops: float) -> str:
    return f"{flops / 1e9:.3g}"


TFLOPS_FOLLOW_FORMULA = Code(
    "tflops_follow_formula",
    lambda expected, formula, **_: f"reported TFLOP/s follow the {formula} formula ({_giga(expected)} GFLOP per token)",
)
"""Reported TFLOP/s follow a FLOP formula of the framework at every steady step."""
TFLOPS_FOLLOW_NO_FORMULA = Code(
    "tflops_follow_no_formula",
    lambda expected, formula, step, ratio, model_source, **_: (
        f"reported TFLOP/s follow none of the framework's formulas: at step {step:,} they are {ratio:.3g} times the "
        f"nearest, {formula} ({_giga(expected)} GFLOP per token)"
        f"{'' if model_source is None else f'; check the model (source: {model_source})'}"
    ),
)
"""Reported TFLOP/s do not follow any FLOP formula of the framework."""
TFLOPS_TOO_COARSE = Code(
    "tflops_too_coarse",
    "reported TFLOP/s agree with the model within their printed digits, which are too few to show a formula",
)
"""Reported TFLOP/s are so small that rounding hides which FLOP formula they follow."""
TFLOPS_CONSTANT = Code(
    "tflops_constant",
    lambda observed, uncounted, **_: (
        f"reported TFLOP/s are {_giga(observed)} GFLOP per token at every step"
        f"{f'; no formula of ours counts {_words(uncounted)}' if uncounted else '; model unknown'}"
    ),
)
"""Reported TFLOP/s are the same FLOPs per token at every step; the model is unknown or not counted completely."""
TFLOPS_OF_A_FORK = Code(
    "tflops_of_a_fork",
    lambda observed, formula, ratio, **_: (
        f"reported TFLOP/s are {_giga(observed)} GFLOP per token at every step, {ratio:.3g} times the {formula} "
        "formula: forks count differently, so ours are used"
    ),
)
"""Reported TFLOP/s are the same FLOPs per token at every step, near a formula that forks of the framework change."""
TFLOPS_VARY = Code(
    "tflops_vary",
    "reported TFLOP/s at step {step:,} are {ratio:.3g} times the usual {usual:.3g} GFLOP per token; "
    "check batch size, sequence length and GPU count",
)
"""Reported TFLOP/s are not the same FLOPs per token at every step."""
TFLOPS_WITHIN_BOUNDS = Code(
    "tflops_within_bounds",
    lambda observed, low, high, missing, uncounted, **_: (
        f"reported TFLOP/s are {_giga(observed)} GFLOP per token; the known dimensions allow {_giga(low)} to "
        f"{_giga(high)}{_why(missing, uncounted)}"
    ),
)
"""The model is not completely known or counted, and reported TFLOP/s are within what its known dimensions allow."""
TFLOPS_OUT_OF_BOUNDS = Code(
    "tflops_out_of_bounds",
    lambda observed, low, high, step, missing, uncounted, **_: (
        f"reported TFLOP/s are {_giga(observed)} GFLOP per token at step {step:,}; the known dimensions allow only "
        f"{_giga(low)} to {_giga(high)}{_why(missing, uncounted)}; check batch size, sequence length and GPU count"
    ),
)
"""Reported TFLOP/s are outside what the known dimensions of the model allow, whatever the unknown ones are."""
TFLOPS_UNCOUNTED = Code(
    "tflops_uncounted",
    lambda observed, low, high, step, uncounted, **_: (
        f"reported TFLOP/s are {_giga(observed)} GFLOP per token at step {step:,}"
        f"{'' if math.isinf(high) else f', outside {_giga(low)} to {_giga(high)}'}; "
        f"no formula of ours counts {_words(uncounted)}, so only tokens/s can be judged"
    ),
)
"""Reported TFLOP/s follow no formula, and the model has parts that no formula of ours counts."""
TFLOPS_MODEL_INCOMPLETE = Code(
    "tflops_model_incomplete",
    lambda missing, **_: (
        f"reported TFLOP/s cannot be checked: {_words(missing)} unknown; ingest with "
        f"{' '.join(f'--set {key}=N' for key in missing)}"
    ),
)
"""Dimensions without which FLOPs per token have no bounds are unknown."""
TFLOPS_AVERAGED = Code(
    "tflops_averaged",
    "reported TFLOP/s are means over several steps, and too few means were printed to check them",
)
"""The framework prints means of TFLOP/s, and the log contains none whose steps are known."""
TFLOPS_NOT_COMPARABLE = Code(
    "tflops_not_comparable", "reported TFLOP/s cannot be checked: token rate and step time unknown"
)
"""The log reports TFLOP/s, and neither the token rate nor the step time is known."""

ABOUT_FORMULAS = (TFLOPS_UNCOUNTED, TFLOPS_MODEL_INCOMPLETE, TFLOPS_AVERAGED)
"""Unknown because the FLOPs per token are: tokens/s and memory are not affected."""


def _words(keys: Sequence[str]) -> str:
    return " and ".join(keys)


def _why(missing: Sequence[str], uncounted: Sequence[str]) -> str:
    parts = ([f"unknown: {', '.join(missing)}"] if missing else []) + (
        [f"not counted: {', '.join(uncounted)}"] if uncounted else []
    )
    return f" ({'; '.join(parts)})" if parts else ""


@dataclass(frozen=True, slots=True)
class Rates:
    """Reported TFLOP/s next to token rates, per step or per mean that the framework printed."""

    rows: Mask
    """Rows that are compared."""
    tflops: Floats
    tokens: Floats
    """Tokens/s per GPU."""
    half: float
    """Rounding of TFLOP/s."""

    @property
    def flops_per_token(self) -> float:
        with np.errstate(all="ignore"):
            return float(np.median(chosen(self.tflops, self.rows) / chosen(self.tokens, self.rows))) * 1e12


def judge_tflops(subject: Subject, check: Check, rows: Mask, rates: Floats) -> Finding:
    """Reported TFLOP/s at these rows, where all token rates are known."""
    values = subject.steps.reported_tflops_per_gpu.values
    each = Rates(rows, values, rates, half_a_digit(subject, values, rows, _LAST_DIGIT))
    finding = _judge(subject, check, each)
    if finding.status == Status.PASS or not facts(subject.run.manifest.framework).averages_tflops:
        return finding
    changes = rows & np.append(True, values[1:] != values[:-1])
    if 2 * changes.sum() > rows.sum():
        return finding
    means = _of_means(subject, each)
    return check.unknown(TFLOPS_AVERAGED) if means is None else _judge(subject, check, means)


def _of_means(subject: Subject, each: Rates) -> Rates | None:
    """Each printed mean next to the mean rate of its steps, which end where it is first printed."""
    steps, given = subject.steps, subject.steps.reported_tflops_per_gpu.given
    first = np.flatnonzero(given & np.append(True, each.tflops[1:] != each.tflops[:-1]))
    if len(first) and first[0] and not given[: first[0]].any():
        first = np.insert(first, 0, -1)  # nothing was printed before the first mean
    with np.errstate(all="ignore"):
        work = np.where(each.tokens > 0, steps.step_time_s.values * each.tokens, np.nan)
    rows, tokens = np.zeros(len(steps), dtype=np.bool_), np.full(len(steps), np.nan)
    for before, last in pairwise(first):
        part = slice(before + 1, last + 1)
        rate = work[part].sum() / steps.step_time_s.values[part].sum()
        whole = steps.step[last] - steps.step[before + 1] == last - before - 1
        if np.isfinite(rate) and whole:
            rows[last], tokens[last] = True, rate
    if not rows.any():
        return None
    # Which step a mean begins with is known to one step, which matters where times vary: compare the median mean.
    ratios = np.where(rows, each.tflops / np.where(rows, tokens, 1.0), np.nan)
    middle = int(np.nanargmin(np.abs(ratios - np.nanquantile(ratios, 0.5, method="lower"))))
    rows[:] = False
    rows[middle] = True
    return replace(each, rows=rows, tokens=tokens)


def _judge(subject: Subject, check: Check, rates: Rates) -> Finding:
    uncounted = tuple(key for key in settings.UNCOUNTED if subject.dimensions.get(key))
    counted = {key: value for key, value in subject.dimensions.items() if key not in settings.UNCOUNTED}
    model, length = countable(counted, subject.padded_vocab_size), subject.whole(_LENGTH)
    if model is not None and length is not None:
        finding = _by_formula(subject, check, rates, dict(_formulas(subject, model, length)))
        if finding.status == Status.PASS or not uncounted:
            return finding
    constant = _constant(subject, check, rates, uncounted)
    missing = [f"model.{key}" for key in NEEDED if not subject.whole(f"model.{key}")]
    if len(missing) == len(NEEDED) or (constant.status != Status.PASS and settings.PACKED_SEQUENCES not in uncounted):
        return constant
    if missing or length is None:
        return check.unknown(TFLOPS_MODEL_INCOMPLETE, missing=missing + [_LENGTH] * (length is None))
    extras = _extras(subject, uncounted)
    if extras is not None:
        return _by_bounds(subject, check, rates, uncounted, extras)
    if constant.status == Status.PASS:
        return constant
    values = {"low": 0.0, "high": math.inf, "uncounted": uncounted, **subject.at(-1)}
    return check.unknown(TFLOPS_UNCOUNTED, rates.flops_per_token, None, **values)


def _by_formula(subject: Subject, check: Check, rates: Rates, formulas: dict[str, float]) -> Finding:
    counted = rates.flops_per_token
    name, formula = min(formulas.items(), key=lambda item: abs(item[1] - counted))
    away = furthest(subject, rates.rows, rates.tflops, rates.tokens, formula / 1e12, rates.half)
    if away.holds and is_coarse(chosen(rates.tokens, rates.rows) * formula / 1e12, rates.half):
        return check.passed(TFLOPS_TOO_COARSE, counted, formula, subject.evidence_of_step(away.row))
    if away.holds:
        return check.passed(TFLOPS_FOLLOW_FORMULA, counted, formula, subject.evidence_of_step(away.row), formula=name)
    source = subject.source("model.num_layers") or LOG
    origin = None if source == LOG else source
    values = {"formula": name, "ratio": away.ratio, "model_source": origin, **subject.at(away.row)}
    forked = origin is None and facts(subject.run.manifest.framework).forks_count_differently
    if forked and abs(away.ratio - 1) <= _OF_A_FORK and _constant(subject, check, rates, ()).status == Status.PASS:
        return check.passed(TFLOPS_OF_A_FORK, counted, formula, **values)
    return check.failed(TFLOPS_FOLLOW_NO_FORMULA, float(rates.tflops[away.row]), formula, **values)


def _constant(subject: Subject, check: Check, rates: Rates, uncounted: Sequence[str]) -> Finding:
    usual = rates.flops_per_token
    away = furthest(subject, rates.rows, rates.tflops, rates.tokens, usual / 1e12, rates.half)
    at = subject.at(away.row)
    if away.holds:
        return check.passed(TFLOPS_CONSTANT, usual, None, at["evidence"], uncounted=tuple(uncounted))
    values = {"ratio": away.ratio, "usual": usual / 1e9, **at}
    return check.failed(
        TFLOPS_VARY, float(rates.tflops[away.row]), float(rates.tokens[away.row] * usual / 1e12), **values
    )


def _by_bounds(subject: Subject, check: Check, rates: Rates, uncounted: Sequence[str], extras: Extras) -> Finding:
    known = {key: value for key, value in subject.dimensions.items() if value is not None}
    known.setdefault("vocab_size", subject.padded_vocab_size)
    recompute = subject.value("training.recompute")
    conventions = list(_conventions(subject))
    length = subject.whole(_LENGTH) or 1
    low, high = bounds(known, length, conventions, (recompute,) if recompute else _RECOMPUTE, extras)
    least = furthest(
        subject, rates.rows, np.minimum(rates.tflops, rates.tokens * low / 1e12), rates.tokens, low / 1e12, rates.half
    )
    most = furthest(
        subject, rates.rows, np.maximum(rates.tflops, rates.tokens * high / 1e12), rates.tokens, high / 1e12, rates.half
    )
    away = least if not least.holds else most
    with np.errstate(all="ignore"):
        here = float(rates.tflops[away.row] / rates.tokens[away.row] * 1e12)
    missing = [key for key in _BOUNDED if known.get(key) is None]
    values = {"low": low, "high": high, "missing": missing, "uncounted": tuple(uncounted)}
    if least.holds and most.holds:
        return check.passed(TFLOPS_WITHIN_BOUNDS, rates.flops_per_token, high, subject.evidence_of_step(-1), **values)
    values |= subject.at(away.row)
    expected = f"{_giga(low)} to {_giga(high)} GFLOP per token"
    if uncounted:
        return check.unknown(TFLOPS_UNCOUNTED, here, expected, **values)
    return check.failed(TFLOPS_OUT_OF_BOUNDS, here, expected, **values)


def _extras(subject: Subject, uncounted: Sequence[str]) -> Extras | None:
    """What the uncounted parts may add or remove; None if that has no bounds."""
    if any(key in uncounted for key in _UNBOUNDED):
        return None
    experts = _experts(subject)
    if experts is None and settings.EXPERTS in uncounted:
        return None
    ahead = subject.dimensions.get(settings.TOKENS_AHEAD) or 0
    return Extras(
        experts=experts if settings.EXPERTS in uncounted else None,
        predicted_ahead=int(ahead),
        gated=settings.ATTENTION_GATE in uncounted,
        partly_attended=bool({settings.PACKED_SEQUENCES, settings.ATTENTION_WINDOW} & {*uncounted}),
    )


def _experts(subject: Subject) -> tuple[int, int] | None:
    """The least and the most width of all experts that a token uses: some formulas take the width of a dense layer."""
    ingested, dense = subject.run.manifest.ingested, subject.whole("model.ffn_hidden_size")
    used = ingested.whole(settings.EXPERTS_PER_TOKEN) if ingested is not None else None
    if ingested is None or used is None or dense is None:
        return None
    width, shared = ingested.whole(settings.EXPERT_WIDTH) or dense, ingested.whole(settings.SHARED_EXPERT_WIDTH) or 0
    return used * min(width, dense), used * max(width, dense) + shared


def _conventions(subject: Subject) -> tuple[Convention, ...]:
    manifest = subject.run.manifest
    by_version = conventions_of(manifest.ingested.dialect, manifest.ingested.era) if manifest.ingested else ()
    return by_version or flop_conventions(manifest.framework)


def _formulas(subject: Subject, model: Model, length: int) -> Iterator[tuple[str, float]]:
    """FLOPs per token by each formula that the framework may use; only one of them counts recomputation."""
    known = subject.value("training.recompute")
    for convention in _conventions(subject):
        if not convention.counts_recomputation:
            yield convention.name, convention.flops_per_token(model, length)
            continue
        for recompute in (known,) if known else _RECOMPUTE:
            suffix = f" with {recompute} recomputation" if recompute != "none" else ""
            yield f"{convention.name}{suffix}", convention.flops_per_token(model, length, None, recompute)
