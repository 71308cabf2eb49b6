"""What to do about curves that differ or cannot be compared: one remedy per cause, in the order of the diagnoses."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from steelyard.comparison import codes
from steelyard.comparison.again import import_new, run_again
from steelyard.comparison.chance import LEVEL_SPREAD, by_seeds
from steelyard.comparison.comparison import Comparison
from steelyard.comparison.contract import Agreement
from steelyard.comparison.diagnoses import (
    counting_data,
    different_setting,
    fixed_batch,
    parting,
    silent_default,
    tokens_per_step,
    uniform_data,
    untrained_loss,
)
from steelyard.comparison.intervals import FEWEST
from steelyard.comparison.next_step import equal_settings, run_both
from steelyard.comparison.phrases import listed, plain_percent, rounded, shortened
from steelyard.comparison.reduction import FAULTY, GENERATED, Learning
from steelyard.comparison.side import Side
from steelyard.comparison.starts import WEIGHTS, declared_weights, weights_apart
from steelyard.comparison.tiers import Pair
from steelyard.comparison.tiers.stability import lost_at
from steelyard.experiment.keys import KEYS
from steelyard.experiment.policy import Metric
from steelyard.files import place_of
from steelyard.frameworks.registry import facts
from steelyard.reasons import Code, Reason

_MOST_NAMED = 3
"""Settings that a sentence names."""
_OF_DATA = (uniform_data.CODE, counting_data.CODE, counting_data.DEGENERATE, fixed_batch.CODE)
_ELSEWHERE = (*_OF_DATA, different_setting.CODE, silent_default.CODE)
"""Diagnoses without a remedy of their own: it is given once for both sides, or another remedy contains it."""
_CORPUS = ("data.fingerprint", "data.dataset", "data.path")
_OF_BATCH = ("training.global_batch_size", "training.sequence_length")


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do, with commands that can be pasted once their capitals are replaced."""

    reason: Reason
    commands: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        head = {"code": self.reason.code.name, "side": self.reason.side, "keys": list(self.reason.keys)}
        return {**head, "message": self.reason.message, "commands": list(self.commands)}


def _spelt(spellings: Mapping[str, str]) -> str:
    """`(mock_data in primus; data in nemo)`."""
    words = "; ".join(f"{name} in {framework}" for framework, name in spellings.items())
    return f" ({words})" if words else ""


def _one_corpus(sides: Sequence[str], spellings: Mapping[str, str], ours: bool) -> str:
    why = f"{listed(sides)} used generated or repeated data"
    if ours:
        return f"train both sides on one corpus, or on `data.source: markov`, whose floor is known and low: {why}"
    corpus = f"train both sides on one corpus with one tokenizer{_spelt(spellings)}"
    return f"{corpus}: {why}; a seed does not make data equal, so compare fingerprints"


def _one_batch(called: tuple[str, str], tokens: tuple[float, float], spellings: Mapping[str, str]) -> str:
    target, baseline = (f"{rounded(count)} tokens on {name}" for count, name in zip(tokens, called, strict=True))
    setting = f"use one global batch size and one sequence length{_spelt(spellings)}"
    return f"{setting}: a step has {target} and {baseline}"


BEFORE_IT_ENDS = Code(
    "remedy_before_it_ends",
    "look at the last steps of {side} before step {step:,}: gradient norm, learning rate, loss scale and data",
)
"""A side has no valid loss from some step on: look for the cause before that step."""
MAKE_IT_FALL = Code(
    "remedy_make_it_fall", "make the loss of {side} fall first: look at its learning rate, gradient norm and data"
)
"""The loss of a side does not fall, or rises again: a comparison with it shows that again."""
ONE_CORPUS = Code("remedy_one_corpus", _one_corpus)
"""A side used data that shows nothing about learning: train both sides on the same text."""
NAME_THE_DATA = Code(
    "remedy_name_the_data",
    "make sure that both sides read one corpus, and declare it with `--set data.fingerprint=HASH`: the data is not "
    "recorded for both, and a seed does not make it equal",
)
"""Nothing recorded shows whether both sides train on the same data."""
ONE_BATCH = Code("remedy_one_batch", _one_batch)
"""The steps of the two sides have different numbers of tokens: use one batch size and one sequence length."""
ONE_MODEL = Code(
    "remedy_one_model",
    "use one vocabulary and one `training.init_method_std` on both sides: the first losses show different ones",
)
"""The first losses show different vocabularies or initializations."""
EQUAL_SETTINGS = Code(
    "remedy_equal_settings", lambda keys: f"use the same values on both sides: {shortened(keys, _MOST_NAMED)}"
)
"""Settings that shape a curve differ between the sides."""
STATE_DEFAULTS = Code(
    "remedy_state_defaults",
    lambda keys: f"state in both configs what each framework sets by its own default: {shortened(keys, _MOST_NAMED)}",
)
"""Settings were left to the frameworks, whose defaults differ."""
CONFIRM = Code("remedy_confirm", lambda cause: str(cause.confirm))
"""What confirms the diagnosis also removes its cause."""
ONE_START = Code(
    "remedy_one_start",
    "load one file of weights on both sides and declare it with `--set training.initial_weights=NAME`; an equal seed "
    "does not ensure equal weights: {apart.message}",
)
"""One seed does not give the two sides the same weights, or may not."""
ONE_SEED = Code(
    "remedy_one_seed",
    "use one seed on both sides, which here gives equal weights: the first different step then shows the cause",
)
"""The two sides have different or unknown seeds, and an equal one would give them the same weights."""
MORE_SEEDS = Code(
    "remedy_more_seeds",
    lambda fewest, explains: (
        f"use at least {fewest} seeds per side: with as few as here, "
        f"seeds explain up to {plain_percent(round(explains, 3))} of the level"
    ),
)
"""Too few seeds per side to tell a small difference from chance."""
COMPARE_AGAIN = Code("remedy_compare_again", "then compare the new runs")
"""The commands that import or repeat the runs and compare them."""


