"""steelyard runs: the runs on disk."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli import runs_family, runs_learn, runs_scaling
from steelyard.cli.options import DEFAULT_OUT, DebugOption, JsonOption, OutOption, help_unless_asked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.campaign.trend import Trend
    from steelyard.experiment.partial import PartialExperiment
    from steelyard.records import Run, Step
    from steelyard.records.fleet import Fleet

app = typer.Typer(
    help="List the runs, show one, follow a metric over many, learn a threshold from repeats, see how a job scales, "
    "weigh several jobs together.",
    rich_markup_mode=None,
    epilog="Examples: steelyard runs list | steelyard runs show first | steelyard runs trend mfu --html trend.html",
)


@app.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    help_unless_asked(context)


@app.command("list", epilog="Examples: steelyard runs list | steelyard runs list --out elsewhere --json")
def list_runs(out: OutOption = DEFAULT_OUT, as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """List the runs and fleets under --out, repeats among them, oldest first."""
    from steelyard import records
    from steelyard.cli import printing, runs_fleet
    from steelyard.records.fleet import fleets_under, repeats_under

    found = [*records.runs_under(out), *repeats_under(out)]
    rows = sorted((_row(path, out) for path in found), key=_age)
    fleets = sorted((runs_fleet.row(path) for path in fleets_under(out)), key=_age)
    if as_json:
        printing.show_json({"runs": rows, "fleets": fleets})
    elif rows or fleets:
        _print_table(sorted([*rows, *fleets], key=_age))
        for row in (*rows, *fleets):
            if row["error"] is not None:
                printing.note(f"unreadable: {row['error']}")
    else:
        where = "--out DIR or $STEELYARD_RUNS says where they are kept"
        printing.say(f"no runs under {out.resolve()}; {where}")


def _age(row: dict[str, Any]) -> tuple[str, str]:
    """Oldest first; a run that cannot be read has no age and comes last."""
    return row["started"] or "~", row["name"]


def _print_table(rows: list[dict[str, Any]]) -> None:
    from steelyard.cli import printing

    columns = ("name", "status", "verdict", "steps", "started", "experiment", "platform")
    shown = [{**row, "started": row["started"] and row["started"][:19].replace("T", " ")} for row in rows]
    printing.table([columns, *(["-" if row[key] is None else str(row[key])[:100] for key in columns] for row in shown)])


def _row(path: Path, out: Path) -> dict[str, Any]:
    """One line of the list, by its name under --out; a run that cannot be read is shown as such, not left out."""
    from steelyard import records
    from steelyard.cli.runs_fleet import NOTHING, summary
    from steelyard.errors import InputError

    place = {"run": str(path.resolve()), "name": path.relative_to(out).as_posix()}
    try:
        return {**place, **summary(records.load(path)), "error": None}
    except (InputError, OSError) as reason:
        return {**place, "status": "unreadable", **NOTHING, "error": str(reason)}


@app.command("show", epilog="Examples: steelyard runs show first | steelyard runs show nightly/10.0.0.1 --json")
def show_run(
    run: Annotated[
        str, typer.Argument(metavar="RUN|FLEET", help="A run or a fleet: its directory, or its name under --out.")
    ],
    out: OutOption = DEFAULT_OUT,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show one run: what it was, how it ended, its last step; or one fleet, host by host."""
    from steelyard import records
    from steelyard.cli import printing, runs_fleet
    from steelyard.records.fleet import find_fleet

    if (fleet := find_fleet(run, out)) is not None:
        if as_json:
            printing.show_json(runs_fleet.shown(fleet))
        else:
            runs_fleet.show(fleet)
        return
    found = records.find(run, out)
    first, last = records.first_and_last(found.directory)
    if as_json:
        printing.show_json(_shown(found, first, last))
    else:
        _print_run(found, first, last)


def _shown(run: "Run", first: "Step | None", last: "Step | None") -> dict[str, Any]:
    import json

    from steelyard.cli.runs_fleet import summary
    from steelyard.records.step import to_line

    return {
        "run": str(run.directory.resolve()),
        "name": run.directory.name,
        **summary(run),
        "first_step": None if first is None else json.loads(to_line(first)),
        "last_step": None if last is None else json.loads(to_line(last)),
        "manifest": run.manifest.model_dump(mode="json"),
    }


