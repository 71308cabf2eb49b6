"""Repeats of a measurement on the command line."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steelyard import records, verdict
from steelyard.campaign import CampaignRequest
from steelyard.campaign.fleet_verdict import METRICS, Member
from steelyard.campaign.learn import FEWEST
from steelyard.campaign.repeats import MakePlan, Repeat, Repeats, Series, run_repeats
from steelyard.cli import check, printing
from steelyard.cli.run import RECORDED, run_document, view_of
from steelyard.errors import Exit, InfrastructureError, InputError
from steelyard.execute import RunOptions
from steelyard.experiment.problems import shown
from steelyard.reporting.curves import figures_row
from steelyard.reporting.fleet_page import why

MOST_SEED = 2**63 - 1
"""What `training.seed` may be."""


def series_of(
    platform: str | None, repeats: int | None, seeds: str | None, settings: Sequence[str], rerun_failed: str | None
) -> Series:
    """What --platform, --repeats and --seeds say together."""
    if rerun_failed is not None:
        complaint = "--rerun-failed is for a fleet, and --repeats makes none"
        raise InputError(complaint, key="--rerun-failed", value=rerun_failed)
    names = _words("--platform", platform) if platform is not None else [None]
    if seeds is None:
        return Series(tuple(names), (None,) * (repeats or 1))
    numbers = [_seed(word) for word in _words("--seeds", seeds)]
    _check_different("--seeds", seeds, [*map(str, numbers)])  # 1 and 01 are two words
    if repeats is not None and repeats != len(numbers):
        complaint = f"--repeats {repeats} beside {len(numbers)} seeds"
        expected = "a run a seed, which --seeds alone asks for"
        raise InputError(complaint, key="--repeats", value=repeats, expected=expected, next=f"--seeds {seeds}")
    if any(setting.partition("=")[0].strip() == "training.seed" for setting in settings):
        complaint = "--set training.seed beside --seeds"
        raise InputError(complaint, key="--set", value="training.seed", expected="one of the two")
    return Series(tuple(names), tuple(numbers))


def _words(option: str, text: str) -> list[str]:
    """Several values by commas, each once."""
    words = [word.strip() for word in text.split(",")]
    _check_different(option, text, words)
    return words


def _check_different(option: str, text: str, words: Sequence[str]) -> None:
    if not all(words) or len(set(words)) < len(words):
        complaint = f"{option} {shown(text)} {'names one twice' if all(words) else 'leaves one empty'}"
        expected = "different values with commas between them"
        way_on = f"{option} {','.join(dict.fromkeys(filter(None, words))) or '…'}"
        raise InputError(complaint, key=option, value=text, expected=expected, next=way_on)


def _seed(word: str) -> int:
    digits = word.lstrip("0") or "0"
    if not word.isascii() or not word.isdigit() or len(digits) > len(str(MOST_SEED)) or int(digits) > MOST_SEED:
        complaint = f"--seeds: {shown(word)} is no seed"
        expected = f"whole numbers from 0 to {MOST_SEED} with commas between them"
        raise InputError(complaint, key="--seeds", value=shown(word), expected=expected, next="--seeds 1,2,3")
    return int(digits)


class _Reporter:
    watch = staticmethod(view_of)
    not_saved = staticmethod(check.not_saved)

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

    def run_ended(self, repeat: Repeat) -> None:
        word = f", {repeat.judged.status.value}" if repeat.judged else ""
        status, steps = repeat.writer.manifest.status, repeat.writer.steps
        printing.note(f"{repeat.name}: {status} after {steps} steps{word}")


def repeat(series: Series, plan: MakePlan, options: RunOptions, request: CampaignRequest, as_json: bool) -> int:
    """Make the runs of a series and show what they came to."""
    repeats = run_repeats(series, plan, options, request, _Reporter(series))
    document = _document(repeats)
    if not as_json:
        _show(repeats)
    if repeats.lost and not repeats.stopped:
        printing.show_error(_lost(repeats), as_json, extra=document)
    elif as_json:
        printing.show_json(document)
    else:
        printing.say(f"next: {_next(repeats)}")
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
    """The worst: for want of infrastructure, failed, not known, good."""
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
    unmade = f"; {left} not made, which would have met the same" if left else ""
    failed = f"{len(repeats.lost)} of {repeats.num_planned} runs failed for want of infrastructure{unmade}"
    message = f"{failed}: {first.name}: {error.message}"
    return InfrastructureError(message, key=error.key, value=error.value, expected=error.expected, next=error.next)


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
    rows, reasons = [["run", "status", "verdict", "steps", *METRICS]], []
    for repeat in repeats.runs:
        judged, writer = repeat.judged, repeat.writer
        figures = figures_row(judged.figures.metric(metric).value if judged else None for metric in METRICS)
        word = judged.status.value if judged else "-"
        rows.append([repeat.name, writer.manifest.status, word, str(writer.steps), *figures])
        if judged:
            reasons.append(why(Member(repeat.name, records.load(writer.directory), judged)))
    printing.table(rows, "  ")
    for reason in filter(None, reasons):
        printing.item("  ", reason)
