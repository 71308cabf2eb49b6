"""The command that leads from a comparison to an answer, or to its report."""

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.comparison import codes
from steelyard.comparison.comparison import Comparison
from steelyard.comparison.contract import Agreement, Clause, Comparability
from steelyard.comparison.intervals import FEWEST, Outcome
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import Answer, first_steps, learning_speed, level, reference
from steelyard.experiment.experiment import GROUPS
from steelyard.experiment.keys import fields_of
from steelyard.experiment.policy import Metric
from steelyard.experiment.sources import Source
from steelyard.records.manifest import RunManifest

_DROPPED_FLAGS = ("--no-check", "--json", "--follow")
_DROPPED_OPTIONS = ("--name", "--repeats", "--seeds")
_MOST_NAMES = 5
"""Runs per side that a command names."""
_MOST_SETTINGS = 3
"""Settings that a command names."""
_LONGEST = 160
"""Characters of a command of a run that is printed again."""
_MORE_SEEDS = (reference.FEW_SEEDS, level.OBSERVED, learning_speed.OBSERVED)
_FEW_RUNS = (Outcome.SINGLE_RUN, Outcome.TOO_FEW_RUNS)


@dataclass(frozen=True, slots=True)
class NextStep:
    """What leads to an answer. Each command can be pasted as it is, once its capitals are replaced."""

    commands: tuple[str, ...]
    """To be run one after the other."""
    instead: str = ""
    """Another command that also helps."""
    words: str = ""
    """What to do first, if it is not a command."""


def next_step(made: Comparison) -> NextStep | None:
    """What to do if an asked answer is missing; None if none is, or if nothing is known to help."""
    for metric in made.asked:
        status = made.comparable[metric].status
        if status == Comparability.NOT_COMPARABLE:
            return _equal_settings(made, metric)
        if status == Comparability.UNKNOWN and not (metric == Metric.CONVERGENCE and _failed(made)):
            return _missing_settings(made, metric)
        step = _more_seeds(made) if metric == Metric.CONVERGENCE else _more_runs(made, metric)
        if step:
            return step
    return None


def _failed(made: Comparison) -> bool:
    return made.convergence.status == "not_equivalent"


def _equal_settings(made: Comparison, metric: Metric) -> NextStep | None:
    """Run one side again with the settings of the other, or import a log with the setting it lacks."""
    clauses = {clause.dotted: clause for clause in made.contract if clause.status == Agreement.DIFFERENT}
    keys = [
        reason.keys[0]
        for reason in made.comparable[metric].decisive
        if reason.code is codes.SETTING_DIFFERS and _is_setting(reason.keys[0])
    ]
    differing = [clauses[key] for key in keys if _typed(clauses[key].target) and _typed(clauses[key].baseline)]
    if not differing or len(differing) > _MOST_SETTINGS:
        return None
    for side, defaults in zip(made.sides, _defaults(differing), strict=True):
        if side.subjects[0].run.manifest.ingested is not None and defaults:
            return _ingest(side, defaults)
    for at, side in enumerate(made.sides):
        values = [(clause.dotted, clause.baseline if at == 0 else clause.target) for clause in differing]
        if again := _run_again(side, *(word for key, value in values for word in ("--set", f"{key}={_typed(value)}"))):
            return NextStep((again,))
    return None


def _defaults(clauses: Sequence[Clause]) -> Iterator[list[str]]:
    """The settings of each side that are only assumed from defaults."""
    for name in ("target_source", "baseline_source"):
        sources = ((clause.dotted, getattr(clause, name)) for clause in clauses)
        yield [dotted for dotted, source in sources if source and Source.of(str(source)).is_default]


def _missing_settings(made: Comparison, metric: Metric) -> NextStep | None:
    """Import a log again with the settings it lacks."""
    for reason in made.comparable[metric].decisive:
        for side in made.sides:
            if reason.side in (side.name, "both") and side.subjects[0].run.manifest.ingested is not None:
                return _ingest(side, reason.keys if reason.code is codes.SETTINGS_UNKNOWN else ())
    return None


