"""steelyard runs: lists and shows runs on disk, and evaluates several of them together."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

import typer

from steelyard.cli import printing
from steelyard.cli.options import RUN, RUNS, WARMUP, Kept, argument, examples, help_unless_asked, option
from steelyard.cli.verb import verb
from steelyard.errors import Exit, InputError

app = typer.Typer(
    help="List, show and evaluate recorded runs.",
    rich_markup_mode=None,
    epilog=examples(
        "steelyard runs list --filter verdict=fail",
        "steelyard runs show first",
        "steelyard runs trend mfu --html trend.html",
    ),
)
_METRIC = "One of: tokens_per_s_per_gpu, tflops_per_gpu, reported_tflops_per_gpu, mfu, step_time_s, memory_peak_gib."


@app.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    help_unless_asked(context)


@dataclass(frozen=True, kw_only=True)
class ListOptions(Kept):
    limit: int | None = option(
        "--limit N", "Show the first N rows; 0: all. Default: 20; with --json: all.", None, min=0
    )
    sort: str | None = option(
        "--sort COLUMN", "Sort by COLUMN, or -COLUMN for descending order. Default: -started (--json: oldest first)."
    )
    filters: list[str] | None = option(
        "--filter TEXT",
        "Show only rows that contain TEXT, or COLUMN=TEXT for one column; case is ignored. Repeatable: all must match.",
    )
    columns: str | None = option(
        "--columns COLUMNS", "Columns to show, separated by commas, or all. Default: those that fit the terminal."
    )


@app.command(
    "list",
    epilog=examples(
        "steelyard runs list",
        "steelyard runs list --filter verdict=fail --limit 0",
        "steelyard runs list --sort=-tokens_per_s_per_gpu --filter h100",
        "steelyard runs list --columns name,verdict,platform,ended",
    ),
)
@verb
def list_runs(options: ListOptions) -> None:
    """List runs, repeats, fleets and suites, newest first.

    Columns: verdict, name, tokens_per_s_per_gpu (of the last check), status, started, steps, platform, experiment,
    framework, ended. On a narrow terminal, the last of them are left out; names are never cut. A long table goes
    through $PAGER.
    """
    from steelyard.cli.runs_listing import ListRequest, show_list

    filters = options.filters or []
    request = ListRequest(options.out, options.limit, options.sort, filters, options.columns)
    show_list(request, options.as_json)


@dataclass(frozen=True, kw_only=True)
class ShowOptions(Kept):
    run: str = argument(*RUN)


@app.command("show", epilog=examples("steelyard runs show first", "steelyard runs show nightly/10.0.0.1 --json"))
@verb
def show_run(options: ShowOptions) -> None:
    """Show one run, all hosts of a fleet, or all cells of a suite."""
    from steelyard import records
    from steelyard.cli import runs_show
    from steelyard.records.fleet import find_fleet
    from steelyard.records.suite import find_suite

    if (suite := find_suite(options.run, options.out)) is not None:
        from steelyard.cli.suite import show_suite

        show_suite(suite, options.as_json)
    elif (fleet := find_fleet(options.run, options.out)) is not None:
        runs_show.show_fleet(fleet, options.as_json)
    else:
        runs_show.show_run(records.find(options.run, options.out), options.as_json)


@dataclass(frozen=True, kw_only=True)
class TrendOptions(Kept):
    metric: str = argument("METRIC", _METRIC, "tokens_per_s_per_gpu")
    experiment: str | None = option("--experiment NAME", "Experiment to follow; required if --out has several.")
    limit: int = option("--limit N", "Show the last N runs; 0: all. With --json and --html: always all.", 15, min=0)
    html: Path | None = option("--html FILE", "Also write an HTML page.")


@app.command(
    "trend",
    epilog=examples("steelyard runs trend", "steelyard runs trend mfu --experiment big --html mfu.html"),
)
@verb
def trend_runs(options: TrendOptions) -> None:
    """Show a metric over the runs of one experiment.

    Runs and fleets, oldest first. A fleet is one point: the median of its completed runs.
    """
    from steelyard.campaign.trend import trend
    from steelyard.cli.runs_campaign import print_trend, readable
    from steelyard.reporting import html
    from steelyard.reporting.trend_page import trend_page

    followed = trend(readable(options.out), options.metric, options.experiment)
    if options.html is not None:
        words = ["steelyard", "runs", "trend", options.metric, "--experiment", followed.experiment]
        words += ["--out", str(options.out), "--html", str(options.html)]
        html.write(options.html, trend_page(followed, words))
    if options.as_json:
        printing.show_json({**followed.document(), "file": str(options.html.resolve()) if options.html else None})
        return
    print_trend(followed, options.limit)
    if options.html is not None:
        printing.say(f"wrote {options.html}")


@dataclass(frozen=True, kw_only=True)
class LearnOptions(Kept):
    runs: list[str] = argument(*RUNS)
    metric: str = option("--metric METRIC", _METRIC, "tokens_per_s_per_gpu")
    output: Path | None = option("-o --output FILE", "Also write it as YAML, to append to an experiment file.")


@app.command(
    "learn",
    epilog=examples(
        "steelyard runs learn nightly",
        "steelyard runs learn nightly --metric step_time_s -o learned.yaml",
        "steelyard check tonight --thresholds learned.yaml",
    ),
)
@verb
def learn_threshold(options: LearnOptions) -> int:
    """Compute a threshold from five or more repeats.

    95 of 100 further runs meet it, with 95% confidence. Exit status: 0 learned, 5 if the runs are too few or vary too
    much.
    """
    from steelyard import records
    from steelyard.campaign.learn import learn, lines, snippet
    from steelyard.comparison.files import load_runs
    from steelyard.verdict import read_subjects

    if options.output is not None and os.path.lexists(options.output):
        raise _not_new(options.output, f"{options.output} already exists")
    learned = learn(read_subjects(load_runs("RUNS", options.runs, options.out), 0), options.metric, records.now())
    written = options.output if learned.threshold is not None else None
    if written is not None:
        _write(written, snippet(learned))
    if options.as_json:
        printing.show_json({**learned.document(), "file": str(written.resolve()) if written else None})
    else:
        no_threshold = f"no threshold: {learned.reason.message}" if learned.reason else ""
        printing.say(f'thresholds: ["{learned.threshold}"]' if learned.threshold else no_threshold)
        for line in lines(learned):
            printing.item("  ", line)
        if written is not None:
            printing.say(f"wrote {written}; next: steelyard check RUN --thresholds {shlex.quote(str(written))}")
        elif learned.threshold is not None:
            printing.say(f"next: steelyard check RUN --threshold {shlex.quote(learned.threshold)}")
        elif learned.missing_runs:
            printing.say(f"next: steelyard run FILE --repeats {learned.missing_runs}")
    return Exit.GOOD if learned.threshold else Exit.UNKNOWN


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _not_new(path, f"{path} already exists") from None
    except OSError as reason:
        raise _not_new(path, f"cannot write {path} ({reason.strerror})") from None


def _not_new(path: Path, complaint: str) -> InputError:
    return InputError(complaint, key="-o", value=str(path), expected="a new file", next="another -o FILE")


@dataclass(frozen=True, kw_only=True)
class ScalingOptions(Kept):
    runs: list[str] = argument(*RUNS)
    warmup_steps: int = option(*WARMUP, 0, min=0)


@app.command(
    "scaling",
    epilog=examples(
        "steelyard runs scaling one-node two-nodes four-nodes",
        "steelyard runs scaling a1,a2,a3 b1,b2,b3 --json",
    ),
)
@verb
def show_scaling(options: ScalingOptions) -> int:
    """Show throughput per GPU by node count.

    Efficiency is tokens/s per GPU on each node count divided by that on the fewest nodes. Exit status: 0 decided, 4 not
    one job, 5 unknown (too few runs, or too much spread).
    """
    from steelyard.campaign.scaling import scaling
    from steelyard.cli.runs_campaign import print_scaling
    from steelyard.comparison.files import load_runs
    from steelyard.verdict import read_subjects

    result = scaling(read_subjects(load_runs("RUNS", options.runs, options.out), options.warmup_steps))
    if options.as_json:
        printing.show_json(result.document())
    else:
        print_scaling(result)
    return result.exit
