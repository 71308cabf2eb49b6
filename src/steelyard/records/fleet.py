"""fleet.json: the runs of a fleet, the latest per host, and their joint result."""

import contextlib
import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from steelyard.errors import InputError
from steelyard.files import place_of, replace_file
from steelyard.records.manifest import FILE as MANIFEST
from steelyard.records.manifest import Failure, Record, RunStatus, read_record
from steelyard.records.reader import Run, folders_of, holding, load, runs_under
from steelyard.records.strict import read_json
from steelyard.records.writer import FLEET as FILE
from steelyard.records.writer import SUITE, Heartbeat, beats, new_directory, numbered

SCHEMA_VERSION = 1
EARLIER = "earlier"
"""Directory next to the runs of a job, with runs that were made again."""

Word = Literal["pass", "fail", "unknown"]


class FleetRun(Record):
    """The latest run of one host."""

    host: str
    directory: str = Field(pattern=r"\A[^./\x00][^/\x00]*\z")
    """Its run directory below the fleet's; missing if the fleet stopped before this run began."""
    status: RunStatus = "running"
    verdict: Word | None = None
    failure: Failure | None = None


class Outlier(Record):
    """A figure of one run that deviates from the other runs."""

    host: str
    metric: str
    value: float
    median: float
    """Median of all completed runs."""
    share: float
    """(value - median) / median."""
    robust_z: float | None
    """0.6745 x (value - median) / MAD; null if MAD is 0, because most runs have the same value."""

    @property
    def words(self) -> str:
        """`g5: step_time_s is 1.5, 49.3% above the median of 1.005 (robust z 33.4)`."""
        side, z = "above" if self.share > 0 else "below", self.robust_z
        score = "most runs have exactly the same value" if z is None else f"robust z {z:.1f}"
        return (
            f"{self.host}: {self.metric} is {self.value:,.5g}, {abs(self.share):.1%} {side} "
            f"the median of {self.median:,.5g} ({score})"
        )


class PreflightFinding(Record):
    """A preflight problem of one host, or a difference between hosts."""

    host: str | None
    """Null for the machine that ran preflight."""
    check: str
    status: Word
    required: bool
    """Whether the problem prevents runs on the host."""
    message: str
    fix: str | None = None

    @property
    def words(self) -> str:
        return f"{self.host or 'this machine'}: {self.check}: {self.message}"


class FleetManifest(Record):
    """Written when a fleet starts and when it ends; in between, read the status of its runs."""

    schema_version: int = SCHEMA_VERSION
    name: str
    runs: list[FleetRun] = Field(min_length=1)
    verdict: Word | None = None
    """The worst verdict of its runs; null if they were not checked."""
    outliers: list[Outlier] = Field(default_factory=list)
    preflight: list[PreflightFinding] = Field(default_factory=list)
    """Failed and blocking preflight findings; empty if there was no preflight."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet directory and its manifest."""

    directory: Path
    manifest: FleetManifest

    @property
    def is_running(self) -> bool:
        return beats(self.directory)

    def runs(self) -> list[Run | None]:
        """The run of each host; None if it never began."""
        return [run_below(self.directory, run.directory) for run in self.manifest.runs]

    def refreshed(self, runs: Sequence[Run | None]) -> "Fleet":
        """The fleet with the current status of each run; runs that never began are pending while the fleet runs."""
        waiting: RunStatus = "running" if self.is_running else "interrupted"
        states = [(run.status, run.manifest.failure) if run else (waiting, None) for run in runs]
        entries = [
            entry.model_copy(update={"status": status, "failure": failure})
            for entry, (status, failure) in zip(self.manifest.runs, states, strict=True)
        ]
        return self.updated(runs=entries)

    @property
    def text(self) -> str:
        """The content of fleet.json."""
        return self.manifest.model_dump_json(indent=2) + "\n"

    def updated(self, **values: Any) -> "Fleet":
        """The fleet with other values in its manifest."""
        return Fleet(self.directory, self.manifest.model_copy(update=values))

    def save(self) -> None:
        """Replace fleet.json."""
        replace_file(self.directory / FILE, self.text)


@contextlib.contextmanager
def reading_run(directory: Path, name: str) -> Iterator[None]:
    """Add to the error of an unreadable run of several how to continue without it."""
    try:
        yield
    except InputError as unreadable:
        unreadable.next = unreadable.next or _without(directory, directory / name)
        raise


def _without(directory: Path, place: Path) -> str:
    """How to continue without a run that cannot be read."""
    name = ".".join(place.relative_to(directory).parts)
    move = shlex.join(["mv", str(place), f"{directory}.{name}.unreadable"])
    return f"{move}; the run then counts as not begun (--resume runs it)"


def run_below(directory: Path, name: str) -> Run | None:
    """A run of several, by its path below their directory; None if it does not exist."""
    place = directory_below(directory, name)
    with reading_run(directory, name):
        return load(place) if os.path.lexists(place / MANIFEST) else None


