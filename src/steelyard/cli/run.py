"""steelyard run FILE: runs an experiment, records it, then checks it."""

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cli.options import CONFIG, NEW_HOST_KEYS, Kept, Selection, argument, examples, option
from steelyard.cli.outcome import (
    RECORDED,
    counted,
    not_saved,
    run_document,
    say_failure,
    say_last_lines,
    show_verdict,
    view_of,
)
from steelyard.cli.verb import verb
from steelyard.errors import InfrastructureError, InputError

if TYPE_CHECKING:
    from steelyard.campaign import CampaignRequest
    from steelyard.campaign.series import Series
    from steelyard.execute import Limits, RunOptions
    from steelyard.planning.make import Planned
    from steelyard.records import Run, RunWriter
    from steelyard.records.suite import Suite

EXAMPLES = examples(
    "steelyard run tiny-llama.yaml",
    "steelyard run tiny-llama.yaml --set training.steps=50 --gpus 2 --no-check",
    "steelyard run both.yaml --platform nvidia,amd --repeats 5 --name nightly",
    "steelyard run matrix.yaml --suite --name matrix",
    "steelyard run matrix.yaml --resume matrix",
    "steelyard run mi3xx_megatron_llama_distributed.json --model llama3_1_8b --gpu mi300x --cluster cluster.yaml",
)
_LEASE_MARGIN_S = 10.0
"""The lease is renewed every few seconds, and the last renewal may be just before the connection broke."""


@dataclass(frozen=True, kw_only=True)
class RunVerbOptions(Selection, Kept):
    file: Path = argument(*CONFIG)
    platform: str | None = option(
        "--platform NAME", "Platform of the file; with --repeats or --suite also several: a,b."
    )
    accept_new_host_keys: bool = option(*NEW_HOST_KEYS)
    pull: bool = option("--pull", "Pull the container image on hosts that lack it.")
    image_file: Path | None = option(
        "--image-file FILE", "Load the container image from FILE on hosts that lack it.", exists=True, dir_okay=False
    )
    required: str | None = option(
        "--required CHECKS", "Preflight checks that must pass: all, none, or a list (see steelyard preflight --help)."
    )
    no_preflight: bool = option("--no-preflight", "Do not check the hosts before the run.")
    time_limit: float | None = option(
        "--time-limit SECONDS",
        "Longest time from the start of the training program to its exit. Default: from the plan.",
        min=1,
    )
    exit_within: float = option(
        "--exit-within SECONDS",
        "Longest time from the last planned step to the exit of the training program.",
        1800.0,
        min=1,
    )
    first_step: float = option("--first-step-within SECONDS", "Longest time until the first step.", 1800.0, min=1)
    stall_after: float = option(
        "--stall-after SECONDS", "Longest time of a step, if also 10 times the median step.", 300.0, min=1
    )
    lost_after: float = option("--lost-after SECONDS", "Longest time without a connection to a host.", 120.0, min=1)
    abandon_after: int = option(
        "--abandon-after SECONDS",
        "Stop the remote job and remove its files after SECONDS without contact from this machine; 0: never.",
        3600,
        min=0,
    )
    suite: bool = option("--suite", "Run every cell of the file: its `suite`, or all its platforms or models.")
    skip_oversized: bool = option("--skip-oversized", "Leave out cells that need more memory than the GPU has.")
    resume: str | None = option("--resume NAME", "Make only what is missing or failed in a suite, repeats or a fleet.")
    repeats: int | None = option(
        "--repeats N", "Make N runs of each job, one after the other, with the same seed.", min=1, max=1000
    )
    seeds: str | None = option("--seeds SEEDS", "Make one run per training.seed, such as 1,2,3.")
    name: str | None = option("--name NAME", "Name of the run directory, or of the directory of all repeats.")
    no_check: bool = option("--no-check", "Record only; do not judge.")


@verb
def run(typed: RunVerbOptions) -> int:
    """Run an experiment, record it and judge it.

    It runs on this machine or on a cluster. All repeats, or all cells of a suite, go to one directory, which
    `steelyard compare` accepts as a side. Ctrl-C stops the run, cleans every host and keeps the record. Exit status: 0
    pass, 1 fail, 2 wrong input, 3 infrastructure failure, 5 unknown, 130 interrupted.
    """
    from steelyard import execute
    from steelyard.campaign import CampaignRequest
    from steelyard.cli.plan import planned
    from steelyard.hardware.machine import discover

    image = execute.ImageSource(typed.image_file, typed.pull)
    options = execute.RunOptions(
        _limits(typed), typed.cluster, typed.accept_new_host_keys, image, not typed.no_preflight, typed.required
    )
    request = CampaignRequest(typed.out, typed.name, ["steelyard", *sys.argv[1:]], not typed.no_check)
    if (series := _series(typed)) is not None:
        from steelyard.cli.series import launch_series

        return launch_series(series, options, request, typed.as_json, typed.resume)
    if (platform := typed.platform) is not None and "," in platform:
        complaint, expected = "--platform names several platforms", "one platform, --repeats or --suite"
        way_on = f"--platform {shlex.quote(platform)} --repeats 3"
        raise InputError(complaint, key="--platform", value=platform, expected=expected, next=way_on)
    made = planned(typed.file, typed.selection())
    if made.plan.fleet or typed.resume is not None:
        from steelyard.cli.fleet import launch_fleet

        execute.check(made, discover(), options)
        return launch_fleet(made, options, request, typed.resume, typed.as_json)
    return _run_one(made, options, request, typed.as_json)


