"""Repeats of a measurement on the command line: run one after the other, platforms in turn, and judged."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard import records, verdict
from steelyard.campaign.fleet_verdict import Member, worst
from steelyard.campaign.learn import FEWEST
from steelyard.campaign.outliers import METRICS
from steelyard.campaign.repeats import Turn, in_turns
from steelyard.cli import printing
from steelyard.cli.launch import Launch
from steelyard.cli.run import RECORDED, document, judge
from steelyard.errors import Exit, InfrastructureError, InputError
from steelyard.experiment.problems import shown
from steelyard.planning.plan import Planned, platform_label
from steelyard.records import Run, RunWriter
from steelyard.records.fleet import directory_names
from steelyard.reporting.curves import number
from steelyard.reporting.fleet_page import why
from steelyard.verdict import Status, Verdict

MOST_SEED = 2**63 - 1
"""What `training.seed` may be."""

Plan = Callable[[str | None, Sequence[str], bool], Planned]
"""Makes the plan of a platform with settings of its own; whether its warnings are said."""


@dataclass(frozen=True, slots=True)
class Series:
    """Which runs are asked for."""

    platforms: tuple[str | None, ...]
    seeds: tuple[int | None, ...]
    """One a repeat; None for the experiment's own."""

    @classmethod
    def of(
        cls,
        platform: str | None,
        repeats: int | None,
        seeds: str | None,
        settings: Sequence[str],
        rerun_failed: str | None,
    ) -> "Series":
        """What --platform, --repeats and --seeds say together."""
        if rerun_failed is not None:
            raise InputError(
                "--rerun-failed is for a fleet, and --repeats makes none", key="--rerun-failed", value=rerun_failed
            )
        names = _words("--platform", platform) if platform is not None else [None]
        if seeds is None:
            return cls(tuple(names), (None,) * (repeats or 1))
        found = [_seed(word) for word in _words("--seeds", seeds)]
        if len(set(found)) < len(found):  # 1 and 01 are two words
            raise _not_different(f"--seeds {shown(seeds)} names one twice", "--seeds", seeds, [*map(str, found)])
        if repeats is not None and repeats != len(found):
            raise InputError(
                f"--repeats {repeats} beside {len(found)} seeds",
                key="--repeats",
                value=repeats,
                expected="a run a seed, which --seeds alone asks for",
                next=f"--seeds {seeds}",
            )
        if any(setting.partition("=")[0].strip() == "training.seed" for setting in settings):
            raise InputError(
                "--set training.seed beside --seeds", key="--set", value="training.seed", expected="one of the two"
            )
        return cls(tuple(names), tuple(found))


def _words(option: str, text: str) -> list[str]:
    """Several values by commas, each once."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise _not_different(f"{option} {shown(text)} leaves one empty", option, text, words)
    if len(set(words)) < len(words):
        raise _not_different(f"{option} {shown(text)} names one twice", option, text, words)
    return words


def _not_different(message: str, option: str, text: str, words: Sequence[str]) -> InputError:
    return InputError(
        message,
        key=option,
        value=text,
        expected="different values with commas between them",
        next=f"{option} {','.join(dict.fromkeys(filter(None, words))) or '…'}",
    )


def _seed(word: str) -> int:
    digits = word.lstrip("0") or "0"
    if not word.isascii() or not word.isdigit() or len(digits) > len(str(MOST_SEED)) or int(digits) > MOST_SEED:
        raise InputError(
            f"--seeds: {shown(word)} is no seed",
            key="--seeds",
            value=shown(word),
            expected=f"whole numbers from 0 to {MOST_SEED} with commas between them",
            next="--seeds 1,2,3",
        )
    return int(digits)


@dataclass(slots=True)
class Repeat:
    """One run of the series, as far as it has come."""

    turn: Turn
    name: str
    """From the directory of all of them."""
    writer: RunWriter
    judged: Verdict | None = None
    error: InfrastructureError | None = None
    """Why it failed, where that was not the training program's own."""

    @property
    def run(self) -> Run:
        return records.load(self.writer.directory)

    @property
    def ends_all(self) -> bool:
        """Whether the next one would meet the same: what fails before the training begins is still there then.

        A host that is lost while it trains may be back, and if not, the next run fails to reach it.
        """
        failure = self.writer.manifest.failure
        return self.error is not None and (failure is None or failure.phase != "train")

    @property
    def exit(self) -> Exit:
        if self.error is not None:
            return Exit.INFRASTRUCTURE
        return verdict.EXIT_OF[self.judged.status] if self.judged else RECORDED[self.writer.manifest.status]