def asked_or_apart(made: Comparison) -> bool:
    """Whether the curves matter: convergence was asked, or they are not equivalent."""
    return Metric.CONVERGENCE in made.asked or made.convergence.status == "not_equivalent"


def to_fix(made: Comparison) -> bool:
    """Whether something about the curves is to be fixed: they differ, are not comparable, or a side does not learn."""
    status = made.convergence.status
    faulty = any(each.learning in FAULTY for each in made.convergence.reductions)
    broken = status in ("not_equivalent", "not_comparable") or (status == "unknown" and faulty)
    return asked_or_apart(made) and broken


def without_learning(made: Comparison) -> list[Side]:
    """The sides whose losses show nothing about learning text."""
    shown = {each.side for each in made.convergence.reductions if each.learning in GENERATED}
    return [side for side in made.sides if side.name in shown]


def declares_one_start(pair: Pair) -> bool:
    """Whether both sides declare the same initial weights."""
    weights = [declared_weights(side) for side in pair.sides]
    return weights[0] is not None and weights[0] == weights[1]


def start_apart(pair: Pair) -> Reason | None:
    """Why an equal seed may give the sides other weights; None if it gives equal ones, or if these are declared."""
    refused, doubt = weights_apart((pair.target.subjects[0], pair.baseline.subjects[0]))
    return None if declares_one_start(pair) else refused or doubt


def few_seeds(pair: Pair) -> bool:
    """Whether chance may explain a small difference."""
    return min(pair.seeds) < FEWEST


def pair_of(made: Comparison) -> Pair:
    return Pair(made.target, made.baseline, made.contract, made.target_loss)


def remedies(made: Comparison) -> tuple[Remedy, ...]:
    """The most decisive first; empty if nothing is to be fixed."""
    if not to_fix(made):
        return ()
    pair = pair_of(made)
    parts = (_of_failed_losses(made, pair), _of_data(made), _of_causes(made), _of_settings(made), _of_start(pair))
    given = {remedy.reason.message: remedy for part in parts for remedy in part}  # two causes may have one remedy
    return tuple(_with_new_commands([*given.values(), *_of_seeds(made, pair), _again(made)]))


def _with_new_commands(every: Sequence[Remedy]) -> Iterator[Remedy]:
    """Each command once, with the first remedy that needs it."""
    given: set[str] = set()
    for remedy in every:
        yield replace(remedy, commands=tuple(command for command in remedy.commands if command not in given))
        given.update(remedy.commands)


def _of_failed_losses(made: Comparison, pair: Pair) -> Iterator[Remedy]:
    fails = {each.side for each in made.convergence.reductions if each.learning == Learning.FAILS}
    for side, curves in zip(pair.sides, pair.curves, strict=True):
        check = f"steelyard check {shlex.quote(place_of(side.subjects[0].run.directory))} -v"
        if lost := [step for step in map(lost_at, side.subjects, curves) if step is not None]:
            values = {"side": side.called, "step": min(lost)}
            yield Remedy(Reason(BEFORE_IT_ENDS, values, side=side.name), (check,))
        elif side.name in fails:
            yield Remedy(Reason(MAKE_IT_FALL, {"side": side.called}, side=side.name), (check,))


def _of_data(made: Comparison) -> Iterator[Remedy]:
    if sides := without_learning(made):
        runs = (run_again(side.subjects[0].run.manifest, "--set", "data.source=markov") for side in sides)
        again = tuple(dict.fromkeys(filter(None, runs)))
        spellings = _spellings(sides, "data.source")
        values = {"sides": [side.called for side in sides], "spellings": spellings, "ours": bool(again)}
        yield Remedy(Reason(ONE_CORPUS, values, keys=("data.source",)), again or ("steelyard data fingerprint PATH",))
    elif _corpus_unknown(made):
        yield Remedy(Reason(NAME_THE_DATA, keys=_CORPUS), ("steelyard data fingerprint PATH",))


def _corpus_unknown(made: Comparison) -> bool:
    """Whether neither a name nor a hash shows that both sides read one corpus, or two."""
    clauses = {clause.dotted: clause for clause in made.contract}
    source, corpus = clauses["data.source"], [clauses[key] for key in _CORPUS if key in clauses]
    generated = source.status == Agreement.EQUAL and source.target != "tokens"
    named = (each.status == Agreement.EQUAL and each.target is not None for each in corpus)
    differs = (each.status == Agreement.DIFFERENT for each in (source, *corpus))
    return not generated and not any(named) and not any(differs)


