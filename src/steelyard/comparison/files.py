"""Comparisons on disk: find the runs of a side, save a comparison, make it again from its runs."""

import json
import math
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np

from steelyard import records
from steelyard.comparison import acceptance, assumption
from steelyard.comparison.comparison import Comparison, weigh
from steelyard.comparison.copies import digest, is_hashed, twice
from steelyard.comparison.declared import Declared
from steelyard.comparison.intervals import MARGIN
from steelyard.errors import InputError
from steelyard.experiment.experiment import Mode
from steelyard.experiment.policy import Metric
from steelyard.files import place_of, replace_file
from steelyard.records import MANIFEST, Run
from steelyard.records.fleet import find_fleet
from steelyard.records.manifest import checked_version
from steelyard.records.reader import holding, located, not_found, run_not_found
from steelyard.records.step import REPEATED
from steelyard.records.strict import blocks, open_record
from steelyard.records.suite import find_suite
from steelyard.records.writer import EVENTS, TELEMETRY
from steelyard.verdict import Subject

FILE = "comparison.json"
FOLDER = "comparisons"
SCHEMA_VERSION = 1


def load_runs(name: str, texts: Sequence[str], out: Path) -> list[Run]:
    """The runs of a side, each once: runs, comma-separated lists, fleets or directories, as paths or names."""
    runs = [run for text in texts for run in _named(name, text, out)]
    seen: dict[Path, Path] = {}
    for run in runs:
        first = seen.setdefault(run.directory.resolve(), run.directory)
        if first is not run.directory:
            raise twice(name, first, run.directory)
    return runs


def _named(name: str, text: str, out: Path) -> list[Run]:
    if not text.strip():
        raise InputError(f"{name} is empty", key=name, value=text, expected="a run", next="steelyard runs list")
    if located(text, out) is not None:
        return [records.find(text, out)]
    if (fleet := find_fleet(text, out)) is not None:  # the latest run of each host
        return [run for run in fleet.runs() if run is not None]
    for directory in (Path(text), out / text):
        if paths := list(records.runs_under(directory)):
            return [records.load(path) for path in paths]
    if (suite := find_suite(text, out)) is not None:
        cells = [suite.directory / cell.directory for cell in suite.cells]
        if len(cells) == 1:
            return [run for run in suite.runs(suite.cells[0]) if run is not None]
        problem, expected = f"{text!r} is a suite of {len(cells)} cells", "one of its cells, or two suites for compare"
        raise InputError(problem, key=name, value=text, expected=expected, next=str(cells[0]))
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 1 and all(parts):
        return load_runs(name, parts, out)
    raise run_not_found(text, out, name, "a run, a comma-separated list of runs, or a directory of runs")


def save(comparison: Comparison, out: Path, name: str | None) -> Path:
    """Write OUT/comparisons/ID/comparison.json; runs are relative paths, so that a directory tree can be moved."""
    labels = [side.label if len(side.subjects) == 1 else side.label.replace(" ", "-") for side in comparison.sides]
    words = [os.fsencode(records.unstamped(label))[:60].decode(errors="ignore") for label in labels]
    directory = records.new_directory(out / FOLDER, name, records.stamped(f"{words[0]}-vs-{words[1]}"))
    try:
        replace_file(directory / FILE, file_text(comparison, directory))
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)  # created by us, a moment ago
        raise
    return directory


def file_text(comparison: Comparison, directory: Path) -> str:
    """The content of comparison.json in this directory."""
    content = {"schema_version": SCHEMA_VERSION, **comparison.document(directory)}
    digests = iter(fingerprints([subject for side in comparison.sides for subject in side.subjects]))
    content["digests"] = {side.name: list(islice(digests, len(side.subjects))) for side in comparison.sides}
    for side in comparison.sides:
        places = (subject.run.directory.resolve() for subject in side.subjects)
        content[side.name] = [os.path.relpath(place, directory.resolve()) for place in places]
    content["names"] = {side.name: side.called for side in comparison.sides}
    content["comparison"] = directory.name
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def find(name: str, out: Path, without_time: bool = False) -> Path | None:
    """A comparison by its path or its ID under OUT/comparisons; `without_time` accepts an ID without its timestamp."""
    for directory in (Path(name), out / FOLDER / name):
        if os.path.lexists(directory / FILE):
            return directory
    if not without_time:
        return None
    alike = [path for path in holding(FILE, out / FOLDER) if records.unstamped(path.name) == name]
    return max(alike, default=None)


