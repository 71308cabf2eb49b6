"""steelyard runs: the runs on disk, one by one and several together."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

import typer

from steelyard.cli import printing
from steelyard.cli.options import MARGIN, RUN, RUNS, WARMUP, Kept, argument, help_unless_asked, option
from steelyard.cli.verb import verb
from steelyard.errors import Exit, InputError

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
@verb
def list_runs(options: Kept) -> None:
    """List the runs and fleets under --out, repeats among them, oldest first."""
    from steelyard.cli.runs_listing import show_list

    show_list(options.out, options.as_json)


@dataclass(frozen=True, kw_only=True)
class ShowOptions(Kept):
    run: str = argument(*RUN)


@app.command("show", epilog="Examples: steelyard runs show first | steelyard runs show nightly/10.0.0.1 --json")
@verb
def show_run(options: ShowOptions) -> None:
    """Show one run: what it was, how it ended, its last step; or one fleet, host by host."""
    from steelyard import records
    from steelyard.cli import runs_listing
    from steelyard.records.fleet import find_fleet

    if (fleet := find_fleet(options.run, options.out)) is not None:
        runs_listing.show_fleet(fleet, options.as_json)
    else:
        runs_listing.show_run(records.find(options.run, options.out), options.as_json)


@dataclass(frozen=True, kw_only=True)
class TrendOptions(Kept):
    metric: str = argument("METRIC", "A metric of thresholds.", "tokens_per_s_per_gpu")
    experiment: str | None = option("--experiment NAME", "Which experiment's runs; needed if several.")
    html: Path | None = option("--html FILE", "Also write it as a page.")


@app.command(
    "trend", epilog="Examples: steelyard runs trend | steelyard runs trend mfu --experiment big --html mfu.html"
)
@verb
def trend_runs(options: TrendOptions) -> None:
    """Show a metric over the runs and fleets of one experiment, oldest first."""
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
    print_trend(followed)
    if options.html is not None:
        printing.say(f"wrote {options.html}")


@dataclass(frozen=True, kw_only=True)
class LearnOptions(Kept):
    runs: list[str] = argument(*RUNS)
    metric: str = option("--metric METRIC", "A metric of thresholds.", "tokens_per_s_per_gpu")
    output: Path | None = option("-o --output FILE", "Also write it as YAML to append to an experiment file.")


@app.command(
    "learn",
    epilog="Examples: steelyard runs learn nightly | steelyard runs learn nightly --metric step_time_s -o learnt.yaml "
    "&& steelyard check tonight --thresholds learnt.yaml",
)
@verb
def learn_threshold(options: LearnOptions) -> int:
    """Learn a threshold from five repeats or more.

    It is a bound that 95 of 100 further runs keep. Ends with 5 where the runs are too few, or vary too much to tell.
    """
    from steelyard import records
    from steelyard.campaign.learn import learn, lines, snippet
    from steelyard.comparison.files import load_each
    from steelyard.verdict import read_subjects

    if options.output is not None and os.path.lexists(options.output):
        raise _not_new(options.output, f"{options.output} exists already")
    learnt = learn(read_subjects(load_each("RUNS", options.runs, options.out), 0), options.metric, records.now())
    written = options.output if learnt.threshold is not None else None
    if written is not None:
        _write(written, snippet(learnt))
    if options.as_json:
        printing.show_json({**learnt.document(), "file": str(written.resolve()) if written else None})
    else:
        why = f"no threshold: {learnt.reason.message}" if learnt.reason else ""
        printing.say(f'thresholds: ["{learnt.threshold}"]' if learnt.threshold else why)
        for line in lines(learnt):
            printing.item("  ", line)
        if written is not None:
            printing.say(f"wrote {written}; next: steelyard check RUN --thresholds {shlex.quote(str(written))}")
    return Exit.GOOD if learnt.threshold else Exit.UNKNOWN


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _not_new(path, f"{path} exists already") from None
    except OSError as reason:
        raise _not_new(path, f"-o {path}: cannot be written ({reason.strerror})") from None


def _not_new(path: Path, complaint: str) -> InputError:
    return InputError(complaint, key="-o", value=str(path), expected="a new file")


@dataclass(frozen=True, kw_only=True)
class ScalingOptions(Kept):
    runs: list[str] = argument(*RUNS)
    warmup_steps: int = option(*WARMUP, 0, min=0)


@app.command(
    "scaling",
    epilog="Examples: steelyard runs scaling one-node two-nodes four-nodes | "
    "steelyard runs scaling a1,a2,a3 b1,b2,b3 --json",
)
@verb
def show_scaling(options: ScalingOptions) -> int:
    """Show what is left of a GPU's rate on more nodes.

    Efficiency is tokens/s a GPU on each node count over that on the fewest nodes. Ends with 0 if it is known between
    runs, 4 if the runs are not of one job, 5 if it is not known: too few runs, or too different ones.
    """
    from steelyard.campaign.scaling import scaling
    from steelyard.cli.runs_campaign import print_scaling
    from steelyard.comparison.files import load_each
    from steelyard.verdict import read_subjects

    result = scaling(read_subjects(load_each("RUNS", options.runs, options.out), options.warmup_steps))
    if options.as_json:
        printing.show_json(result.document())
    else:
        print_scaling(result)
    return result.exit


@dataclass(frozen=True, kw_only=True)
class FamilyOptions(Kept):
    comparisons: list[str] = argument("COMPARISONS…", "Comparisons, a job each: directories, or names under --out.")
    margin: str | None = option(*MARGIN)


@app.command(
    "family",
    epilog="Examples: steelyard runs family 8b 70b 405b | steelyard runs family 8b 70b --margin 3% --json",
)
@verb
def show_family(options: FamilyOptions) -> int:
    """Show the speedup over several jobs, and which of them hold when all are asked at once.

    The speedup is the geometric mean of the comparisons' own. Ends with 0 if it is known between runs, 4 if one of them
    is not comparable, 5 if it is not known: too few runs of one, or too different ones.
    """
    from steelyard.api import margin_share
    from steelyard.campaign.family import Member, family
    from steelyard.cli.runs_campaign import print_family
    from steelyard.comparison.files import find_each, weigh_again

    margin = margin_share(options.margin)
    members = [Member(place, weigh_again(place)) for place in find_each(options.comparisons, options.out)]
    result = family(members, margin)
    if options.as_json:
        printing.show_json(result.document())
    else:
        print_family(result)
    return result.exit
