"""Differences and unknowns that the user declares not to matter: `--accept KEY[=REASON]`."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from steelyard.comparison import codes
from steelyard.comparison.contract import Ruling
from steelyard.comparison.convergence import LEFT_OPEN
from steelyard.comparison.smoothing import SMOOTHED
from steelyard.errors import InputError
from steelyard.experiment.keys import KEYS, STATED
from steelyard.experiment.policy import Metric
from steelyard.reasons import Effect, Reason

NO_WORDS = "no reason given"
EVERY_KEY = "steelyard compare TARGET BASELINE --json, for every key and code"
ACCEPTABLE = (
    codes.SETTINGS_UNKNOWN,
    codes.CHECK_FAILED_MATCHED,
    codes.FIGURES_CONTRADICT,
    codes.STEP_TOKENS_DIFFER,
    codes.CLOCKS_DIFFER,
    codes.BATCHES_DIFFER,
    codes.LEARNING_RATES_DIFFER,
    codes.SAMPLES_CONTRADICT,
    codes.SETTING_CHANGED,
    codes.RUN_ON_BOTH_SIDES,
    codes.CLOCK_CONTRADICTS,
    codes.TOO_FEW_STEADY_STEPS,
    codes.TOO_FEW_STEADY_RECORDS,
    codes.MEMORY_BEFORE_TRAINING,
    codes.OUT_OF_MEMORY,
    codes.FORMULAS_DIFFER,
    codes.ARGUMENTS_DIFFER,
    codes.IDENTITY_UNKNOWN,
    LEFT_OPEN,
    SMOOTHED,
)
"""Reasons that may be accepted as a whole. A missing figure cannot: nothing is left to compare. Different settings are
accepted key by key."""
TWINS = {
    "training.tokens_per_step": "training.global_batch_size",
    "training.global_batch_size": "training.tokens_per_step",
}
"""Two names of one difference: who accepts one accepts the other. A different sequence length has its own key."""
_NAMES = (*KEYS, *STATED, *(code.name for code in ACCEPTABLE))
_ARGUMENTS = "arguments."
"""The group of printed arguments that no key covers."""
_NO_FIGURE = (codes.FIGURE_MISSING.name, codes.TIMES_MISSING.name)


@dataclass(frozen=True, slots=True)
class Acceptance:
    key: str
    """A key of the registry, or the name of a code."""
    reason: str | None = None
    """The user's words."""
    metrics: tuple[Metric, ...] = ()
    """The metrics in which it applies to a reason; empty if it changed nothing."""

    @property
    def typed(self) -> str:
        """As the command line takes it."""
        return self.key if self.reason is None else f"{self.key}={self.reason}"

    @property
    def words(self) -> str:
        return f"{self.key} ({self.reason or NO_WORDS})"

    def document(self) -> dict[str, Any]:
        return {"key": self.key, "reason": self.reason, "metrics": [metric.value for metric in self.metrics]}

    def covers(self, reason: Reason) -> bool:
        return self.key == reason.code.name or not {self.key, TWINS.get(self.key)}.isdisjoint(reason.keys)


def parse(accept: str | Sequence[str] | Mapping[str, str | None]) -> tuple[Acceptance, ...]:
    """Read `KEY[=REASON]`, each key once: the last one counts."""
    if isinstance(accept, Mapping):
        pairs = list(accept.items())
    else:
        texts = [accept] if isinstance(accept, str) else accept
        pairs = [(key, words) for key, _, words in (text.partition("=") for text in texts)]
    given = {key.strip(): (words or "").strip() or None for key, words in pairs}
    for key in given:
        _check(key)
    return tuple(Acceptance(key, words) for key, words in given.items())


def _check(key: str) -> None:
    if key in _NAMES or key.startswith(_ARGUMENTS):
        return
    if key == codes.SETTING_DIFFERS.name:
        complaint, expected = f"--accept {key} would accept every difference", "the key that differs"
        raise InputError(complaint, key="--accept", value=key, expected=expected, next="--accept KEY=REASON")
    if key in _NO_FIGURE:
        complaint = f"--accept {key}: without a figure there is nothing to compare"
        expected, fix = "a reason that leaves a figure", f"steelyard explain {key}"
        raise InputError(complaint, key="--accept", value=key, expected=expected, next=fix)
    near = nearest_names(key, _NAMES)
    complaint, expected = f"--accept {key}: not a key or a code", "a key of the comparison rules, or a reason code"
    fix = f"--accept {near[0]}" if near else EVERY_KEY
    raise InputError(complaint, key="--accept", value=key, expected=expected, next=fix, near=near)


def nearest_names(key: str, names: Sequence[str]) -> list[str]:
    """Names that a misspelled key may mean: the same key of a group first."""
    same = [name for name in names if name.rpartition(".")[2] == key]
    return list(dict.fromkeys([*same, *difflib.get_close_matches(key, names, n=3, cutoff=0.6)]))[:3]


def apply(ruling: Ruling, acceptances: Sequence[Acceptance]) -> Ruling:
    """The ruling with the accepted reasons as caveats. The user decides, so they stay caveats in matched mode."""
    return Ruling().worsened(*(part for reason in ruling.reasons for part in _parts(reason, acceptances)))


def _parts(reason: Reason, acceptances: Sequence[Acceptance]) -> Iterator[Reason]:
    """The open part of a reason and its accepted parts; only unknown settings can be taken apart."""
    whole = next((each for each in acceptances if each.key == reason.code.name), None)
    named = {key: each for each in acceptances for key in (TWINS.get(each.key), each.key)}
    by_key = {key: named[key] for key in reason.keys if key in named}
    if whole is not None:
        yield _caveat(reason, whole)
    elif reason.code is codes.SETTINGS_UNKNOWN:
        if rest := tuple(key for key in reason.keys if key not in by_key):
            yield codes.of_keys(reason, rest)
        for key in (key for key in reason.keys if key in by_key):
            yield _caveat(codes.of_keys(reason, (key,)), by_key[key])
    elif reason.keys and len(by_key) == len(reason.keys):
        yield _caveat(reason, *by_key.values())
    else:
        yield reason


def _caveat(reason: Reason, *acceptances: Acceptance) -> Reason:
    words = dict.fromkeys(acceptance.reason or NO_WORDS for acceptance in acceptances)
    return replace(reason, effect=Effect.CAVEAT, accepted="; ".join(words))


def applied(acceptances: Sequence[Acceptance], rulings: Mapping[Metric, Ruling]) -> tuple[Acceptance, ...]:
    """Each with the metrics in which it applies."""

    def metrics(acceptance: Acceptance) -> Iterator[Metric]:
        for metric, ruling in rulings.items():
            if any(reason.accepted is not None and acceptance.covers(reason) for reason in ruling.reasons):
                yield metric

    return tuple(replace(acceptance, metrics=tuple(metrics(acceptance))) for acceptance in acceptances)