def _ingest(side: Side, keys: Sequence[str]) -> NextStep:
    """Import a log again, with a config that has the settings, or with each of a few settings."""
    command = _import_again(side.subjects[0].run.manifest)
    settings = [f"--set {key}=VALUE" for key in keys if _is_setting(key)]
    by_settings = f"{command} {' '.join(settings)}" if 0 < len(settings) <= _MOST_SETTINGS else ""
    return NextStep((f"{command} --config FILE",), instead=by_settings)


def _import_again(manifest: RunManifest) -> str:
    """The command that imported a run, without its name."""
    words, made = manifest.provenance.command, manifest.ingested
    if words[:2] == ["steelyard", "ingest"]:
        command = shlex.join(_kept(words))
        if len(command) <= _LONGEST and command.isprintable():
            return command
    return f"steelyard ingest {shlex.quote(made.files[0].path) if made and made.files else 'LOG'}"


def _more_runs(made: Comparison, metric: Metric) -> NextStep | None:
    ratio = made.ratios[metric]
    if ratio is None or ratio.decided:
        return None
    if ratio.outcome == Outcome.INCONCLUSIVE:
        runs = min(ratio.target_runs, ratio.baseline_runs) + ratio.more_runs if ratio.more_runs else 0
    else:
        runs = FEWEST if ratio.outcome in _FEW_RUNS else 0
    if not runs:
        return None
    return _both(made, "--repeats", str(runs)) or _import_more(runs, "runs")


def _more_seeds(made: Comparison) -> NextStep | None:
    open_ = [tier.reason for tier in made.convergence.tiers if tier.status == Answer.UNKNOWN]
    if _failed(made):
        assumed = made.convergence.tiers[-1].reason.code is first_steps.SEEDS_ASSUMED
        return _ingest(made.target, ["training.seed"]) if assumed else None
    if any(reason.code in _MORE_SEEDS for reason in open_):
        seeds = ",".join(str(seed) for seed in range(1, FEWEST + 1))
        return _both(made, "--seeds", seeds) or _import_more(FEWEST, "runs with different seeds")
    return None


def _import_more(count: int, what: str) -> NextStep:
    names = (",".join(f"{side}{at}" for at in range(1, count + 1)) for side in "AB")
    command = f"steelyard compare {' '.join(names)}" if count <= _MOST_NAMES else "steelyard compare RUNS_A RUNS_B"
    return NextStep((command,), words=f"first import at least {count} {what} per side")


def _both(made: Comparison, *options: str) -> NextStep | None:
    """The commands of both sides with further options; once if they are equal."""
    commands = [_run_again(side, *options) for side in made.sides]
    given = [command for command in commands if command is not None]
    return NextStep(tuple(dict.fromkeys(given))) if len(given) == len(commands) else None


def _run_again(side: Side, *options: str) -> str | None:
    """The command that made a run, without its name and with other options; None for imported runs."""
    manifest = side.subjects[0].run.manifest
    if manifest.ingested is not None or manifest.provenance.file is None:
        return None
    command = shlex.join([*_command(manifest, options), *options])
    return command if len(command) <= _LONGEST and command.isprintable() else None


def _command(manifest: RunManifest, options: Sequence[str]) -> Iterator[str]:
    """The words of a `steelyard run`; other commands are replaced by one with the experiment file."""
    words = manifest.provenance.command
    if len(words) < 3 or words[1] != "run":
        words = ["steelyard", "run", manifest.provenance.file or "FILE"]
    yield from _kept(words, {option.partition("=")[0] for option in options if "=" in option})


def _kept(words: Sequence[str], replaced: Collection[str] = ()) -> Iterator[str]:
    """A command without its name and its number of runs, and without the settings that are replaced."""
    yield from ("steelyard", words[1])
    rest = iter(words[2:])
    for word in rest:
        name, _, value = word.partition("=")
        if name in _DROPPED_OPTIONS:
            if not value:
                next(rest, None)
        elif word == "--set":
            setting = next(rest, "")
            if setting.partition("=")[0] not in replaced:
                yield from (word, setting)
        elif name not in _DROPPED_FLAGS:
            yield word


def _is_setting(dotted: str) -> bool:
    """Whether `--set` takes it."""
    group, _, key = dotted.partition(".")
    return group in GROUPS and key in fields_of(group)


def _typed(value: Any) -> str | None:
    """A plain value as `--set` takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float | str) else None
