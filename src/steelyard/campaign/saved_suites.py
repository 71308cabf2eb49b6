"""Comparisons of suites on disk: save one, and make it again from its runs."""

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from steelyard import records
from steelyard.campaign.suite_comparison import Options, SuiteComparison
from steelyard.campaign.suite_matching import compare_suites
from steelyard.comparison import acceptance, assumption
from steelyard.comparison.declared import Declared
from steelyard.comparison.files import FOLDER, fingerprints
from steelyard.errors import InputError
from steelyard.experiment.experiment import Mode
from steelyard.experiment.policy import Metric
from steelyard.files import place_of, replace_file
from steelyard.records.manifest import checked_version
from steelyard.records.reader import holding
from steelyard.records.suite import Suite, load_suite

FILE = "suite_comparison.json"
SCHEMA_VERSION = 1


def save(made: SuiteComparison, out: Path, name: str | None) -> SuiteComparison:
    """Write OUT/comparisons/ID/suite_comparison.json; suites are relative paths, so that a tree can be moved."""
    words = [records.unstamped(side).replace(" ", "-")[:60] for side in (made.target, made.baseline)]
    directory = records.new_directory(out / FOLDER, name, records.stamped(f"{words[0]}-vs-{words[1]}"))
    try:
        replace_file(directory / FILE, file_text(replace(made, directory=directory), directory))
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)  # created by us, a moment ago
        raise
    return replace(made, directory=directory)


def file_text(made: SuiteComparison, directory: Path) -> str:
    """The content of suite_comparison.json in this directory."""
    content: dict[str, Any] = {"schema_version": SCHEMA_VERSION, **made.document()}
    for name, suite in zip(("target", "baseline"), made.suites, strict=True):
        content[name]["suite"] = os.path.relpath(suite.directory.resolve(), directory.resolve())
    for cell in content["cells"]:
        for name in ("target", "baseline"):
            if name in cell:
                cell[name] = [os.path.relpath(place, directory.resolve()) for place in cell[name]]
    content["suite_comparison"] = directory.name
    content["options"] = {"mode": made.options.mode, "warmup_steps": made.options.warmup_steps}
    content["options"]["margin"] = made.options.margin
    content["digests"] = digests_of(made)
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def digests_of(made: SuiteComparison) -> list[str]:
    """One per compared run, in the order of the cells."""
    comparisons = [pair.comparison for pair in made.pairs if pair.comparison]
    return fingerprints([subject for made in comparisons for side in made.sides for subject in side.subjects])


def find(name: str, out: Path, without_time: bool = False) -> Path | None:
    """A comparison of suites by its path or its ID under OUT/comparisons."""
    for directory in (Path(name), out / FOLDER / name):
        if os.path.lexists(directory / FILE):
            return directory
    alike = [path for path in holding(FILE, out / FOLDER) if records.unstamped(path.name) == name]
    return max(alike, default=None) if without_time else None


def saved(directory: Path) -> tuple[dict[str, Any], tuple[Suite, Suite], Options]:
    """A saved comparison: its content, its suites and its options."""
    path = directory / FILE
    try:
        content = records.read_json(path)
        checked_version(path, content, SCHEMA_VERSION)
        target, baseline = (_suite_of(directory, content[name]) for name in ("target", "baseline"))
        options = _options_of(content)
        content["digests"] = list(map(str, content["digests"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as reason:
        problem = f"{place_of(path)}: cannot be read ({reason})"
        raise InputError(problem, key="COMPARISON", value=str(directory)) from None
    return content, (target, baseline), options


def compare_again(directory: Path, unchanged: bool = True) -> SuiteComparison:
    """Make a saved comparison again with its options; by default, an error if a run has changed since."""
    content, suites, options = saved(directory)
    made = replace(compare_suites(*suites, options), directory=directory)
    if unchanged and digests_of(made) != content["digests"]:
        problem = f"the runs of {directory.resolve().name} have changed since the comparison was made"
        raise InputError(problem, key="COMPARISON", value=str(directory), next=" && ".join(commands(made)))
    return made


def _suite_of(directory: Path, side: dict[str, Any]) -> Suite:
    suite = load_suite(Path(os.path.normpath(directory / str(side["suite"]))))
    platform = side["platform"]
    if platform is not None and platform not in suite.platforms:
        raise ValueError(f"{platform!r} is not a platform of {suite.directory}")
    return replace(suite, platform=platform)


def _options_of(content: dict[str, Any]) -> Options:
    how = content["options"]
    mode, warmup, margin = how["mode"], how["warmup_steps"], how["margin"]
    if mode is not None and mode not in get_args(Mode):
        raise ValueError(f"mode is {mode!r}, expected one of {', '.join(get_args(Mode))}")
    if type(warmup) is not int or warmup < 0:
        raise ValueError(f"warmup_steps is {warmup!r}, expected a number of steps")
    if margin is not None and not (isinstance(margin, float) and 0 < margin < 1):
        raise ValueError(f"margin is {margin!r}, expected a share")
    accepted = acceptance.parse({str(each["key"]): each["reason"] for each in content["accepted"]})
    assumed = assumption.parse({f"{each['side']}:{each['key']}": each["value"] for each in content["assumed"]})
    asked = tuple(Metric(name) for name in content["asked"])
    return Options(asked, mode, warmup, margin, Declared(accepted, assumed))


def commands(made: SuiteComparison) -> Iterator[str]:
    """The command that makes the comparison, with paths as given."""
    places = [place_of(suite.directory / (suite.platform_place or "")) for suite in made.suites]
    options = made.options
    words = ["steelyard", "compare", *places, "--for", ",".join(options.asked)]
    words += ["--mode", options.mode] if options.mode else []
    words += ["--margin", f"{options.margin:.15g}"] if options.margin else []
    words += ["--warmup-steps", str(options.warmup_steps)] if options.warmup_steps else []
    words += [word for each in options.declared.accepted for word in ("--accept", each.typed)]
    words += [word for each in options.declared.assumed for word in ("--assume", each.typed)]
    yield shlex.join(words)
