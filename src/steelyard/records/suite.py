"""suite.json: the cells of a suite, where the runs of each are, and their joint result."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from steelyard.errors import InputError
from steelyard.files import replace_file
from steelyard.records.fleet import Word, run_below
from steelyard.records.manifest import Record, read_record
from steelyard.records.reader import Run, holding, listing, not_found
from steelyard.records.writer import SUITE as FILE
from steelyard.records.writer import beats, numbered

SCHEMA_VERSION = 1
JUNIT = "junit.xml"

_COMPONENT = r"[^./\x00\\][^/\x00\\]*"


class SuiteCell(Record):
    """One cell: its values, and where its runs are."""

    name: str
    directory: str = Field(pattern=rf"\A(\.|{_COMPONENT}(/{_COMPONENT})?)\z")
    """Below the directory of the suite: CELL, PLATFORM/CELL with several platforms, or `.` for repeats of one job."""
    values: dict[str, bool | int | float | str | None]
    """By axis."""
    platform: str | None = None
    """The platform, if the suite has several."""
    runs: list[Annotated[str, Field(pattern=rf"\A{_COMPONENT}\z")]] = Field(min_length=1, max_length=10**6)
    """Names of its runs; those missing in the directory are still to be made."""
    expect: Literal["oom"] | None = None
    """Declared result: out of memory."""
    skipped: Literal["oversized"] | None = None
    """Why it is not run: the plan needs more memory than the GPU has."""
    planned_gib: float | None = None
    """Memory per GPU that the plan needs."""
    available_gib: float | None = None
    """Memory per GPU; null if unknown."""

    def path_of(self, run: str) -> str:
        """The directory of a run, below that of the suite."""
        return f"{self.directory}/{run}".removeprefix("./")


class LadderSides(Record):
    """The two sides whose gap a ladder explains: each of its cells has one change more than the cell before."""

    target: str
    baseline: str
    target_runs: list[str] = Field(default_factory=list, max_length=1000)
    """Its own runs, as paths relative to the suite."""
    baseline_runs: list[str] = Field(default_factory=list, max_length=1000)
    """Runs that the first rung should reproduce, as paths relative to the suite."""


class SuiteManifest(Record):
    """Written when a suite starts and when it ends; in between, read the status of its runs."""

    schema_version: int = SCHEMA_VERSION
    name: str
    experiment: str | None = None
    """Name of the experiment; null for imported logs."""
    axes: list[str]
    """Keys in which its cells differ."""
    cells: list[SuiteCell] = Field(min_length=1, max_length=10**5)
    verdict: Word | None = None
    """The joint verdict of the last check; null if it was not checked."""
    ladder: LadderSides | None = None
    """Only for a ladder."""

    @model_validator(mode="after")
    def _has_each_run_once(self) -> "SuiteManifest":
        paths = [cell.path_of(run) for cell in self.cells for run in cell.runs]
        if len(set(paths)) < len(paths):
            raise ValueError("a run is listed twice")
        return self


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite directory and its manifest, or the cells of one of its platforms."""

    directory: Path
    manifest: SuiteManifest
    platform: str | None = None
    """The only platform whose cells are meant; None for all."""

    @property
    def name(self) -> str:
        return self.platform or self.directory.resolve().name

    @property
    def cells(self) -> list[SuiteCell]:
        return [cell for cell in self.manifest.cells if self.platform is None or cell.platform == self.platform]

    @property
    def platforms(self) -> list[str]:
        return list(dict.fromkeys(cell.platform for cell in self.manifest.cells if cell.platform is not None))

    @property
    def platform_place(self) -> str | None:
        """The directory of its platform, below that of the suite; None for all platforms."""
        return self.cells[0].directory.partition("/")[0] if self.platform is not None else None

    @property
    def is_running(self) -> bool:
        return beats(self.directory)

    def runs(self, cell: SuiteCell) -> list[Run | None]:
        """The runs of a cell; None for those that do not exist yet."""
        return [self.run(cell, name) for name in cell.runs]

    def run(self, cell: SuiteCell, name: str) -> Run | None:
        return run_below(self.directory, cell.path_of(name))

    def updated(self, **values: Any) -> "Suite":
        """The suite with other values in its manifest."""
        return Suite(self.directory, self.manifest.model_copy(update=values), self.platform)

    def save(self) -> None:
        """Replace suite.json."""
        replace_file(self.directory / FILE, self.manifest.model_dump_json(indent=2) + "\n")


def find_suite(name: str, out: Path) -> Suite | None:
    """The suite of a path or of a name under --out, or one platform of it as SUITE/PLATFORM; None if it is neither."""
    for directory in (Path(name), out / name):
        if os.path.lexists(directory / FILE):
            return load_suite(directory)
        above = directory.parent
        if directory.name not in ("", ".", "..") and os.path.lexists(above / FILE):
            suite = load_suite(above)
            folders = {
                cell.directory.partition("/")[0]: cell.platform for cell in suite.manifest.cells if cell.platform
            }
            if directory.name in folders:
                return Suite(above, suite.manifest, folders[directory.name])
    return None


def the_suite(key: str, name: str, out: Path) -> Suite:
    """The suite of a name; InputError if it does not exist."""
    suite = find_suite(name, out)
    if suite is None:
        names = [path.name for path in suites_under(out)]
        details = {"key": key, "expected": f"a directory with {FILE}", "next": listing(out)}
        raise not_found("Suite", name, names, out, **details)
    return suite


def suites_under(out: Path) -> list[Path]:
    """Suite directories directly under `out`, sorted by name."""
    return holding(FILE, out)


def load_suite(directory: Path) -> Suite:
    """Read suite.json; refuse a later schema version."""
    try:
        return Suite(directory, read_record(directory / FILE, SuiteManifest, SCHEMA_VERSION, "SUITE"))
    except OSError as reason:
        problem = f"{directory / FILE} cannot be read ({reason})"
        raise InputError(problem, key="SUITE", value=str(directory)) from None


def cell_directories(names: Sequence[tuple[str | None, str | None]]) -> list[str]:
    """A directory per cell from its platform and name, where it has them, with -2, -3 … if taken."""
    taken: set[str] = set()
    return [_free(platform, name, taken) for platform, name in names]


def _free(platform: str | None, name: str | None, taken: set[str]) -> str:
    words = [_component(part) for part in (platform, name) if part is not None]
    directory = next(free for free in numbered("/".join(words)) if free.casefold() not in taken)
    taken.add(directory.casefold())
    return directory


def _component(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", text).lstrip(".-")[:100] or "cell"