def names_under(out: Path) -> list[str]:
    """Names of the comparisons under `out`."""
    return [path.name for path in holding(FILE, out / FOLDER)]


def find_each(names: Sequence[str], out: Path) -> list[Path]:
    directories = []
    for name in names:
        directory = find(name, out, without_time=True)
        if directory is None:
            expected, command = "a directory with comparison.json", "steelyard compare TARGET BASELINE"
            details = {"key": "COMPARISONS", "expected": expected, "next": command}
            raise not_found("Comparison", name, names_under(out), out / FOLDER, **details)
        directories.append(directory)
    return directories


def saved(directory: Path) -> dict[str, Any]:
    path = directory / FILE
    try:
        content = records.read_json(path)
        checked_version(path, content, SCHEMA_VERSION)
        _check(content)
    except (OSError, ValueError, KeyError, TypeError) as reason:
        raise InputError(
            f"{place_of(path)}: cannot be read ({reason})", key="COMPARISON", value=str(directory)
        ) from None
    assert isinstance(content, dict)
    return content


def _check(content: dict[str, Any]) -> None:
    for key in ("target", "baseline", "asked"):
        names = content[key]
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{key} is {names!r}, expected a list of names")
    for metric in content["asked"]:
        Metric(metric)
    if content["mode"] not in get_args(Mode):
        raise ValueError(f"mode is {content['mode']!r}, expected one of {', '.join(get_args(Mode))}")
    if type(content["warmup_steps"]) is not int or content["warmup_steps"] < 0:
        raise ValueError(f"warmup_steps is {content['warmup_steps']!r}, expected a number of steps")
    if type(look := content.get("look", 1)) is not int or look < 1:
        raise ValueError(f"look is {look!r}, expected a count")
    loss, margin, prices = content.get("target_loss"), content.get("margin", MARGIN), content.get("prices", {})
    if loss is not None and not (_is_number(loss) and 0 < loss < math.inf):
        raise ValueError(f"target_loss is {loss!r}, expected a loss")
    if not (_is_number(margin) and 0 < margin < 1):
        raise ValueError(f"margin is {margin!r}, expected a share")
    if not isinstance(prices, dict) or not all(
        isinstance(price, int | float) and price > 0 for price in prices.values()
    ):
        raise ValueError(f"prices are {prices!r}, expected a price per GPU hour")
    _declared(content)
    called: Any = content.get("names")  # missing in older files, like the digests
    if called is not None and not all(isinstance(called[name], str) for name in ("target", "baseline")):
        raise ValueError(f"names are {called!r}, expected a text for each side")
    digests: Any = content.get("digests")
    for name in ("target", "baseline") if digests is not None else ():
        if not isinstance(digests[name], list) or len(digests[name]) != len(content[name]):
            raise ValueError("digests: expected one per run")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def places_of(content: dict[str, Any], directory: Path) -> tuple[list[Path], list[Path]]:
    """The directories of the runs of both sides."""
    target, baseline = (
        [Path(os.path.normpath(directory / place)) for place in content[side]] for side in ("target", "baseline")
    )
    return target, baseline


