"""Groups imported runs into the cells of a suite: runs with equal settings on one platform are repeats."""

import json
import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steelyard.comparison.contract import known_value
from steelyard.comparison.identity import CORPUS, TOKENIZER
from steelyard.experiment.cells import Scalar, cell_name
from steelyard.experiment.keys import KEYS, STATED
from steelyard.experiment.platform import FRAMEWORKS
from steelyard.experiment.presets import preset_of_size
from steelyard.verdict import Subject

PLATFORM, MODEL, NODES, LOG = "platform", "model", "nodes", "log"
"""Axes that are not keys of an experiment: GPU or framework, name or size of the model, number of nodes, and the log
of a run that lacks the settings to place it."""
REQUIRED = (
    *(MODEL, "training.sequence_length", "training.micro_batch_size", "training.global_batch_size"),
    *("platform.world_size", "precision.dtype"),
)
"""Settings without which a run could be a repeat of anything."""
_FIRST = (*REQUIRED[:4], NODES, *REQUIRED[4:], "precision.fp8")
_NEXT = ("training.recompute", "training.recompute_extent")
_NOT_SETTINGS = {
    *("model.preset", "training.seed", "data.seed", "training.initial_weights", "data.tokenizer_type"),
    *(*CORPUS, *TOKENIZER),
    *("training.tokens_per_step", "data.trained_share", "measurement.memory_kind"),
}
"""Seeds, names, paths and measurements, in which repeats may differ."""
_OF_PLATFORM = ("platform.world_size", "platform.framework_version")
"""Keys of the platform that are settings; the others describe hosts."""


def _ordered() -> Iterator[str]:
    yield from _FIRST
    yield from (key for key in (*KEYS, *STATED) if key.startswith("parallelism."))
    yield from _NEXT
    yield from (key for key in (*KEYS, *STATED) if not key.startswith("platform."))
    yield from _OF_PLATFORM


