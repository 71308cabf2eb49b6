"""The cells of a config file: of its `suite`, or else every platform, or every model and GPU."""

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.configs.choose import Asked, platform_names, readings
from steelyard.configs.edits import edited
from steelyard.configs.files import ConfigFile
from steelyard.experiment.cells import LADDER_RUNS, Cell, LadderSection, expand, section_of
from steelyard.experiment.problems import WRONG_VALUE, InvalidExperimentError, Problem

SUITE = "suite"


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a file and how often to run each."""

    axes: tuple[str, ...]
    cells: tuple[Cell, ...]
    repeats: int
    ladder: LadderSection | None = None
    """With paths relative to the current directory."""


def cells_of(file: ConfigFile, asked: Asked, platforms: Sequence[str] = ()) -> Cells:
    """The cells that match what is asked for; `platforms` selects some of those in the file."""
    file = edited(file, asked.edits)
    if file.family != "steelyard":
        return _of_cvs(file, asked)
    if file.content.get(SUITE) is None:
        names = list(platforms) or platform_names(file)
        return Cells(("platform",), tuple(_on(Cell(), name) for name in names) or (Cell(),), 1)
    section = section_of(file.path, file.content[SUITE])
    cells, axes = expand(file.path, section), tuple(section.axes)
    _check_not_set_twice(file, cells, asked)
    if any("platform" in dict(cell.selectors) for cell in cells):
        chosen = [cell for cell in cells if not platforms or dict(cell.selectors).get("platform") in platforms]
    else:
        names = list(platforms) or platform_names(file)
        chosen = [_on(cell, name) for cell in cells for name in names] or cells
        axes = (*axes, "platform") if names else axes
    return Cells(axes, tuple(chosen), section.repeats, _from_here(file, section.ladder))


def _from_here(file: ConfigFile, ladder: LadderSection | None) -> LadderSection | None:
    """The ladder with its paths from the current directory."""
    if ladder is None:
        return None
    paths = {name: [str(file.path.parent / place) for place in getattr(ladder, name)] for name in LADDER_RUNS}
    return ladder.model_copy(update=paths)


def _on(cell: Cell, platform: str) -> Cell:
    pair = ("platform", platform)
    return Cell((*cell.values, pair), (*cell.selectors, pair), cell.settings, cell.expect)


def _check_not_set_twice(file: ConfigFile, cells: Sequence[Cell], asked: Asked) -> None:
    """Refuse --set of a key that the cells set."""
    by_cells = {key for cell in cells for key, _ in (*cell.settings, *cell.selectors)}
    options = ((name, getattr(asked, name)) for name in ("gpu", "gpus", "nodes"))
    typed = [key for key, _ in asked.settings] + [name for name, value in options if value is not None]
    for key in typed:
        if key in by_cells:
            message, fix = f"{key} is given on the command line, but the cells of the suite set it", "give it once"
            problem = Problem(WRONG_VALUE, "error", str(file.path), key, message, fix, path=(SUITE,))
            raise InvalidExperimentError([problem])


def _of_cvs(file: ConfigFile, asked: Asked) -> Cells:
    """Every model and GPU of a JSON config; cells of several sections have the section as an axis."""
    matches = readings(file, asked)
    cells = []
    for match in matches:
        values = [("model", match.model_key or ""), ("gpu", match.params_path[-1])]
        values += [("section", match.section or "")] if match.both_sections else []
        cells.append(Cell(tuple(values), (("platform", match.platform or ""),)))
    axes = ("model", "gpu", *(("section",) if any(match.both_sections for match in matches) else ()))
    return Cells(axes, tuple(cells), 1)