def weigh_again(directory: Path, unchanged: bool = True) -> Comparison:
    """Make a saved comparison again with its options; by default, an error if a run has changed since."""
    content = saved(directory)
    target, baseline = (list(map(records.load, side)) for side in places_of(content, directory))
    asked = [Metric(name) for name in content["asked"]]
    margin, prices, loss = (content.get(key) for key in ("margin", "prices", "target_loss"))
    declared, look, called = _declared(content), content.get("look", 1), content.get("names")
    names = (called["target"], called["baseline"]) if called is not None else None  # missing in older files
    how = (content["mode"], content["warmup_steps"], margin, declared, prices, loss, look, names)
    comparison = weigh(target, baseline, asked, *how)
    if unchanged and (digests := content.get("digests")) is not None:  # missing in older files
        _check_unchanged(directory, [*digests["target"], *digests["baseline"]], comparison)
    return comparison


def _declared(content: dict[str, Any]) -> Declared:
    """What a saved comparison accepts and assumes; comparisons of 0.1 have neither."""
    accepted = {str(each["key"]): each["reason"] for each in content.get("accepted", [])}
    assumed = {f"{each['side']}:{each['key']}": each["value"] for each in content.get("assumed", [])}
    if not all(isinstance(words, str | None) for words in accepted.values()):
        raise ValueError("accepted: expected a text as reason")
    return Declared(acceptance.parse(accepted), assumption.parse(assumed))


def _check_unchanged(directory: Path, digests: list[str], comparison: Comparison) -> None:
    subjects = [subject for side in comparison.sides for subject in side.subjects]
    for subject, before, now in zip(subjects, digests, fingerprints(subjects), strict=True):
        if before != now:
            run, name = place_of(subject.run.directory), directory.resolve().name
            problem = f"{run} has changed since the comparison {name} was made"
            again = " && ".join(commands(comparison))
            raise InputError(problem, key="COMPARISON", value=str(directory), next=again)


def commands(made: Comparison) -> Iterator[str]:
    """The commands that make the comparison, with paths as given; a price sheet is written first."""
    sides = [",".join(place_of(subject.run.directory) for subject in side.subjects) for side in made.sides]
    words = ["steelyard", "compare", *sides, "--for", ",".join(made.asked)]
    words += ["--mode", made.mode, "--margin", f"{made.margin:.15g}"]
    if made.warmup_steps:
        words += ["--warmup-steps", str(made.warmup_steps)]
    words += [word for each in made.accepted for word in ("--accept", each.typed)]
    words += [word for each in made.assumed for word in ("--assume", each.typed)]
    if made.target_loss is not None:
        words += ["--target-loss", f"{made.target_loss:.15g}"]
    if made.prices:
        yield f"echo {shlex.quote(json.dumps(dict(made.prices)))} > prices.json"
        words += ["--prices", "prices.json"]
    yield shlex.join(words)


def fingerprints(subjects: Sequence[Subject]) -> list[str]:
    """Fingerprints of several runs, computed in parallel."""
    with ThreadPoolExecutor() as threads:
        return list(threads.map(fingerprint, subjects))


def fingerprint(subject: Subject) -> str:
    """A digest of everything a comparison uses of a run: its files, and its steps as they were read."""
    state = blake2b(digest_size=16)
    for name in (MANIFEST, EVENTS, TELEMETRY):
        path = subject.run.directory / name
        with open_record(path) as file:
            state.update(f"{name} {file.seek(0, os.SEEK_END)}\n".encode())
        for block in blocks(path):
            state.update(block)
    steps = subject.steps
    state.update(digest(steps))
    for name in REPEATED:
        if is_hashed(name, steps.columns[name].given):
            state.update(steps.columns[name].values.tobytes())
    for name, column in steps.columns.items():
        if column.given.any():  # a given NaN differs from a missing value
            state.update(name.encode())
            state.update(column.given.tobytes())
    state.update(steps.steps_covered.tobytes())
    state.update(" ".join(steps.memory_kinds).encode())
    for flag, rows in sorted(steps.flagged.items()):
        state.update(flag.encode())
        state.update(np.array(rows, dtype=np.int64).tobytes())
    return state.hexdigest()