ORDER = tuple(key for key in dict.fromkeys(_ordered()) if key not in _NOT_SETTINGS)
"""Settings that tell cells apart. Those that come first become axes first, so that two folders get the same axes."""
SETTINGS = tuple(key for key in ORDER if key not in (MODEL, NODES))


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of a run."""

    settings: Mapping[str, Scalar]
    """By key of `ORDER`; a setting that is missing is unknown."""
    gpu: str | None
    framework: str | None
    log: str
    """The name of its log in the folder, with its number if the log holds several runs."""


@dataclass(slots=True)
class RunGroup:
    """The runs of one cell."""

    platform: str | None
    settings: dict[str, Scalar]
    runs: list[int]
    """Positions of its runs."""
    unknown: tuple[str, ...] = ()
    """Settings that keep it from being placed in another cell."""
    values: dict[str, Scalar] = field(default_factory=dict)
    """By axis."""

    @property
    def name(self) -> str:
        known = [(axis, value) for axis, value in self.values.items() if axis != PLATFORM and value is not None]
        return cell_name(known) if known or not self.unknown else "unknown"


def profile_of(subject: Subject, log: str) -> Profile:
    manifest = subject.run.manifest
    known = {key: value for key in SETTINGS if (value := known_value(subject, key))[0]}
    settings = {key: _scalar(value) for key, (_, value) in known.items()}
    if manifest.platform.nodes is not None:
        settings[NODES] = manifest.platform.nodes
    if (model := model_of(subject)) is not None:
        settings[MODEL] = model
    name = manifest.platform.gpu or manifest.platform.gpu_name
    gpu = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "gpu" if name else None
    return Profile(settings, gpu, manifest.framework if manifest.framework in FRAMEWORKS else None, log)


def _scalar(value: Any) -> Scalar:
    """The value in a form that equal settings share."""
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, bool | int | str) else json.dumps(value, sort_keys=True)


def model_of(subject: Subject) -> str | None:
    """The preset that was stated or has these dimensions; else layers x hidden size."""
    if (stated := subject.value("model.preset")) is not None:
        return str(stated)
    layers, hidden = subject.whole("model.num_layers"), subject.whole("model.hidden_size")
    preset = preset_of_size(subject.dimensions)
    return preset or (f"{layers}x{hidden}" if layers and hidden else None)


def platforms_of(profiles: Sequence[Profile]) -> list[str | None]:
    """The name of each run's platform: its GPU if there are several, its framework if runs on that GPU have several.

    None if there is one platform, or if nothing is known of it.
    """
    frameworks: dict[str | None, set[str]] = {}
    for profile in profiles:
        frameworks.setdefault(profile.gpu, set()).update([profile.framework] if profile.framework else [])
    names = []
    for profile in profiles:
        gpu = profile.gpu if len(frameworks) > 1 else None
        framework = profile.framework if len(frameworks[profile.gpu]) > 1 else None
        names.append("-".join(part for part in (gpu, framework) if part) or None)
    return names


def cells_of(profiles: Sequence[Profile]) -> tuple[list[str], list[RunGroup]]:
    """The axes, and the cells in their order; no two cells have equal values."""
    platforms = platforms_of(profiles)
    groups: list[RunGroup] = []
    for platform in dict.fromkeys(platforms):
        groups += _groups(
            platform, {at: profiles[at].settings for at, name in enumerate(platforms) if name == platform}
        )
    keys, alike = _axes(groups)
    tied = {id(group) for cells in alike if len(cells) > 1 for group in cells}
    several = len({group.platform for group in groups}) > 1
    axes = [*([PLATFORM] if several else []), *keys, *([LOG] if tied else [])]
    for group in groups:
        log = profiles[group.runs[0]].log if id(group) in tied else None
        known = {**group.settings, PLATFORM: group.platform, LOG: log}
        group.values = {axis: known.get(axis) for axis in axes}
    return axes, sorted(groups, key=lambda group: [_rank(value) for value in group.values.values()])


def _rank(value: Scalar) -> tuple[int, float, str]:
    """Numbers by size, then texts, then unknown values."""
    if isinstance(value, int | float):
        return 0, value, ""
    return (2, 0, "") if value is None else (1, 0, value)


def _groups(platform: str | None, runs: Mapping[int, Mapping[str, Scalar]]) -> Iterator[RunGroup]:
    """The cells of one platform.

    A run without a required setting has a cell of its own. Any other setting that logs lack is ignored, unless it
    decides between two cells.
    """
    values = {key: {settings[key] for settings in runs.values() if key in settings} for key in ORDER}
    deciding = [key for key in ORDER if key in REQUIRED or len(values[key]) > 1]
    groups: dict[Hashable, RunGroup] = {}
    for at, settings in runs.items():
        unknown = tuple(key for key in deciding if key not in settings)
        required = tuple(key for key in unknown if key in REQUIRED)
        alone = at if required else None
        same = (alone, *((key in settings, settings.get(key)) for key in deciding))
        group = groups.setdefault(same, RunGroup(platform, {}, [], required or unknown))
        group.settings = {**settings, **group.settings}
        group.runs.append(at)
    complete = [group for group in groups.values() if not group.unknown]
    yield from (group for group in groups.values() if group.unknown and not _placed(group, complete))
    yield from complete


def _placed(group: RunGroup, cells: Sequence[RunGroup]) -> bool:
    """Add runs with unknown settings to the only cell that agrees with the known ones."""
    if any(key in REQUIRED for key in group.unknown):
        return False
    known = group.settings.items()
    fitting = [cell for cell in cells if all(cell.settings.get(key, value) == value for key, value in known)]
    if len(fitting) == 1:
        fitting[0].runs = sorted([*fitting[0].runs, *group.runs])
    elif not fitting:
        group.unknown = ()
    return len(fitting) == 1


def _axes(groups: Sequence[RunGroup]) -> tuple[list[str], list[list[RunGroup]]]:
    """The first settings that tell the cells of each platform apart, by known values before unknown ones; and the cells
    by their values."""
    axes: list[str] = []
    alike = _parts(groups, [group.platform for group in groups])
    for only_known in (True, False):
        for key in ORDER:
            if any(_tells_apart(key, cells, only_known) for cells in alike):
                axes.append(key)
                alike = [part for cells in alike for part in _parts(cells, [cell.settings.get(key) for cell in cells])]
    return sorted(axes, key=ORDER.index), alike


def _tells_apart(key: str, cells: Sequence[RunGroup], only_known: bool) -> bool:
    return len({cell.settings.get(key) for cell in cells if key in cell.settings or not only_known}) > 1


def _parts(cells: Sequence[RunGroup], values: Sequence[Scalar]) -> list[list[RunGroup]]:
    """The cells by their values."""
    parts: dict[Scalar, list[RunGroup]] = {}
    for cell, value in zip(cells, values, strict=True):
        parts.setdefault(value, []).append(cell)
    return list(parts.values())
