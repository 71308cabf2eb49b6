"""steelyard check RUN|FLEET: the verdict of a run, or of the runs of a fleet."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cli.options import RUN, WARMUP, Kept, argument, option
from steelyard.cli.verb import verb
from steelyard.errors import InputError

if TYPE_CHECKING:
    from steelyard.verdict import Verdict
    from steelyard.verdict.figures import Figures

EXAMPLES = (
    'Examples: steelyard check first | steelyard check first --threshold "tokens_per_s_per_gpu>=6500" --junit check.xml'
    " | steelyard check nightly/repeat-6 --thresholds learnt.yaml"
)
_UNEVEN = 1.5
"""Times the median, above which the slowest steps are told too: a rate is of all steps, a median of the usual one."""


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Kept):
    run: str = argument(*RUN)
    thresholds: list[str] | None = option("--threshold BOUND", 'Beside the config\'s, such as "step_time_s<=12".')
    thresholds_file: Path | None = option("--thresholds FILE", "The bounds of a file, such as `runs learn -o` writes.")
    warmup_steps: int = option(*WARMUP, 0, min=0)
    junit: Path | None = option("--junit FILE", "Also write JUnit XML.")


@verb
def check(options: CheckOptions) -> int:
    """Judge a run: physics, loss health, thresholds. Ends with 0 if it passes, 1 if it fails, 5 if it is not known."""
    from steelyard import api, verdict
    from steelyard.records.fleet import find_fleet
    from steelyard.reporting import check_place, junit

    bounds = _bounds(options)
    if options.junit is not None:
        check_place(options.junit, junit.MARK, "--junit")
    if (fleet := find_fleet(options.run, options.out)) is not None:
        from steelyard.cli.fleet import check_fleet

        return check_fleet(fleet, bounds, options)
    judged = api.check(
        options.run, thresholds=bounds, warmup_steps=options.warmup_steps, not_saved=not_saved, out=options.out
    )
    if options.junit is not None:
        junit.write(options.junit, [judged])
    if options.as_json:
        printing.show_json(judged.document())
    else:
        show(judged)
        say_next(options.junit, judged.run)
    return verdict.EXIT_OF[judged.status]


def say_next(written: Path | None, directory: Path) -> None:
    if written is not None:
        printing.say(f"wrote {written}")
    printing.say(f"next: steelyard report {shlex.quote(str(directory))}")


def _bounds(options: CheckOptions) -> list[str]:
    """Those that were typed, and those of a file: what `runs learn -o` wrote, or an experiment."""
    typed = list(options.thresholds or [])
    _check_bounds(typed, "--threshold", '--threshold "step_time_s<=12", quoted, since the shell takes > for itself')
    if (file := options.thresholds_file) is None:
        return typed
    from steelyard.configs.files import read_mapping
    from steelyard.experiment.problems import plain, shown

    example = 'thresholds: ["step_time_s<=12"]'
    bounds = read_mapping(file, "a file with thresholds", example).content.get("thresholds")
    if not isinstance(bounds, list) or not bounds or not all(isinstance(text, str) for text in bounds):
        complaint, expected = f"{file}: thresholds is {shown(bounds)}", "a list of bounds"
        raise InputError(complaint, key="thresholds", value=plain(bounds), expected=expected, next=example)
    _check_bounds(bounds, f"{file}: thresholds", example)
    return [*typed, *bounds]


def _check_bounds(texts: Sequence[str], place: str, example: str) -> None:
    from steelyard.experiment.problems import plain
    from steelyard.experiment.thresholds import parse_threshold

    for text in texts:
        try:
            parse_threshold(text)
        except ValueError as reason:
            key = place.rpartition(" ")[2]
            raise InputError(f"{place}: {reason}", key=key, value=plain(text), next=example) from None


def not_saved(path: Path, reason: OSError) -> None:
    """A verdict that cannot be kept is still shown."""
    printing.note(f"warning: {path} cannot be written ({reason.strerror})")


def show(judged: "Verdict") -> None:
    from steelyard.verdict import Status

    printing.say(f"verdict: {judged.status.value.upper()}  {judged.run}")
    names = [*(finding.check for finding in judged.findings), *(skipped.check for skipped in judged.not_applicable)]
    width = max((len(name) for name in names if len(name) <= 24), default=0)
    for finding in judged.by_weight():
        at = finding.evidence
        where = f"  [{at.file}:{at.line}]" if at else ""
        weight = "" if finding.required or finding.status != Status.UNKNOWN else " (not required)"
        text = f"{printing.inert(finding.message)}{weight}{where}"
        printing.item(f"  {finding.status.value:<7}  {finding.check:<{width}}  ", text)
    for skipped in judged.not_applicable:
        printing.item(f"  {'n/a':<7}  {skipped.check:<{width}}  ", skipped.message)
    printing.item("  ", f"{_rates(judged.figures)}; on {judged.figures.window.words()}")


def _rates(figures: "Figures") -> str:
    rate, time, mfu = figures.tokens_per_s_per_gpu, figures.step_time_s.value, figures.mfu
    words = []
    if rate.value is not None:
        words.append(f"{rate.value:,.1f} tokens/s a GPU{' as reported' if rate.reported else ''}")
    if time is not None:
        slow = figures.step_time_p95_s
        tail = f", p95 {slow:.4g}" if slow is not None and slow > _UNEVEN * time else ""
        words.append(f"{time:.4g} s a step in the median{tail}")
    if mfu.value is not None:
        words.append(f"MFU {100 * mfu.value:.1f} %{' as reported' if mfu.reported else ''}")
    return ", ".join(words) or "no rate is known"
