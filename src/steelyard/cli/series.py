"""Repeats on the command line: run them one after the other and show the result."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from steelyard import records, verdict
from steelyard.campaign import CampaignRequest
from steelyard.campaign.fleet_verdict import METRICS, Member
from steelyard.campaign.learn import FEWEST
from steelyard.campaign.repeats import MakePlan, Repeat, Repeats, Series, run_repeats
from steelyard.cli import columns, printing, runs_show
from steelyard.cli.fleet import reasons
from steelyard.cli.outcome import RECORDED, counted, not_saved, run_document, view_of
from steelyard.errors import Exit, InfrastructureError, InputError
from steelyard.execute import RunOptions
from steelyard.experiment.problems import shown
from steelyard.verdict import Status

MOST_SEED = 2**63 - 1
"""Largest `training.seed`."""


def series_of(
    platform: str | None, repeats: int | None, seeds: str | None, settings: Sequence[str], rerun_failed: str | None
) -> Series:
    """The series that --platform, --repeats and --seeds describe."""
    if rerun_failed is not None:
        complaint, way_on = "--rerun-failed cannot be combined with --repeats", "the same command without --repeats"
        raise InputError(complaint, key="--rerun-failed", value=rerun_failed, next=way_on)
    names = _words("--platform", platform) if platform is not None else [None]
    if seeds is None:
        return Series(tuple(names), (None,) * (repeats or 1))
    numbers = [_seed(word) for word in _words("--seeds", seeds)]
    _check_different("--seeds", seeds, [*map(str, numbers)])  # 1 and 01 are different words
    if repeats is not None and repeats != len(numbers):
        complaint, expected = f"--repeats {repeats}, but {len(numbers)} seeds", "one run per seed"
        way_on = f"--seeds {shlex.quote(seeds)} without --repeats"
        raise InputError(complaint, key="--repeats", value=repeats, expected=expected, next=way_on)
    if any(setting.partition("=")[0].strip() == "training.seed" for setting in settings):
        complaint = "--set training.seed and --seeds both set the seed"
        raise InputError(complaint, key="--set", value="training.seed", next="one of the two")
    return Series(tuple(names), tuple(numbers))


def _words(option: str, text: str) -> list[str]:
    """Values separated by commas, each once."""
    words = [word.strip() for word in text.split(",")]
    _check_different(option, text, words)
    return words


def _check_different(option: str, text: str, words: Sequence[str]) -> None:
    if not all(words) or len(set(words)) < len(words):
        complaint = f"{option} {shown(text)} contains {'a value twice' if all(words) else 'an empty value'}"
        expected = "different values, separated by commas"
        way_on = f"{option} {shlex.quote(','.join(dict.fromkeys(filter(None, words))) or '…')}"
        raise InputError(complaint, key=option, value=text, expected=expected, next=way_on)


def _seed(word: str) -> int:
    digits = word.lstrip("0") or "0"
    if not word.isascii() or not word.isdigit() or len(digits) > len(str(MOST_SEED)) or int(digits) > MOST_SEED:
        complaint = f"--seeds: {shown(word)} is not a seed"
        expected = f"whole numbers from 0 to {MOST_SEED}, separated by commas"
        raise InputError(complaint, key="--seeds", value=shown(word), expected=expected, next="--seeds 1,2,3")
    return int(digits)


_COLUMNS = [replace(column, head="run") if column.key == "name" else column for column in runs_show.MEMBER_COLUMNS]


class _Reporter:
    watch = staticmethod(view_of)
    not_saved = staticmethod(not_saved)

    def __init__(self, series: Series) -> None:
        self._series = series

    def series_begins(self, directory: Path, series: Series) -> None:
        platforms = " and ".join(filter(None, series.platforms))
        in_turns = f", {platforms} in turns" if len(series.platforms) > 1 else ""
        printing.note(f"recording {counted(len(series.turns), 'run')} in {directory}{in_turns}")

    def run_begins(self, repeat: Repeat, number: int) -> None:
        turn, series = repeat.turn, self._series
        of_all = f" on {turn.platform} (run {number} of {len(series.turns)})" if len(series.platforms) > 1 else ""
        seed = "" if turn.seed is None else f", seed {turn.seed}"
        printing.note(f"repeat {turn.repeat} of {len(series.seeds)}{of_all}{seed}: {repeat.writer.directory}")

    def run_ended(self, repeat: Repeat) -> None:
        word = f", {repeat.judged.status.value}" if repeat.judged else ""
        status, steps = repeat.writer.manifest.status, counted(repeat.writer.steps, "step")
        printing.note(f"{repeat.name}: {status} after {steps}{word}")


def repeat(series: Series, plan: MakePlan, options: RunOptions, request: CampaignRequest, as_json: bool) -> int:
    """Run a series and show the result."""
    repeats = run_repeats(series, plan, options, request, _Reporter(series))
    document = _document(repeats)
    if not as_json:
        _show(repeats)
    if repeats.lost and not repeats.stopped:
        printing.show_error(_lost(repeats), as_json, extra=document)
    elif as_json:
        printing.show_json(document)
    else:
        runs_show.say_next(_next(repeats))
    return _exit_of(repeats)


def _document(repeats: Repeats) -> dict[str, Any]:
    runs = []
    for repeat in repeats.runs:
        writer, word = repeat.writer, repeat.judged.status.value if repeat.judged else None
        runs.append(
            {
                "platform": writer.manifest.platform.name,
                "repeat": repeat.turn.repeat,
                "seed": writer.manifest.experiment.value("training.seed"),
                **run_document(writer.directory, writer.manifest, writer.steps, word),
            }
        )
    return {
        "repeats": str(repeats.directory.resolve()),
        "directories": {name: str(place.resolve()) for name, place in repeats.places.items()},
        "planned": repeats.num_planned,
        "runs": runs,
        "verdict": repeats.status.value if repeats.status else None,
    }


def _exit_of(repeats: Repeats) -> Exit:
    """The worst exit status: infrastructure, failed, unknown, good."""
    if repeats.stopped:
        return Exit.INTERRUPTED
    if repeats.lost:
        return Exit.INFRASTRUCTURE
    ends = {
        verdict.EXIT_OF[repeat.judged.status] if repeat.judged else RECORDED[repeat.writer.manifest.status]
        for repeat in repeats.runs
    }
    return next(end for end in (Exit.FAILED, Exit.UNKNOWN, Exit.GOOD) if end in ends)


def _lost(repeats: Repeats) -> InfrastructureError:
    first, left = repeats.lost[0], repeats.num_planned - len(repeats.runs)
    error = first.error
    assert error is not None
    skipped = f"; {counted(left, 'run')} not started" if left else ""
    failed = f"infrastructure failure in {len(repeats.lost)} of {repeats.num_planned} runs{skipped}"
    message = f"{failed}: {first.name}: {error.message}"
    return InfrastructureError(message, key=error.key, value=error.value, expected=error.expected, next=error.next)


def _next(repeats: Repeats) -> str:
    places = [shlex.quote(str(place)) for place in repeats.places.values()]
    if repeats.stopped:
        return "the same command with another --name, for a complete series"
    if not_passed := [run for run in repeats.runs if run.judged and run.judged.status != Status.PASS]:
        return f"steelyard check {shlex.quote(str(not_passed[0].writer.directory))}"
    if len(places) > 1:
        return f"steelyard compare {' '.join(places[:2])}"
    learn = f"steelyard runs learn {places[0]}, or " if len(repeats.runs) >= FEWEST else ""
    return f"{learn}steelyard compare {places[0]} BASELINE"


def _show(repeats: Repeats) -> None:
    """Verdict and counts, one row per run, then why runs did not pass."""
    passed = sum(repeat.judged is not None and repeat.judged.status == Status.PASS for repeat in repeats.runs)
    made = f"{len(repeats.runs)} of {counted(repeats.num_planned, 'run')} made"
    counts = [f"{passed} of {counted(repeats.num_planned, 'run')} passed"] if repeats.status else []
    counts += [made] if len(repeats.runs) < repeats.num_planned else []
    words = ", ".join([*(["interrupted"] if repeats.stopped else []), *counts])
    runs_show.say_verdict("repeats", repeats.status and repeats.status.value, f"{words}  {repeats.directory}".lstrip())
    rows, members = [], []
    for repeat in repeats.runs:
        judged, writer = repeat.judged, repeat.writer
        figures = {metric: judged.figures.metric(metric).value if judged else None for metric in METRICS}
        word = judged.status.value if judged else None
        rows.append(runs_show.member_cells(repeat.name, writer.manifest.status, word, writer.steps, figures))
        if judged:
            members.append(Member(repeat.name, records.load(writer.directory), judged))
    columns.show(_COLUMNS, rows, "  ")
    runs_show.say_reasons(reasons(members))
