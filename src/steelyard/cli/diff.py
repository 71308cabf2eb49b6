"""steelyard diff A B: the settings of two configs or runs next to each other, before anything is compared."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cli.options import Kept, Selection, argument, as_options, examples, option
from steelyard.cli.printing import Style
from steelyard.cli.verb import verb
from steelyard.errors import InputError, SteelyardError

if TYPE_CHECKING:
    from steelyard.api import PlacedSelection
    from steelyard.comparison.differences import Differences, Row
    from steelyard.experiment.case import Case
    from steelyard.verdict import Subject

EXAMPLES = examples(
    "steelyard diff both.yaml both.yaml --platform nvidia,amd",
    "steelyard diff mi3xx_megatron_llama_distributed.json h100-run --model llama3_1_8b --gpu mi300x",
    "steelyard diff runs/a runs/b --for convergence -v",
)
FOR = ("--for METRICS", "One or more of throughput, memory, flops, convergence.")
EQUAL = ("-v --verbose", "Print the equal settings too.")
_SIDE = "A config, a run, a comma-separated list of runs, or a directory of runs."
_PER_SIDE = ("platform", "model", "gpu")
"""Options that can have one value for each side."""


@dataclass(frozen=True, kw_only=True)
class DiffOptions(Selection, Kept):
    target: str = argument("A", _SIDE)
    baseline: str = argument("B", "The same, for the side to compare with.")
    platform: str | None = option("--platform NAME", "Platform of a config; a,b selects one for each side.")
    model: str | None = option("--model MODEL", "Model of a JSON config; a,b selects one for each side.")
    gpu: str | None = option("--gpu GPU", "GPU of a config; a,b selects one for each side.")
    metrics: str = option(*FOR, "throughput")
    mode: str | None = option("--mode best|matched", "matched: treat every caveat as a setting that must match.")
    verbose: bool = option(*EQUAL)


@dataclass(frozen=True, slots=True)
class Compared:
    """One side: its runs, or a config as a run that has not started."""

    subjects: "tuple[Subject, ...]"
    names: tuple[str, ...]
    """Names for it, best first."""


@verb
def diff(options: DiffOptions) -> int:
    """Show the settings in which two configs or runs differ, and which of them must match.

    Exit status: 0, or 4 if a setting that must match differs.
    """
    pairs = [(options.target, "A"), (options.baseline, "B")]
    selections = per_side(options)
    with ExitStack() as stack:
        sides = []
        for (text, name), selection in zip(pairs, selections, strict=True):
            if is_config(text):
                folder = Path(stack.enter_context(TemporaryDirectory(prefix="steelyard-")))
                with naming(selection):
                    sides.append(config_side(Path(text), selection, folder))
            else:
                sides.append(run_side(name, text, options.out))
        made = _differences(sides, options.metrics, options.mode)
    if options.as_json:
        printing.show_json(made.document())
    else:
        show(made, options.verbose)
    return made.exit


def is_config(text: str) -> bool:
    """Whether a side is a config and not a run."""
    return Path(text).is_file() or (Path(text).suffix in (".yaml", ".yml", ".json") and not Path(text).exists())


def per_side(options: Selection) -> tuple["PlacedSelection", "PlacedSelection"]:
    """The selection of each side; `--platform a,b`, `--model a,b` and `--gpu a,b` have one value for each."""
    first, second = options.selection(), options.selection()
    for name in _PER_SIDE:
        if (text := getattr(options, name)) is None:
            continue
        words = [word.strip() for word in text.split(",")]
        if len(words) > 2 or not all(words):
            complaint, expected = f"--{name} {text}", "one value, or two separated by a comma"
            raise InputError(complaint, key=f"--{name}", value=text, expected=expected, next="steelyard diff --help")
        first[name], second[name] = words[0], words[-1]  # type: ignore[literal-required]
    return first, second


@contextmanager
def naming(selection: "PlacedSelection") -> Iterator[None]:
    """Suggest commands with the options of one side."""
    try:
        yield
    except SteelyardError as error:
        error.options = as_options(selection)
        raise


def differences_of_cases(cases: "Sequence[Case]", metrics: str) -> "Differences":
    """The differences of two platforms before anything runs."""
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(TemporaryDirectory(prefix="steelyard-"))) for _ in cases]
        sides = [unstarted(case, folder) for case, folder in zip(cases, folders, strict=True)]
        return _differences(sides, metrics, None)


def config_side(file: Path, selection: "PlacedSelection", folder: Path) -> Compared:
    from steelyard.configs.choose import asked_of
    from steelyard.planning import case_of_file

    return unstarted(case_of_file(file, asked_of(**selection)), folder)


def unstarted(case: "Case", folder: Path) -> Compared:
    from steelyard import execute
    from steelyard.planning.make import platform_label
    from steelyard.verdict import read_subject

    resolved, subject = case.resolved, read_subject(execute.unstarted_run(case, folder))
    names = (platform_label(case), resolved.platform.framework, resolved.experiment.name, resolved.file.name)
    return Compared((subject,), names)


def run_side(name: str, text: str, out: Path) -> Compared:
    from steelyard.comparison import load_runs
    from steelyard.comparison.side import Side
    from steelyard.records import unstamped
    from steelyard.verdict import read_subjects

    subjects = tuple(read_subjects(load_runs(name, [text], out), 0))
    label = Side("target", subjects, (), "").label
    return Compared(subjects, (unstamped(label), label, label, label))


def _differences(sides: Sequence[Compared], metrics: str, mode: str | None) -> "Differences":
    from steelyard.comparison.differences import differences
    from steelyard.comparison.options import metrics_of, mode_of

    target, baseline = sides
    called = names_of(target, baseline)
    return differences(target.subjects, baseline.subjects, called, metrics_of(metrics), mode_of(mode))


def names_of(target: Compared, baseline: Compared) -> tuple[str, str]:
    """The first names that tell the sides apart."""
    pairs = zip(target.names, baseline.names, strict=True)
    suffixed = (f"{target.names[0]} (A)", f"{baseline.names[0]} (B)")
    return next((pair for pair in pairs if pair[0] != pair[1]), suffixed)


def show(made: "Differences", verbose: bool) -> None:
    """Print the settings that differ, by what the contract demands, and count or list the equal ones."""
    from steelyard.comparison.contract import Agreement
    from steelyard.comparison.differences import Demand
    from steelyard.experiment.policy import Metric

    target, baseline = (side.called for side in made.sides)
    refusing = [row for row in made.rows if row.refuses]
    verdict = f"{_settings(len(refusing))} must match but differ{'s' * (len(refusing) == 1)}"
    if not refusing:
        verdict = "all known settings that must match are equal"
    asked = ", ".join(metric.value for metric in made.asked)
    matched = ", in matched mode" if made.mode == "matched" else ""
    head = f"{target} against {baseline}, for {asked}{matched}: "
    printing.item(head, verdict, 2, Style.BAD if refusing else Style.GOOD)
    different = made.having(Agreement.DIFFERENT)
    titles = {
        Demand.MUST_MATCH: "must match, but differ",
        Demand.CAVEAT: "may differ with a caveat",
        Demand.FREE: "may differ",
    }
    for demand, title in titles.items():
        _show_rows(title, [row for row in different if row.demand == demand], (target, baseline))
    unknown = [row for row in made.having(Agreement.UNKNOWN) if row.demand != Demand.FREE]
    if unknown:
        names = ", ".join(f"{row.clause.dotted} ({_of(row, (target, baseline))})" for row in unknown)
        printing.item("\nunknown: ", names, 2)
    equal = made.having(Agreement.EQUAL)
    if verbose:
        _show_rows("equal", equal, (target, baseline))
    else:
        counts = ", ".join(_counts(equal))
        printing.say(f"\n{_settings(len(equal))} are equal ({counts}); -v lists them")
    for metric in [metric for metric in Metric if metric not in made.asked]:
        if not refusing and (count := made.refused(metric)):
            printing.say(f"for {metric.value}, {_settings(count)} that must match differ (--for {metric.value})")
    if refusing:
        printing.say(f"next: steelyard explain {shlex.quote(refusing[0].clause.dotted)}")


def _of(row: "Row", called: tuple[str, str]) -> str:
    side = row.clause.unknown_of
    return "both" if side == "both" else called[side == "baseline"]


def _counts(rows: "Sequence[Row]") -> Iterator[str]:
    from steelyard.comparison.differences import Demand

    words: dict[Demand, str] = {Demand.MUST_MATCH: "must match", Demand.CAVEAT: "caveat", Demand.FREE: "free"}
    for demand, word in words.items():
        if count := sum(row.demand == demand for row in rows):
            yield f"{count} {word}"


def _settings(count: int) -> str:
    return f"{count} setting{'s' * (count != 1)}"


def _show_rows(title: str, rows: "Sequence[Row]", called: tuple[str, str]) -> None:
    from steelyard.comparison.codes import shown

    if not rows:
        return
    cells: list[Sequence[str]] = [("", *called, *(f"name in {side}" for side in called))]
    for row in rows:
        names = [name if name and name != row.clause.dotted else "" for name in row.names]
        cells.append((row.clause.dotted, shown(row.clause.target), shown(row.clause.baseline), *names))
    printing.say(f"\n{title}:", Style.STRONG)
    printing.table(cells, "  ")
