"""fleet.json: which runs a fleet is made of, the latest of each host, and what they came to together."""

import contextlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from steelyard.errors import InputError
from steelyard.files import replace_file
from steelyard.records.manifest import FILE as MANIFEST
from steelyard.records.manifest import Failure, Record, RunStatus, read_record
from steelyard.records.reader import Run, folders_of, holding, load, runs_under
from steelyard.records.writer import Heartbeat, beats, new_directory, numbered

SCHEMA_VERSION = 1
FILE = "fleet.json"

Word = Literal["pass", "fail", "unknown"]


class FleetRun(Record):
    """The latest run of one host."""

    host: str
    directory: str = Field(pattern=r"\A[^./\x00][^/\x00]*\z")
    """Its run directory, below the fleet's; not there where the fleet was stopped before its turn came."""
    status: RunStatus = "running"
    verdict: Word | None = None
    failure: Failure | None = None


class Outlier(Record):
    """A figure of one run that is unlike those of the others."""

    host: str
    metric: str
    value: float
    median: float
    """Of all runs that completed."""
    share: float
    """How far the value is from the median, as a part of it."""
    robust_z: float | None
    """0.6745 x (value - median) / MAD; null where most runs have the same value, so that it has no bound."""

    @property
    def words(self) -> str:
        """What stands out, in a sentence."""
        side, z = "above" if self.share > 0 else "below", self.robust_z
        score = "most runs agree to the last digit" if z is None else f"robust z {z:.1f}"
        return (
            f"{self.host}: {self.metric} {self.value:,.5g} is {abs(self.share):.1%} {side} "
            f"the median {self.median:,.5g} ({score})"
        )


class PreflightFinding(Record):
    """What preflight found wrong with a host of the fleet, by itself or against the others."""

    host: str | None
    """Null where it is about the machine that asked."""
    check: str
    status: Word
    required: bool
    """Whether it kept the host from running."""
    message: str
    fix: str | None = None

    @property
    def words(self) -> str:
        return f"{self.host or 'this machine'}: {self.check}: {self.message}"


class FleetManifest(Record):
    """Written when a fleet starts and when it has ended; between the two its runs speak for themselves."""

    schema_version: int = SCHEMA_VERSION
    name: str
    runs: list[FleetRun] = Field(min_length=1)
    verdict: Word | None = None
    """The worst of its runs; null where they were not judged."""
    outliers: list[Outlier] = Field(default_factory=list)
    preflight: list[PreflightFinding] = Field(default_factory=list)
    """What failed or blocked when all hosts were asked before the first run; empty where they were not asked."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet directory and its manifest."""

    directory: Path
    manifest: FleetManifest

    @property
    def is_running(self) -> bool:
        return beats(self.directory)

    def runs(self) -> list[Run | None]:
        """The run of each host as it stands on disk; None where it never began."""
        return [self._run(self.directory / run.directory) for run in self.manifest.runs]

    def _run(self, place: Path) -> Run | None:
        with self.reading(place):
            return load(place) if os.path.lexists(place / MANIFEST) else None

    @contextlib.contextmanager
    def reading(self, place: Path) -> Iterator[None]:
        """One run that cannot be read says how the others can be without it."""
        try:
            yield
        except InputError as unreadable:
            aside = shlex.join(["mv", str(place), f"{self.directory}.{place.name}.unreadable"])
            fix = f"{aside}; the fleet then counts it as not begun (--rerun-failed runs it)"
            unreadable.next = unreadable.next or fix
            raise

    def refreshed(self, runs: Sequence[Run | None]) -> "Fleet":
        """With the status of each run as it stands; one that never began waits for its turn while the fleet runs."""
        waiting: RunStatus = "running" if self.is_running else "interrupted"
        states = [(run.status, run.manifest.failure) if run else (waiting, None) for run in runs]
        entries = [
            entry.model_copy(update={"status": status, "failure": failure})
            for entry, (status, failure) in zip(self.manifest.runs, states, strict=True)
        ]
        return self.updated(runs=entries)

    def updated(self, **values: Any) -> "Fleet":
        """With other values in its manifest."""
        return Fleet(self.directory, self.manifest.model_copy(update=values))

    def save(self) -> None:
        """Replace fleet.json whole."""
        replace_file(self.directory / FILE, self.manifest.model_dump_json(indent=2) + "\n")


def new_fleet(out: Path, name: str | None, own: str, hosts: Sequence[str]) -> Fleet:
    """Make the directory of a fleet, `own` its name where none is asked for, with a place for each host's run."""
    directory = new_directory(out, name, own)
    places = zip(hosts, directory_names(directory, hosts), strict=True)
    runs = [FleetRun(host=host, directory=place) for host, place in places]
    fleet = Fleet(directory, FleetManifest(name=directory.name, runs=runs))
    fleet.save()
    return fleet


def again(fleet: Fleet, hosts: Sequence[str]) -> Fleet:
    """The same fleet with a new run directory for each of these hosts."""
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
    """A free name for a run of each host: the host's own, with -2, -3 … where there was one before."""
    names: dict[str, None] = {}
    for host in hosts:
        base = re.sub(r"[^A-Za-z0-9._-]", "-", host).lstrip(".")[:100] or "node"
        free = (name for name in numbered(base) if name not in names and not os.path.lexists(fleet / name))
        names[next(free)] = None
    return list(names)


@contextlib.contextmanager
def held(fleet: Fleet) -> Iterator[None]:
    """Keep others from running in the same fleet."""
    key, place = "--rerun-failed", str(fleet.directory)
    try:
        heartbeat = Heartbeat(fleet.directory)
    except BlockingIOError:
        expected = "a fleet that has ended"
        raise InputError(f"{place} is still running", key=key, value=place, expected=expected) from None
    except OSError as reason:
        problem = f"{place} cannot be locked: its heartbeat cannot be opened ({reason.strerror})"
        expected, fix = "a fleet directory of our own", f"the same command without {key}, for a new fleet"
        raise InputError(problem, key=key, value=place, expected=expected, next=fix) from None
    try:
        yield
    finally:
        heartbeat.stop(fleet.directory)


def find_fleet(name: str, out: Path) -> Fleet | None:
    """FLEET as the command line takes it: a path, or a name under --out; None where it is none."""
    places = (directory for directory in (Path(name), out / name) if os.path.lexists(directory / FILE))
    return next(map(load_fleet, places), None)


def fleets_under(out: Path) -> list[Path]:
    """Fleet directories directly under `out`, by name."""
    return holding(FILE, out)


def repeats_under(out: Path) -> Iterator[Path]:
    """Run directories of the directories under `out`, or two below it, that are neither a run nor a fleet, by name."""
    for directory in _plain_directories(out):
        yield from runs_under(directory)
        for below in _plain_directories(directory):
            yield from runs_under(below)


def _plain_directories(directory: Path) -> Iterator[Path]:
    for path in folders_of(directory):
        plain = path.is_dir() and not path.is_symlink()
        if plain and not any(os.path.lexists(path / name) for name in (MANIFEST, FILE)):
            yield path


def load_fleet(directory: Path) -> Fleet:
    """Read fleet.json, refusing what a later version wrote."""
    try:
        return Fleet(directory, read_record(directory / FILE, FleetManifest, SCHEMA_VERSION, "FLEET"))
    except OSError as reason:
        problem = f"{directory / FILE}: cannot be read ({reason})"
        raise InputError(problem, key="FLEET", value=str(directory)) from None