def _series(typed: RunVerbOptions) -> "Series | None":
    """The suite or the repeats that are asked for, or that are resumed; None for one run or a fleet."""
    from steelyard import api
    from steelyard.cli.series import series_of, words_of
    from steelyard.experiment.cells import SUITE
    from steelyard.experiment.problems import OVERSIZED

    earlier, repeats = _earlier(typed), typed.repeats
    if earlier is not None and repeats is None and typed.seeds is None:
        repeats = len(earlier.manifest.cells[0].runs)
    is_suite = typed.suite or (earlier is not None and bool(earlier.manifest.axes))
    if typed.skip_oversized and not is_suite:
        complaint, expected = "--skip-oversized without --suite", "a suite"
        raise InputError(complaint, key="--skip-oversized", expected=expected, next="--suite --skip-oversized")
    if not is_suite and repeats is None and typed.seeds is None:
        return None
    names = words_of("--platform", typed.platform) if typed.platform is not None else []
    allow = [*(typed.allow or []), *([OVERSIZED] if typed.skip_oversized else [])]
    selection = replace(typed, platform=None, allow=allow).selection()
    cells = api.cells(typed.file, names, is_suite, **selection)
    differs = SUITE in cells.file.content and cells.repeats != repeats
    if is_suite and differs and earlier is not None and typed.repeats is None and typed.seeds is None:
        printing.note(f"repeats per cell: {repeats}, as in {earlier.directory}; the file has {cells.repeats}")
    return series_of(cells, repeats, typed.seeds, typed.skip_oversized)


def _earlier(typed: RunVerbOptions) -> "Suite | None":
    """The suite or the repeats that --resume names; None for a fleet, or without --resume."""
    from steelyard.records.fleet import find_fleet
    from steelyard.records.reader import run_not_found
    from steelyard.records.suite import find_suite

    if typed.resume is None:
        return None
    suite = find_suite(typed.resume, typed.out)
    if suite is None and find_fleet(typed.resume, typed.out) is None:
        raise run_not_found(typed.resume, typed.out, "--resume", "a suite, repeats or a fleet")
    return suite


def _run_one(planned: "Planned", options: "RunOptions", request: "CampaignRequest", as_json: bool) -> int:
    from steelyard import api, verdict

    view = view_of(planned)
    try:
        with view:
            out, name, command = request.out, request.name, request.command
            made = api.run(
                planned, options=options, begun=view.begin, observe=view, command=command, out=out, name=name
            )
    except InfrastructureError as error:
        if (writer := view.writer) is None:
            raise
        if as_json:
            document = run_document(writer.directory, writer.manifest, writer.steps, None)
            printing.show_error(error, as_json, extra=document)
        else:
            _say_lost(error, writer)
        return error.exit
    judged = None
    if made.status != "interrupted" and request.judges:
        judged = api.check(made, not_saved=not_saved)
    place, word = shlex.quote(str(made.directory)), judged.status.value if judged else None
    if as_json:
        printing.show_json(run_document(made.directory, made.manifest, made.num_steps, word))
    elif made.manifest.failure is not None:
        _say_failed(made, word)
        printing.say(f"next: steelyard check {place}")
    else:
        printing.say(f"{made.status}: {counted(made.num_steps, 'step')} in {made.directory}")
        if judged:
            show_verdict(judged)
        printing.say(f"next: steelyard {'report' if judged else 'check'} {place}")
    return verdict.EXIT_OF[judged.status] if judged else RECORDED[made.manifest.status]


def _say_failed(run: "Run", word: str | None) -> None:
    """A run whose training program failed: verdict, cause, last log lines."""
    from steelyard.cli import runs_show

    runs_show.say_verdict("verdict", word, str(run.directory))
    say_failure(run.manifest, f"{run.status} after {counted(run.num_steps, 'step')}: ")
    say_last_lines(run.directory, run.manifest, printing.say)


def _say_lost(error: InfrastructureError, writer: "RunWriter") -> None:
    """A run that failed for another reason than the training program: cause, last log lines, next command."""
    way_on, error.next = error.next, None
    printing.show_error(error, as_json=False)
    printing.note(f"failed after {counted(writer.steps, 'step')}, recorded in {writer.directory}")
    say_last_lines(writer.directory, writer.manifest, printing.note)
    printing.note(f"next: {way_on or f'steelyard runs show {shlex.quote(str(writer.directory))}'}")


def _limits(typed: RunVerbOptions) -> "Limits":
    from steelyard.execute import Limits

    least = typed.lost_after + _LEASE_MARGIN_S
    if 0 < typed.abandon_after < least:
        complaint = f"--abandon-after {typed.abandon_after} is too short for --lost-after {typed.lost_after:g}"
        expected, way_on = f"0, or at least {least:g}", f"--abandon-after {least:.0f}"
        raise InputError(complaint, key="--abandon-after", value=typed.abandon_after, expected=expected, next=way_on)
    return Limits(
        train=typed.time_limit,
        first_step=typed.first_step,
        exit=typed.exit_within,
        stall_at_least=typed.stall_after,
        lost=typed.lost_after,
        lease=typed.abandon_after,
    )
