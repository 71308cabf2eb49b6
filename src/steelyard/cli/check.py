"""steelyard check RUN|FLEET: the verdict of a run, or of the runs of a fleet."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard.cli import printing
from steelyard.cli.options import QUIET, RUN, VERBOSE, WARMUP, Kept, OwnGpu, argument, examples, option
from steelyard.cli.outcome import Detail, not_saved, say_next, show_verdict
from steelyard.cli.verb import verb
from steelyard.errors import InputError

EXAMPLES = examples(
    "steelyard check first",
    "steelyard check mine --gpu h100",
    'steelyard check first --threshold "tokens_per_s_per_gpu>=6500" --junit check.xml',
    "steelyard check nightly/repeat-6 --thresholds learned.yaml",
)


@dataclass(frozen=True, kw_only=True)
class CheckOptions(OwnGpu, Kept):
    run: str = argument(*RUN)
    gpu: str | None = option("--gpu GPU", "The run's GPU, where it is not recorded; it is then recorded.")
    thresholds: list[str] | None = option(
        "--threshold LIMIT", 'A limit to add to those of the config, such as "step_time_s<=12"; may be repeated.'
    )
    thresholds_file: Path | None = option("--thresholds FILE", "A file of limits, such as `runs learn -o` writes.")
    warmup_steps: int = option(*WARMUP, 0, min=0)
    junit: Path | None = option("--junit FILE", "Also write JUnit XML.")
    verbose: bool = option(*VERBOSE)
    quiet: bool = option(*QUIET)

    @property
    def detail(self) -> Detail:
        return Detail.QUIET if self.quiet else Detail.VERBOSE if self.verbose else Detail.USUAL


@verb
def check(options: CheckOptions) -> int:
    """Judge a run: physics, loss health, thresholds.

    Exits with 0 if the verdict is pass, 1 if it is fail, 5 if it is unknown.
    """
    from steelyard import api, verdict
    from steelyard.records.fleet import find_fleet
    from steelyard.records.suite import find_suite
    from steelyard.reporting import check_place, junit

    bounds = _bounds(options)
    if options.junit is not None:
        check_place(options.junit, junit.MARK, "--junit")
    if (suite := find_suite(options.run, options.out)) is not None:
        _check_one_run(options, "suite")
        from steelyard.cli.suite import check_suite

        return check_suite(suite, bounds, options)
    if (fleet := find_fleet(options.run, options.out)) is not None:
        _check_one_run(options, "fleet")
        from steelyard.cli.fleet import check_fleet

        return check_fleet(fleet, bounds, options)
    judged = api.check(
        options.run,
        thresholds=bounds,
        warmup_steps=options.warmup_steps,
        gpu=options.gpu,
        gpu_peak=options.gpu_peak,
        gpu_memory=options.gpu_memory,
        not_saved=not_saved,
        out=options.out,
    )
    if options.junit is not None:
        junit.write(options.junit, junit.of_verdicts([judged]))
    if options.as_json:
        printing.show_json(judged.document())
    else:
        show_verdict(judged, options.detail)
        if not options.quiet:
            say_next(options.junit, judged.run)
    return verdict.EXIT_OF[judged.status]


def _check_one_run(options: CheckOptions, kind: str) -> None:
    """Refuse to name the GPU of a fleet or a suite: each of its runs has its own."""
    for name, value in (("--gpu", options.gpu), ("--gpu-peak", options.gpu_peak), ("--gpu-memory", options.gpu_memory)):
        if value is not None:
            message = f"{options.run} is a {kind}, and {name} is about one run"
            expected, fix = f"one run of the {kind}", f"steelyard check {options.run}"
            raise InputError(message, key=name, value=value, expected=expected, next=fix)


def _bounds(options: CheckOptions) -> list[str]:
    """The limits of the command line, then those of --thresholds FILE."""
    typed = list(options.thresholds or [])
    _check_bounds(
        typed, "--threshold", "--threshold", '--threshold "step_time_s<=12", in quotes: the shell uses > and < itself'
    )
    if (file := options.thresholds_file) is None:
        return typed
    from steelyard.configs.files import read_mapping
    from steelyard.experiment.problems import plain, shown

    example = 'thresholds: ["step_time_s<=12"]'
    bounds = read_mapping(file, "a file with thresholds", example).content.get("thresholds")
    if not isinstance(bounds, list) or not bounds or not all(isinstance(text, str) for text in bounds):
        complaint, expected = f"{file}: thresholds is {shown(bounds)}", "a list of limits"
        raise InputError(complaint, key="thresholds", value=plain(bounds), expected=expected, next=example)
    _check_bounds(bounds, "thresholds", f"{file}: thresholds", example)
    return [*typed, *bounds]


def _check_bounds(texts: Sequence[str], key: str, place: str, example: str) -> None:
    from steelyard.experiment.problems import plain
    from steelyard.experiment.thresholds import parse_threshold

    for text in texts:
        try:
            parse_threshold(text)
        except ValueError as reason:
            raise InputError(f"{place}: {reason}", key=key, value=plain(text), next=example) from None
