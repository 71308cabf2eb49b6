"""The command that leads from a comparison to an answer, or to its report."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.comparison import codes
from steelyard.comparison.acceptance import ACCEPTABLE, TWINS
from steelyard.comparison.again import LONGEST, import_again, run_again
from steelyard.comparison.assumption import ASSUMABLE
from steelyard.comparison.comparison import Comparison
from steelyard.comparison.contract import Agreement, Clause, Comparability
from steelyard.comparison.files import commands
from steelyard.comparison.intervals import FEWEST, Outcome
from steelyard.comparison.missing import Missing, missing_settings, without_a_figure
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import Answer, learning_speed, level, reference
from steelyard.experiment.policy import Metric
from steelyard.experiment.problems import spelt
from steelyard.experiment.sources import Source
from steelyard.files import place_of
from steelyard.reasons import Reason

_MOST_NAMES = 5
"""Runs per side that a command names."""
_MOST_SETTINGS = 3
"""Settings that a command names."""
_OF_MANY_KEYS = (codes.SETTINGS_UNKNOWN, codes.ARGUMENTS_DIFFER)
"""Reasons about any number of keys."""
_MORE_SEEDS = (reference.FEW_SEEDS, level.OBSERVED, learning_speed.OBSERVED)
_FEW_RUNS = (Outcome.SINGLE_RUN, Outcome.TOO_FEW_RUNS)
_FEW_STEPS = (codes.TOO_FEW_STEADY_STEPS, codes.TOO_FEW_STEADY_RECORDS)
_FIRST = {
    codes.FIGURES_CONTRADICT: "check the GPU, the GPU count and the sequence length of {side}, and import it again",
    codes.CHECK_FAILED_MATCHED: "the check is a caveat with --mode best",
    codes.CLOCKS_DIFFER: "find out which clock of {side} is right",
    codes.CLOCK_CONTRADICTS: "accept it only if the step times of {side} are right and its timestamps wrong",
    codes.STEP_TOKENS_DIFFER: "check the GPU count and the batch size of both sides",
    codes.BATCHES_DIFFER: "train both sides with one batch size",
    codes.LEARNING_RATES_DIFFER: "train both sides with one schedule",
    codes.SAMPLES_CONTRADICT: "check training.global_batch_size of {side}",
    codes.SETTING_CHANGED: "compare a run of {side} without the change",
    codes.RUN_ON_BOTH_SIDES: "name each run on one side only",
    codes.FIGURE_MISSING: "import a log of {side} that contains the figure",
    codes.TIMES_MISSING: "import a log of {side} that contains step times",
    codes.TOO_FEW_STEADY_STEPS: "use longer runs of {side}",
    codes.TOO_FEW_STEADY_RECORDS: "use longer runs of {side}, or print a record for every step",
    codes.MEMORY_BEFORE_TRAINING: "import a log of {side} with memory after the first step",
    codes.OUT_OF_MEMORY: "compare runs of {side} that did not run out of memory",
    codes.FORMULAS_DIFFER: "supply the model of each side, or compare tokens/s",
}
"""What to do first, by the reason that decides."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """What leads to an answer. Each command can be pasted as it is, once its capitals are replaced."""

    commands: tuple[str, ...] = ()
    """To be run one after the other."""
    instead: tuple[str, ...] = ()
    """Other commands, each of which also helps."""
    words: str = ""
    """What to do first, if it is not a command."""
    missing: tuple[Missing, ...] = ()
    """Settings that would decide it."""
    accepts: bool = False
    """Whether `commands` accept the difference."""

    def document(self) -> dict[str, Any]:
        missing = [each.document() for each in self.missing]
        return {
            "commands": list(self.commands),
            "instead": list(self.instead),
            "words": self.words or None,
            "missing": missing,
        }


def next_step(made: Comparison) -> NextStep | None:
    """What to do if an asked answer is missing; None if none is, or if nothing is known to help."""
    for metric in made.asked:
        status = made.comparable[metric].status
        if status == Comparability.NOT_COMPARABLE:
            return equal_settings(made, metric)
        if status == Comparability.UNKNOWN and not (metric == Metric.CONVERGENCE and _failed(made)):
            return _missing_settings(made, metric)
        step = _more_seeds(made) if metric == Metric.CONVERGENCE else _more_runs(made, metric)
        if step:
            return step
    return None


def _failed(made: Comparison) -> bool:
    return made.convergence.status == "not_equivalent"


def _again(made: Comparison, *options: str) -> str:
    """The command of the comparison with more options; their values are to be replaced, so they are not quoted."""
    return " ".join((" && ".join(commands(made)), *options))


def _words(made: Comparison, reason: Reason) -> str:
    called = {side.name: side.called for side in made.sides} | {"both": " and ".join(s.called for s in made.sides)}
    return _FIRST.get(reason.code, "").format(side=called[reason.side or "both"])


def _accepting(made: Comparison, decisive: Sequence[Reason]) -> tuple[str, ...]:
    """The comparison with the reasons that decide accepted, unless a figure is missing."""
    names: dict[str, None] = {}
    for reason in decisive:
        if reason.code in _OF_MANY_KEYS and len(reason.keys) > _MOST_SETTINGS:
            names[reason.code.name] = None
        elif reason.keys:
            names |= dict.fromkeys(key for key in reason.keys if TWINS.get(key) not in names)
        elif reason.code in ACCEPTABLE:
            names[reason.code.name] = None
        else:
            return ()
    return (_again(made, *(f"--accept {name}=REASON" for name in names)),)


def equal_settings(made: Comparison, metric: Metric) -> NextStep:
    """Run one side again with the settings of the other, import a log with the setting it lacks, or accept it."""
    clauses = {clause.dotted: clause for clause in made.contract if clause.status == Agreement.DIFFERENT}
    decisive = made.comparable[metric].decisive
    missing = missing_settings(made, metric, made.comparable[metric].reasons)
    keys = [reason.keys[0] for reason in decisive if reason.code is codes.SETTING_DIFFERS]
    differing = [clauses[key] for key in keys if key in ASSUMABLE and not key.startswith("platform.")]
    accepting = _accepting(made, decisive)
    if differing and len(differing) <= _MOST_SETTINGS:
        for side, defaults in zip(made.sides, _defaults(differing), strict=True):
            if side.subjects[0].run.manifest.ingested is not None and defaults:
                return NextStep(_imports(side, defaults), accepting, missing=missing)
        for at, side in enumerate(made.sides):
            values = [(clause.dotted, clause.baseline if at == 0 else clause.target) for clause in differing]
            settings = [word for key, value in values for word in ("--set", f"{key}={spelt(value)}")]
            if _are_plain(differing) and (again := run_again(side.subjects[0].run.manifest, *settings)):
                return NextStep((again,), accepting, missing=missing)
    return NextStep(accepting, words=_words(made, decisive[0]), missing=missing, accepts=True)


def _defaults(clauses: Sequence[Clause]) -> Iterator[list[str]]:
    """The settings of each side that are only assumed from defaults."""
    for name in ("target_source", "baseline_source"):
        sources = ((clause.dotted, getattr(clause, name)) for clause in clauses)
        yield [dotted for dotted, source in sources if source and Source.of(str(source)).is_default]


def _are_plain(clauses: Sequence[Clause]) -> bool:
    values = (value for clause in clauses for value in (clause.target, clause.baseline))
    return all(isinstance(value, bool | int | float | str) for value in values)


def _missing_settings(made: Comparison, metric: Metric) -> NextStep:
    """Supply what is missing, in an import or in the comparison; else accept that it is unknown."""
    decisive = made.comparable[metric].decisive
    missing = missing_settings(made, metric, decisive)
    accepting = _accepting(made, decisive)
    words, command = _without_a_figure(made, metric, decisive)
    if missing:
        imports: tuple[str, ...] = ()
        for side in made.sides:
            own = [each for each in missing if each.side in (side.name, "both")]
            if own and side.subjects[0].run.manifest.ingested is not None:
                imports += _imports(side, [each.key for each in own])[:1]
        return NextStep(imports or (_again(made),), accepting, words, missing)
    if words:
        return NextStep((command,) if command else (), accepting, words)
    if decisive[0].code in _FEW_STEPS:
        side = made.sides[decisive[0].side == "baseline"]
        if again := run_again(side.subjects[0].run.manifest, "--set", "training.steps=N"):
            return NextStep((again,), accepting)
    return NextStep(accepting, words=_words(made, decisive[0]), accepts=True)


def _without_a_figure(made: Comparison, metric: Metric, decisive: Sequence[Reason]) -> tuple[str, str | None]:
    """What to do where a figure is missing that no setting supplies; empty where none is."""
    for reason in decisive:
        if reason.code is codes.TIMES_MISSING:
            return _words(made, reason), None
        if reason.code is codes.FIGURE_MISSING and not missing_settings(made, metric, [reason]):
            return without_a_figure(made, metric, reason)
    return "", None


def _imports(side: Side, keys: Sequence[str]) -> tuple[str, ...]:
    """Import a log again, with each of a few settings or with a config that has them."""
    command = import_again(side.subjects[0].run.manifest)
    options = [option for key in keys if (option := Missing(side.name, key).of_ingest)]
    if 0 < len(options) <= _MOST_SETTINGS:
        return f"{command} {' '.join(options)}", f"{command} --config FILE"
    return (f"{command} --config FILE",)


def _more_runs(made: Comparison, metric: Metric) -> NextStep | None:
    ratio = made.ratios[metric]
    if ratio is None or ratio.decided:
        return None
    if ratio.outcome == Outcome.INCONCLUSIVE and ratio.more_runs:
        more = run_both(made, "--repeats", str(ratio.more_runs))
        total = min(ratio.target_runs, ratio.baseline_runs) + ratio.more_runs
        return NextStep((*more.commands, _with_new(made))) if more else _import_more(total, "runs")
    if ratio.outcome not in _FEW_RUNS:
        return None
    return run_both(made, "--repeats", str(FEWEST)) or _import_more(FEWEST, "runs")


def _with_new(made: Comparison) -> str:
    """Compare all runs, the new ones too: the plan that the next look is made for."""
    sides = [",".join(place_of(subject.run.directory) for subject in side.subjects) for side in made.sides]
    if len("".join(sides)) > LONGEST / 2 or not "".join(sides).isprintable():
        sides = [side.name.upper() for side in made.sides]
    new = ("NEW_TARGET", "NEW_BASELINE")
    words = (f"{shlex.quote(given)},{name}" for given, name in zip(sides, new, strict=True))
    return f"steelyard compare {' '.join(words)}"


def _more_seeds(made: Comparison) -> NextStep | None:
    open_ = [tier.reason for tier in made.convergence.tiers if tier.status == Answer.UNKNOWN]
    if _failed(made):
        return None
    if any(reason.code in _MORE_SEEDS for reason in open_):
        seeds = ",".join(str(seed) for seed in range(1, FEWEST + 1))
        return run_both(made, "--seeds", seeds) or _import_more(FEWEST, "runs with different seeds")
    return None


def _import_more(count: int, what: str) -> NextStep:
    names = (",".join(f"{side}{at}" for at in range(1, count + 1)) for side in "AB")
    command = f"steelyard compare {' '.join(names)}" if count <= _MOST_NAMES else "steelyard compare RUNS_A RUNS_B"
    return NextStep((command,), words=f"first import at least {count} {what} per side")


def run_both(made: Comparison, *options: str) -> NextStep | None:
    """The commands of both sides with further options; once if they are equal."""
    commands = [run_again(side.subjects[0].run.manifest, *options) for side in made.sides]
    given = [command for command in commands if command is not None]
    return NextStep(tuple(dict.fromkeys(given))) if len(given) == len(commands) else None
