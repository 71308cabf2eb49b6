"""The experiment file of a ladder: what the baseline trains and where, and a suite with a cell per rung."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard.campaign.ladder_keys import COMPUTED, MODEL
from steelyard.comparison.side import Side
from steelyard.experiment.experiment import SCHEMA_VERSION
from steelyard.experiment.keys import defaults
from steelyard.experiment.presets import PRESETS
from steelyard.experiment.sources import DERIVED
from steelyard.frameworks.planner import as_yaml
from steelyard.frameworks.registry import facts
from steelyard.hardware.catalog import CPU
from steelyard.inert import inert
from steelyard.records import Run
from steelyard.verdict import Subject, policy_of

AXIS = "ladder"
REPEATS = 5
"""Three give an interval, five a narrower one."""
_LONGEST_NAME = 70


def experiment_of(subject: Subject, platform: Mapping[str, Any], place: Path) -> dict[str, Any]:
    """The content of an experiment file at this place that trains what a run or a config trains."""
    manifest = subject.run.manifest
    groups: dict[str, dict[str, Any]] = {}
    for dotted, value in _stated(subject):
        group, _, key = dotted.partition(".")
        groups.setdefault(group, {})[key] = value
    path = groups.get("data", {}).get("path")
    if path is not None and facts(manifest.framework).runs_here and manifest.provenance.file is not None:
        groups["data"]["path"] = _moved(path, Path(manifest.provenance.file).parent, place.parent)
    policy = policy_of(subject.run).model_dump(exclude_defaults=True)
    return {
        "schema_version": SCHEMA_VERSION,
        "name": _name(f"{manifest.experiment.name or 'experiment'}-ladder"),
        **groups,
        **({"compare": policy} if policy else {}),
        "platforms": {_name(manifest.platform.name): dict(platform)},
    }


def recorded_platform(subject: Subject) -> dict[str, Any]:
    """The platform of a run as an experiment file has it. Container and variables are not taken from a record."""
    recorded = subject.run.manifest.platform
    known = {
        "gpu": CPU if recorded.gpu_name == CPU else recorded.gpu,
        "nodes": recorded.nodes,
        "gpus_per_node": recorded.gpus_per_node,
        "framework": subject.run.manifest.framework,
    }
    return {key: value for key, value in known.items() if value is not None}


def text_of(content: Mapping[str, Any], suite: Mapping[str, Any], remarks: Sequence[str]) -> str:
    """The file, with remarks at its start."""
    return "".join(f"# {inert(line)}".rstrip() + "\n" for line in remarks) + as_yaml({**content, "suite": suite})


def suite_of(
    rungs: Mapping[str, Mapping[str, Any]], sides: Sequence[Side], runs: Mapping[str, Sequence[Run]], place: Path
) -> dict[str, Any]:
    """The suite section: rungs with all their settings, and the two sides with the runs that they have."""
    folder = place.parent.resolve()
    paths = {f"{name}_runs": [os.path.relpath(run.directory.resolve(), folder) for run in runs[name]] for name in runs}
    return {
        "axes": {AXIS: {name: dict(settings) for name, settings in rungs.items()}},
        "repeats": REPEATS,
        "ladder": {**{side.name: inert(side.called).lstrip("-") for side in sides}, **paths},
    }


def _stated(subject: Subject) -> Iterator[tuple[str, Any]]:
    """Values that are not defaults, computed, or those of the preset."""
    known, preset = subject.known(f"{MODEL}preset")
    of_preset = PRESETS.get(preset, {}) if known else {}
    for dotted in defaults():
        known, value = subject.known(dotted)
        source = subject.source(dotted)
        if not known or dotted in COMPUTED or (source and (source.is_default or source == DERIVED)):
            continue
        if dotted.startswith(MODEL) and value is not None and of_preset.get(dotted.removeprefix(MODEL)) == value:
            continue
        yield dotted, value


def _moved(path: str, folder: Path, to: Path) -> str:
    return path if Path(path).is_absolute() else os.path.relpath((folder / path).resolve(), to.resolve())


def _name(text: str) -> str:
    """A text as a name in the file."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".-")[:_LONGEST_NAME] or "baseline"