def directory_below(directory: Path, name: str) -> Path:
    """A path below a directory; InputError if a part of it is a link or a file, so that no link leads out of it."""
    place = directory
    for part in Path(name).parts:
        place /= part
        try:
            is_directory = stat.S_ISDIR(place.lstat().st_mode)
        except FileNotFoundError:
            break
        except (OSError, ValueError) as reason:
            problem = f"{place} cannot be opened ({reason})"
            raise InputError(problem, key="RUN", value=str(place)) from None
        if not is_directory:
            problem, expected = f"{place} is not a directory", "a directory, not a link"
            raise InputError(problem, key="RUN", value=str(place), expected=expected, next=_without(directory, place))
    return directory / name


def new_fleet(out: Path, name: str | None, own: str, hosts: Sequence[str]) -> Fleet:
    """Make the directory of a fleet, named `name` or else `own`, with a run name per host."""
    directory = new_directory(out, name, own)
    places = zip(hosts, directory_names(directory, hosts), strict=True)
    runs = [FleetRun(host=host, directory=place) for host, place in places]
    fleet = Fleet(directory, FleetManifest(name=directory.name, runs=runs))
    fleet.save()
    return fleet


def again(fleet: Fleet, hosts: Sequence[str]) -> Fleet:
    """The fleet with a new run directory for each of these hosts."""
    places = dict(zip(hosts, directory_names(fleet.directory, hosts), strict=True))
    runs = [
        FleetRun(host=run.host, directory=places[run.host]) if run.host in places else run
        for run in fleet.manifest.runs
    ]
    others = [finding for finding in fleet.manifest.preflight if finding.host not in hosts]
    renewed = fleet.updated(runs=runs, verdict=None, outliers=[], preflight=others)
    renewed.save()
    return renewed


def directory_names(fleet: Path, hosts: Sequence[str]) -> list[str]:
    """A free run name per host: the host's name, with -2, -3 … if taken."""
    names: dict[str, None] = {}
    for host in hosts:
        base = re.sub(r"[^A-Za-z0-9._-]", "-", host).lstrip(".")[:100] or "node"
        free = (name for name in numbered(base) if name not in names and not os.path.lexists(fleet / name))
        names[next(free)] = None
    return list(names)


@contextlib.contextmanager
def held_directory(directory: Path, key: str = "--resume") -> Iterator[None]:
    """Lock the directory of several runs against other processes."""
    place = str(directory)
    try:
        heartbeat = Heartbeat(directory)
    except BlockingIOError:
        expected, fix = "runs that have ended", f"steelyard runs show {shlex.quote(place)}"
        raise InputError(f"{place} is still running", key=key, value=place, expected=expected, next=fix) from None
    except OSError as reason:
        problem = f"{place} cannot be locked: its heartbeat file cannot be opened ({reason.strerror})"
        expected, fix = "a directory made by this user", f"the same command without {key}, for a new one"
        raise InputError(problem, key=key, value=place, expected=expected, next=fix) from None
    try:
        yield
    finally:
        heartbeat.stop(directory)


def find_fleet(name: str, out: Path) -> Fleet | None:
    """The fleet of a path, or of a name under --out; None if it is not a fleet."""
    places = (directory for directory in (Path(name), out / name) if os.path.lexists(directory / FILE))
    return next(map(load_fleet, places), None)


def fleets_under(out: Path) -> list[Path]:
    """Fleet directories directly under `out`, sorted by name."""
    return holding(FILE, out)


def repeats_under(out: Path) -> Iterator[Path]:
    """Runs in the directories one or two levels under `out` that are neither run, fleet nor suite, sorted by name.

    Runs that were made again are left out.
    """
    for directory in _plain_directories(out):
        yield from runs_under(directory)
        for below in _plain_directories(directory):
            if below.name != EARLIER:
                yield from runs_under(below)


def _plain_directories(directory: Path) -> Iterator[Path]:
    for path in folders_of(directory):
        plain = path.is_dir() and not path.is_symlink()
        if plain and not any(os.path.lexists(path / name) for name in (MANIFEST, FILE)) and not is_suite(path):
            yield path


def is_suite(directory: Path) -> bool:
    """Whether a directory is a suite; repeats of one job have a suite.json too, but no axes."""
    try:
        content = read_json(directory / SUITE)
    except (OSError, ValueError):
        return os.path.lexists(directory / SUITE)
    return not isinstance(content, dict) or content.get("axes") != []


def load_fleet(directory: Path) -> Fleet:
    """Read fleet.json; refuse a later schema version."""
    try:
        return Fleet(directory, read_record(directory / FILE, FleetManifest, SCHEMA_VERSION, "FLEET"))
    except OSError as reason:
        problem = f"{place_of(directory / FILE)} cannot be read ({reason})"
        raise InputError(problem, key="FLEET", value=str(directory)) from None
