"""The cells of a config file: of its `suite`, or else every platform, or every model and GPU."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from steelyard.configs.choose import Asked, check_platform, platform_names, readings
from steelyard.configs.edits import edited
from steelyard.configs.files import ConfigFile, FileError
from steelyard.experiment.cells import LADDER_RUNS, SUITE, THE_ONLY, Cell, LadderSection, expand, section_of
from steelyard.experiment.problems import WRONG_VALUE, InvalidExperimentError, Problem, bare, shown
from steelyard.experiment.resolve import Settings
from steelyard.experiment.validation import nearest, remove_or_rename

PLATFORM = "platform"


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a file and how often to run each."""

    file: ConfigFile
    asked: Asked
    """What is asked for of every cell."""
    axes: tuple[str, ...]
    cells: tuple[Cell, ...]
    repeats: int = 1
    ladder: LadderSection | None = None
    """With paths relative to the current directory."""

    def asked_of(self, cell: Cell, settings: Settings = ()) -> Asked:
        """What is asked for of one cell."""
        asked, selected = self.asked, dict[str, Any](cell.selectors)
        every, hosts = (*asked.settings, *settings), asked.hosts[: selected.get("nodes")]
        return replace(asked, cell=cell, settings=every, hosts=hosts, **selected)


def cells_of(file: ConfigFile, asked: Asked, platforms: Sequence[str] = ()) -> Cells:
    """The cells that match what is asked for; `platforms` selects some of those in the file."""
    file, asked = edited(file, asked.edits), replace(asked, edits=())
    if file.family != "steelyard":
        return _of_cvs(file, asked, platforms)
    if SUITE not in file.content:
        names = _names(file, platforms)
        return Cells(file, asked, (PLATFORM,), tuple(_on(THE_ONLY, name) for name in names) or (THE_ONLY,))
    section = section_of(file.path, file.content[SUITE])
    cells, axes = expand(file.path, section), tuple(section.axes)
    _check_not_set_twice(file, cells, asked)
    _check_platforms(file, cells)
    names, chosen = _names(file, platforms), list[Cell]()
    for cell in cells:
        own = dict(cell.selectors).get(PLATFORM)
        if own is None:
            chosen += [_on(cell, name) for name in names] or [cell]
        elif not platforms or own in platforms:
            chosen.append(cell)
    if not chosen:
        check_platform(file, platforms[0], list(dict.fromkeys(str(cell.platform) for cell in cells)))
    axes += (PLATFORM,) if any(PLATFORM in cell.by_axis for cell in chosen) and PLATFORM not in axes else ()
    return Cells(file, asked, axes, tuple(chosen), section.repeats, _from_here(file, section.ladder))


def _from_here(file: ConfigFile, ladder: LadderSection | None) -> LadderSection | None:
    """The ladder with its paths from the current directory."""
    if ladder is None:
        return None
    paths = {name: [str(file.path.parent / place) for place in getattr(ladder, name)] for name in LADDER_RUNS}
    return ladder.model_copy(update=paths)


def repeats_of(file: ConfigFile, asked: Asked, platforms: Sequence[str] = ()) -> Cells:
    """One job, on each of the platforms, without the `suite` of the file."""
    file, asked = edited(file, asked.edits), replace(asked, edits=())
    return Cells(file, asked, (), tuple(_on(THE_ONLY, name) for name in platforms) or (THE_ONLY,))


def _names(file: ConfigFile, platforms: Sequence[str]) -> Sequence[str]:
    """The platforms that are asked for, or all; a name that the file does not have is an error."""
    names = platform_names(file)
    for name in platforms:
        check_platform(file, name, names)
    return platforms or names


def _on(cell: Cell, platform: str) -> Cell:
    pair = (PLATFORM, platform)
    return replace(cell, values=(*cell.values, pair), selectors=(*cell.selectors, pair))


def _check_platforms(file: ConfigFile, cells: Sequence[Cell]) -> None:
    """Refuse a platform of a cell that the file does not have."""
    names = platform_names(file)
    for cell in cells:
        own = dict(cell.selectors).get(PLATFORM)
        if own is not None and own not in names:
            path = dict(cell.places)[PLATFORM]
            near, expected = nearest(str(own), names)
            message, fix = f"{'.'.join(path)} has {shown(own)}, which the file lacks", remove_or_rename(near)
            problem = Problem(WRONG_VALUE, "error", str(file.path), ".".join(path), message, fix, own, expected, path)
            raise InvalidExperimentError([problem])


def _check_not_set_twice(file: ConfigFile, cells: Sequence[Cell], asked: Asked) -> None:
    """Refuse an option for a key that the cells set."""
    by_cells = {key for cell in cells for key, _ in (*cell.settings, *cell.selectors)}
    typed = {key: f"--set {bare(key)}" for key, _ in asked.settings}
    typed |= {name: f"--{name}" for name in ("gpu", "gpus", "nodes") if getattr(asked, name) is not None}
    for key, option in typed.items():
        if key in by_cells:
            fix = f"the same command without {option}, or a file whose suite does not set {bare(key)}"
            raise FileError(file.path, f"the suite sets {bare(key)}, and {option} too", key=option, next=fix)


def _of_cvs(file: ConfigFile, asked: Asked, platforms: Sequence[str]) -> Cells:
    """Every model and GPU of a JSON config; cells of several sections have the section as an axis."""
    names = platforms or (asked.platform,)
    matches = [match for name in names for match in readings(file, replace(asked, platform=name))]
    cells = []
    for match in matches:
        values = [("model", match.model_key or ""), ("gpu", match.params_path[-1])]
        values += [("section", match.section or "")] if match.both_sections else []
        cells.append(Cell(tuple(values), ((PLATFORM, match.platform or ""),)))
    axes = ("model", "gpu", *(("section",) if any(match.both_sections for match in matches) else ()))
    return Cells(file, asked, axes, tuple(cells))
