"""Repeats of a measurement on the command line."""

import shlex
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from steelyard import records, verdict
from steelyard.campaign import CampaignRequest
from steelyard.campaign.fleet_verdict import METRICS, Member
from steelyard.campaign.learn import FEWEST
from steelyard.campaign.repeats import MakePlan, Repeat, Repeats, Series, run_repeats
from steelyard.cli import check, printing
from steelyard.cli.run import RECORDED, view_of
from steelyard.cli.run import document as run_document
from steelyard.errors import Exit, InfrastructureError, InputError
from steelyard.execute import RunOptions
from steelyard.execute.recording import Observer
from steelyard.experiment.problems import shown
from steelyard.planning.make import Planned
from steelyard.reporting.curves import number
from steelyard.reporting.fleet_page import why

MOST_SEED = 2**63 - 1
"""What `training.seed` may be."""


def series_of(
    platform: str | None, repeats: int | None, seeds: str | None, settings: Sequence[str], rerun_failed: str | None
) -> Series:
    """What --platform, --repeats and --seeds say together."""
    if rerun_failed is not None:
        raise InputError(
            "--rerun-failed is for a fleet, and --repeats makes none", key="--rerun-failed", value=rerun_failed
        )
    names = _words("--platform", platform) if platform is not None else [None]
    if seeds is None:
        return Series(tuple(names), (None,) * (repeats or 1))
    numbers = [_seed(word) for word in _words("--seeds", seeds)]
    if len(set(numbers)) < len(numbers):  # 1 and 01 are two words
        raise _not_different(f"--seeds {shown(seeds)} names one twice", "--seeds", seeds, [*map(str, numbers)])
    if repeats is not None and repeats != len(numbers):
        raise InputError(
            f"--repeats {repeats} beside {len(numbers)} seeds",
            key="--repeats",
            value=repeats,
            expected="a run a seed, which --seeds alone asks for",
            next=f"--seeds {seeds}",
        )
    if any(setting.partition("=")[0].strip() == "training.seed" for setting in settings):
        raise InputError(
            "--set training.seed beside --seeds", key="--set", value="training.seed", expected="one of the two"
        )
    return Series(tuple(names), tuple(numbers))


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


class _Reporter:
    """Tells a person how a series goes on."""

    def __init__(self, series: Series) -> None:
        self._series = series

    def series_begins(self, directory: Path, series: Series) -> None:
        in_turn = f", {' and '.join(filter(None, series.platforms))} in turn" if len(series.platforms) > 1 else ""
        printing.note(f"recording {directory}: {len(series.turns)} runs{in_turn}")

    def run_begins(self, repeat: Repeat, number: int) -> None:
        turn, series = repeat.turn, self._series
        of_all = f" on {turn.platform} (run {number} of {len(series.turns)})" if len(series.platforms) > 1 else ""
        seed = "" if turn.seed is None else f", seed {turn.seed}"
        printing.note(f"repeat {turn.repeat} of {len(series.seeds)}{of_all}{seed}: {repeat.writer.directory}")

    def watch(self, planned: Planned) -> AbstractContextManager[Observer]:
        return view_of(planned)

    def run_ended(self, repeat: Repeat) -> None:
        word = f", {repeat.judged.status.value}" if repeat.judged else ""
        status, steps = repeat.writer.manifest.status, repeat.writer.steps
        printing.note(f"{repeat.name}: {status} after {steps} steps{word}")

    def not_saved(self, path: Path, reason: OSError) -> None:
        check.not_saved(path, reason)


def repeat(series: Series, plan: MakePlan, options: RunOptions, request: CampaignRequest, as_json: bool) -> int:
    """Make the runs of a series and show what they came to."""
    return _tell(run_repeats(series, plan, options, request, _Reporter(series)), as_json)


def document(repeats: Repeats) -> dict[str, Any]:
    """What `run --repeats --json` prints."""
    return {
        "repeats": str(repeats.directory.resolve()),
        "directories": {name: str(place.resolve()) for name, place in repeats.places.items()},
        "planned": repeats.num_planned,
        "runs": [
            {
                "platform": repeat.writer.manifest.platform.name,
                "repeat": repeat.turn.repeat,
                "seed": repeat.writer.manifest.experiment.value("training.seed"),
                **run_document(
                    repeat.writer.directory,
                    repeat.writer.manifest,
                    repeat.writer.steps,
                    repeat.judged.status.value if repeat.judged else None,
                ),
            }
            for repeat in repeats.runs
        ],
        "verdict": repeats.status.value if repeats.status else None,
    }


def _exit_of(repeats: Repeats) -> Exit:
    """The worst: for want of infrastructure, failed, not known, good."""
    if repeats.stopped:
        return Exit.INTERRUPTED
    ends = {_exit_of_run(repeat) for repeat in repeats.runs}
    return next(end for end in (Exit.INFRASTRUCTURE, Exit.FAILED, Exit.UNKNOWN, Exit.GOOD) if end in ends)


def _exit_of_run(repeat: Repeat) -> Exit:
    if repeat.error is not None:
        return Exit.INFRASTRUCTURE
    return verdict.EXIT_OF[repeat.judged.status] if repeat.judged else RECORDED[repeat.writer.manifest.status]


def _tell(repeats: Repeats, as_json: bool) -> int:
    result = document(repeats)
    if not as_json:
        _show(repeats)
    if repeats.lost and not repeats.stopped:
        printing.show_error(_lost(repeats), as_json, beside=result)
    elif as_json:
        printing.show_json(result)
    else:
        printing.say(f"next: {_next(repeats)}")
    return _exit_of(repeats)


def _lost(repeats: Repeats) -> InfrastructureError:
    first, left = repeats.lost[0], repeats.num_planned - len(repeats.runs)
    assert first.error is not None
    unmade = f"; {left} not made, which would have met the same" if left else ""
    return InfrastructureError(
        f"{len(repeats.lost)} of {repeats.num_planned} runs failed for want of infrastructure{unmade}:"
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
    learn = f"steelyard runs learn {places[0]}, or " if len(repeats.runs) >= FEWEST else ""
    return f"{learn}steelyard compare {places[0]} BASELINE"


def _show(repeats: Repeats) -> None:
    """A line a run, and why one did not pass."""
    word = repeats.status.value.upper() if repeats.status else "interrupted" if repeats.stopped else "not judged"
    count = "" if len(repeats.runs) == repeats.num_planned else f", {len(repeats.runs)} of {repeats.num_planned} runs"
    printing.say(f"repeats: {word}{count}  {repeats.directory}")
    rows = [["run", "status", "verdict", "steps", *METRICS]]
    for repeat in repeats.runs:
        values = [repeat.judged.figures.metric(metric).value if repeat.judged else None for metric in METRICS]
        figures = ["-" if value is None else number(value) for value in values]
        judged = repeat.judged.status.value if repeat.judged else "-"
        rows.append([repeat.name, repeat.writer.manifest.status, judged, str(repeat.writer.steps), *figures])
    printing.table(rows, "  ")
    for repeat in repeats.runs:
        if repeat.judged is None:
            continue
        member = Member(repeat.name, records.load(repeat.writer.directory), repeat.judged)
        if (words := why(member)) is not None:
            printing.say(printing.hang("  ", printing.inert(words)))