@dataclass(frozen=True, slots=True)
class Repeats:
    """All that was made of a series."""

    directory: Path
    places: dict[str, Path]
    """Where the runs of each platform lie."""
    planned: int
    made: tuple[Repeat, ...]
    stopped: bool

    @property
    def status(self) -> Status | None:
        """The worst of its runs; None where they were not judged, or not all of them made because we were stopped."""
        found = [one.judged.status for one in self.made if one.judged]
        return None if self.stopped or not found else worst(found)

    @property
    def exit(self) -> Exit:
        """The worst: for want of infrastructure, failed, not known, good."""
        if self.stopped:
            return Exit.INTERRUPTED
        ends = {one.exit for one in self.made}
        return next(end for end in (Exit.INFRASTRUCTURE, Exit.FAILED, Exit.UNKNOWN, Exit.GOOD) if end in ends)

    @property
    def lost(self) -> list[Repeat]:
        return [one for one in self.made if one.error is not None]

    def document(self) -> dict[str, Any]:
        """What `run --repeats --json` prints."""
        return {
            "repeats": str(self.directory.resolve()),
            "directories": {name: str(place.resolve()) for name, place in self.places.items()},
            "planned": self.planned,
            "runs": [
                {
                    "platform": one.writer.manifest.platform.name,
                    "repeat": one.turn.repeat,
                    "seed": one.writer.manifest.experiment["training"]["seed"],
                    **document(
                        one.writer.directory,
                        one.writer.manifest,
                        one.writer.steps,
                        one.judged.status.value if one.judged else None,
                    ),
                }
                for one in self.made
            ],
            "verdict": self.status.value if self.status else None,
        }


def run_repeats(
    series: Series, plan: Plan, launch: Launch, *, out: Path, name: str | None, no_check: bool, as_json: bool
) -> int:
    """Plan all of them, run one after the other, judge each."""
    turns = in_turns(series.platforms, series.seeds)
    plans: dict[tuple[str | None, int | None], Planned] = {}
    for turn in turns:
        if (turn.platform, turn.seed) not in plans:
            plans[turn.platform, turn.seed] = _plan(plan, turn)
    labels = {one: one or platform_label(plans[one, series.seeds[0]].case) for one in series.platforms}
    experiment = plans[turns[0].platform, turns[0].seed].plan.experiment
    directory = records.new_directory(out, name, records.stamped(experiment, *labels.values()))
    places = _places(directory, labels)
    printing.note(f"recording {directory}: {len(turns)} runs{_in_turn(series)}")
    made: list[Repeat] = []
    stopped = False
    try:
        for at, turn in enumerate(turns, start=1):
            planned, place = plans[turn.platform, turn.seed], places[labels[turn.platform]]
            writer = launch.begin(planned, place, _name(turn, series))
            made.append(Repeat(turn, str(writer.directory.relative_to(directory)), writer))
            printing.note(f"{_count(turn, series, at, len(turns))}: {writer.directory}")
            _run(made[-1], planned, launch, no_check)
            stopped = writer.manifest.status == "interrupted"
            if stopped or made[-1].ends_all:
                break
    except KeyboardInterrupt:  # between two runs; while one is made, it hears of it itself
        stopped = True
        if made and made[-1].writer.manifest.status == "running":
            made[-1].writer.finish("interrupted", None, None)
    return _tell(Repeats(directory, places, len(turns), tuple(made), stopped), as_json)


def _plan(plan: Plan, turn: Turn) -> Planned:
    own = [] if turn.seed is None else [f"training.seed={turn.seed}"]
    made = plan(turn.platform, own, turn.repeat == 1)
    if made.plan.fleet:
        raise InputError(
            f"{made.case.resolved.file} on this cluster is a fleet: a run on each of {len(made.plan.nodes)} hosts",
            key="--repeats",
            expected="one job: --nodes 1, or a platform of several nodes",
            next="--nodes 1",
        )
    return made