def _print_run(run: "Run", first: "Step | None", last: "Step | None") -> None:
    from steelyard import verdict
    from steelyard.cli import printing

    manifest = run.manifest
    platform = manifest.platform
    peak = platform.peak_tflops_per_gpu
    rows = [
        ("run", str(run.directory)),
        ("status", run.status + (f" ({manifest.failure.message})" if manifest.failure else "")),
        ("verdict", verdict.word_of(run) or f"not judged; next: steelyard check {shlex.quote(str(run.directory))}"),
        ("experiment", str(manifest.experiment.name)),
        ("platform", f"{platform.name}: {platform.words}"),
        ("framework", manifest.framework + "".join(f", {k} {v}" for k, v in manifest.software.items() if k == "torch")),
        ("started", manifest.began),
        ("ended", manifest.ended or "-"),
        ("steps", f"{run.num_steps} of {_planned(manifest.experiment)}"),
    ]
    if first is not None and last is not None:
        expected = manifest.expected
        rows.append(("first loss", f"{_figure(first.loss)} (expected {_figure(expected.get('first_loss'))})"))
        rows.append(("last loss", f"{_figure(last.loss)} (floor {_figure(expected.get('loss_floor'))})"))
        if last.tokens_per_s_per_gpu is not None:
            rows.append(("last rate", f"{last.tokens_per_s_per_gpu:,.0f} tok/s/GPU"))
        if peak and last.tflops_per_gpu:
            rows.append(("last MFU", f"{100 * last.tflops_per_gpu / peak:.1f} % of {peak} TFLOP/s"))
    for name, value in rows:
        printing.say(f"{name:<11} {printing.inert(value)}")


def _planned(experiment: "PartialExperiment") -> Any:
    known, steps = experiment.known("training.steps")
    return steps if known else "unknown"


def _figure(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, int | float) and abs(value) < 1e30 else "unknown"


@app.command(
    "trend", epilog="Examples: steelyard runs trend | steelyard runs trend mfu --experiment big --html mfu.html"
)
def trend_runs(
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="A metric of thresholds.")] = "tokens_per_s_per_gpu",
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="Which experiment's runs; needed if several.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write it as a page.")] = None,
    out: OutOption = DEFAULT_OUT,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show a metric over the runs and fleets of one experiment, oldest first."""
    from steelyard.campaign.trend import trend
    from steelyard.cli import printing
    from steelyard.reporting import html as page
    from steelyard.reporting.files import write_report
    from steelyard.reporting.trend_page import sentence, trend_page

    found = trend(_readable(out), metric, experiment)
    if html is not None:
        words = ["steelyard", "runs", "trend", metric, "--experiment", found.experiment]
        words += ["--out", str(out), "--html", str(html)]
        write_report(html, page.render(trend_page(found, words)), page.MARK, "--html")
    if as_json:
        printing.show_json({**found.document(), "file": str(html.resolve()) if html else None})
        return
    _print_trend(found)
    printing.say(printing.hang("", sentence(found)))
    if html is not None:
        printing.say(f"wrote {html}")


def _readable(out: Path) -> "Iterator[Run | Fleet]":
    """The runs and fleets under a directory; one that cannot be read is said."""
    from steelyard import records
    from steelyard.cli import printing
    from steelyard.errors import InputError
    from steelyard.records.fleet import fleets_under, load_fleet

    for path in records.runs_under(out):
        try:
            yield records.load(path)
        except InputError as reason:
            printing.note(f"left out: {reason}")
    for path in fleets_under(out):
        try:
            fleet = load_fleet(path)
            fleet.runs()  # raises where one of them cannot be read
            yield fleet
        except InputError as reason:
            printing.note(f"left out: {reason}")


def _print_trend(found: "Trend") -> None:
    """A bar a run, from zero, so that lengths mean what they seem to."""
    from steelyard.cli import printing
    from steelyard.reporting.curves import number

    highest = max((point.value for point in found.alike() if point.value is not None), default=1.0)
    width = max(len(point.run.name) for point in found.points)
    for point in found.points:
        value = "unknown" if point.value is None else number(point.value)
        if point.differs:
            told = f"another job: {point.differs_in} differ"
        else:
            told = "#" * round(30 * point.value / highest) if point.value is not None else point.reason or ""
        if point.spread is not None:
            told = f"{told}  {point.spread.words}"
        printing.say(f"{point.run.name:<{width}}  {point.verdict or '-':<7}  {value:>10}  {told}")


app.command("learn", epilog=runs_learn.EXAMPLES)(runs_learn.learn_threshold)
app.command("scaling", epilog=runs_scaling.EXAMPLES)(runs_scaling.show_scaling)
app.command("family", epilog=runs_family.EXAMPLES)(runs_family.show_family)