def _of_causes(made: Comparison) -> Iterator[Remedy]:
    batch = _batch_keys(made)
    for cause in made.diagnoses:
        if cause.code is tokens_per_step.CODE:
            tokens = cause.values["target"].tokens, cause.values["baseline"].tokens
            spellings = _spellings(made.sides, *_OF_BATCH)
            values = {"called": cause.values["called"], "tokens": tokens, "spellings": spellings}
            yield Remedy(Reason(ONE_BATCH, values, keys=_OF_BATCH), _equalizing(made))
        elif cause.code is untrained_loss.CODE:
            yield Remedy(Reason(ONE_MODEL, keys=("model.vocab_size", "training.init_method_std")))
        elif cause.code is silent_default.CODE and (keys := tuple(key for key in cause.keys if key not in batch)):
            explain = (f"steelyard explain {key}" for key in keys[:_MOST_NAMED] if key in KEYS)
            yield Remedy(Reason(STATE_DEFAULTS, {"keys": keys}, keys=keys), tuple(explain))
        elif cause.code not in _ELSEWHERE and cause.values.get("look") is not parting.Look.OTHER_START:
            yield Remedy(Reason(CONFIRM, {"cause": cause}, side=cause.side, keys=cause.keys))


def _of_settings(made: Comparison) -> Iterator[Remedy]:
    """Settings that the contract or a diagnosis finds to differ."""
    decisive = made.comparable[Metric.CONVERGENCE].decisive if made.convergence.status == "not_comparable" else ()
    keys = [key for reason in decisive if reason.code is codes.SETTING_DIFFERS for key in reason.keys]
    keys += [key for cause in made.diagnoses if cause.code is different_setting.CODE for key in cause.keys]
    given = (*_batch_keys(made), *(["data.source"] if without_learning(made) else []))
    if keys := [key for key in dict.fromkeys(keys) if key not in given]:
        commands = _equalizing(made) or (_diff(made),)
        yield Remedy(Reason(EQUAL_SETTINGS, {"keys": keys}, keys=tuple(keys)), commands)


def _batch_keys(made: Comparison) -> tuple[str, ...]:
    """Settings that have a remedy of their own if the steps have different sizes."""
    apart = any(cause.code is tokens_per_step.CODE for cause in made.diagnoses)
    return ("training.tokens_per_step", *_OF_BATCH) if apart else ()


def _equalizing(made: Comparison) -> tuple[str, ...]:
    """The commands that give both sides the settings whose difference refuses the comparison."""
    if made.convergence.status != "not_comparable":
        return ()
    step = equal_settings(made, Metric.CONVERGENCE)
    return () if step.accepts else step.commands


def _of_start(pair: Pair) -> Iterator[Remedy]:
    if (apart := start_apart(pair)) is not None:
        yield Remedy(Reason(ONE_START, {"apart": apart}, keys=(WEIGHTS,)))
    elif pair.unmatched is not None and not declares_one_start(pair):
        yield Remedy(Reason(ONE_SEED, keys=("training.seed",)))


def _of_seeds(made: Comparison, pair: Pair) -> Iterator[Remedy]:
    if few_seeds(pair):
        values = {"fewest": FEWEST, "explains": by_seeds(LEVEL_SPREAD, pair.seeds)}
        refused = made.convergence.status == "not_comparable"  # the same settings again would not help
        again = None if refused else run_both(made, "--seeds", ",".join(map(str, range(1, FEWEST + 1))))
        yield Remedy(Reason(MORE_SEEDS, values, keys=("training.seed",)), again.commands if again else ())


def _again(made: Comparison) -> Remedy:
    names = [f"NEW_{side.name.upper()}" for side in made.sides]
    manifests = (side.subjects[0].run.manifest for side in made.sides)
    imports = [
        import_new(manifest, f"{name}_LOG", name)
        for manifest, name in zip(manifests, names, strict=True)
        if manifest.ingested is not None
    ]
    metrics = ",".join(dict.fromkeys((*made.asked, Metric.CONVERGENCE)))
    return Remedy(Reason(COMPARE_AGAIN), (*imports, f"steelyard compare {' '.join(names)} --for {metrics}"))


def _diff(made: Comparison) -> str:
    """The command that lists the settings that must agree."""
    runs = (place_of(side.subjects[0].run.directory) for side in made.sides)
    return f"steelyard diff {shlex.join(runs)} --for {Metric.CONVERGENCE}"


def _spellings(sides: Sequence[Side], *keys: str) -> dict[str, str]:
    """The names of keys in each framework, where it has names of its own."""
    names = dict.fromkeys(side.subjects[0].run.manifest.framework for side in sides)
    spelt = {name: [facts(name).spelling(key) for key in keys] for name in names if facts(name).names}
    return {name: listed(spellings) for name, every in spelt.items() if (spellings := list(filter(None, every)))}