def _places(directory: Path, labels: dict[str | None, str]) -> dict[str, Path]:
    """The directory itself for one platform; one in it for each of several."""
    if len(labels) == 1:
        return dict.fromkeys(labels.values(), directory)
    names = directory_names(directory, list(labels.values()))
    return {label: directory / name for label, name in zip(labels.values(), names, strict=True)}


def _name(turn: Turn, series: Series) -> str:
    """Of the run directory, so that names sort as the runs were made."""
    width = len(str(len(series.seeds)))
    return f"repeat-{turn.repeat:0{width}d}" if turn.seed is None else f"seed-{turn.seed}"


def _in_turn(series: Series) -> str:
    return f", {' and '.join(filter(None, series.platforms))} in turn" if len(series.platforms) > 1 else ""


def _count(turn: Turn, series: Series, at: int, planned: int) -> str:
    where = f" on {turn.platform} (run {at} of {planned})" if len(series.platforms) > 1 else ""
    seed = "" if turn.seed is None else f", seed {turn.seed}"
    return f"repeat {turn.repeat} of {len(series.seeds)}{where}{seed}"


def _run(repeat: Repeat, planned: Planned, launch: Launch, no_check: bool) -> None:
    writer = repeat.writer
    try:
        launch.execute(planned, writer)
    except InfrastructureError as error:
        repeat.error = error
    if writer.manifest.status != "interrupted" and not no_check:
        repeat.judged = judge(writer.directory)
    word = f", {repeat.judged.status.value}" if repeat.judged else ""
    printing.note(f"{repeat.name}: {writer.manifest.status} after {writer.steps} steps{word}")


def _tell(repeats: Repeats, as_json: bool) -> int:
    told = repeats.document()
    if not as_json:
        _show(repeats)
    if repeats.lost and not repeats.stopped:
        printing.show_error(_lost(repeats), as_json, beside=told)
    elif as_json:
        printing.show_json(told)
    else:
        printing.say(f"next: {_next(repeats)}")
    return repeats.exit


def _lost(repeats: Repeats) -> InfrastructureError:
    first, left = repeats.lost[0], repeats.planned - len(repeats.made)
    assert first.error is not None
    unmade = f"; {left} not made, which would have met the same" if left else ""
    return InfrastructureError(
        f"{len(repeats.lost)} of {repeats.planned} runs failed for want of infrastructure{unmade}:"
        f" {first.name}: {first.error.message}",
        key=first.error.key,
        value=first.error.value,
        expected=first.error.expected,
        next=first.error.next,
    )


def _next(repeats: Repeats) -> str:
    places = [shlex.quote(str(place)) for place in repeats.places.values()]
    if repeats.stopped:
        return "the same command with another --name, for a whole series"
    if len(places) > 1:
        return f"steelyard compare {' '.join(places[:2])}"
    learn = f"steelyard runs learn {places[0]}, or " if len(repeats.made) >= FEWEST else ""
    return f"{learn}steelyard compare {places[0]} BASELINE"


def _show(repeats: Repeats) -> None:
    """A line a run, and why one did not pass."""
    word = repeats.status.value.upper() if repeats.status else "interrupted" if repeats.stopped else "not judged"
    count = "" if len(repeats.made) == repeats.planned else f", {len(repeats.made)} of {repeats.planned} runs"
    printing.say(f"repeats: {word}{count}  {repeats.directory}")
    rows = [["run", "status", "verdict", "steps", *METRICS]]
    for one in repeats.made:
        values = [one.judged.figures.metric(metric).value if one.judged else None for metric in METRICS]
        figures = ["-" if value is None else number(value) for value in values]
        judged = one.judged.status.value if one.judged else "-"
        rows.append([one.name, one.writer.manifest.status, judged, str(one.writer.steps), *figures])
    printing.table(rows, "  ")
    for one in repeats.made:
        if one.judged and (words := why(Member(one.name, one.run, one.judged))) is not None:
            printing.say(printing.hang("  ", printing.inert(words)))
