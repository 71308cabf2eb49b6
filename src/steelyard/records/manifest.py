"""run.json: all of a run but its steps."""

import reprlib
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steelyard.errors import InputError
from steelyard.experiment.partial import PartialExperiment
from steelyard.records.strict import read_json

SCHEMA_VERSION = 1
FILE = "run.json"

RunStatus = Literal["running", "completed", "failed", "interrupted"]


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


Document = TypeVar("Document", bound=Record)


class RunPlatform(Record):
    """Where the run took place."""

    name: str
    """The file's name for the platform, or the GPU's where it names none."""
    gpu: str | None
    """The catalog's name of the GPU; null on a CPU and for a GPU the catalog does not know."""
    gpu_name: str | None
    """What the platform or the driver calls it; null where nobody said."""
    nodes: int | None = Field(gt=0, le=10**6)
    gpus_per_node: int | None = Field(gt=0, le=10**6)
    world_size: int | None = Field(gt=0, le=10**9)
    """GPUs of all nodes; null, like the two before it, where nobody said."""
    peak_tflops_per_gpu: float | None
    """The dense peak of the precision used; null where none is known."""

    @property
    def words(self) -> str:
        """How many of what."""
        name = self.gpu_name or "GPUs of unknown kind"
        if self.gpu_name == "cpu" and self.nodes is None:
            return f"CPU, {self.world_size or 'an unknown number of'} ranks"
        if self.nodes is None or self.gpus_per_node is None:
            return f"{self.world_size or 'an unknown number'} of {name}" if self.gpu_name or self.world_size else name
        return f"{self.nodes} node{'s' * (self.nodes != 1)} x {self.gpus_per_node} {name}"


class Provenance(Record):
    """Who made this record, from what, where and when."""

    steelyard: str
    """The version that wrote it."""
    command: list[str]
    file: str | None
    """The experiment file."""
    sha256: str | None
    """Of the experiment file."""
    host: str
    python: str
    system: str
    started: str
    ended: str | None = None


class Failure(Record):
    """Why a run did not complete."""

    kind: str
    """oom, nccl, xid, error, exit, signal …"""
    message: str
    node: str | None = None
    phase: str | None = None
    """What was being done: reach, lock, preflight, image, prepare, start, train, collect; null of a foreign run."""
    file: str | None = None
    line: int | None = None


class LogFile(Record):
    """One file a foreign run was read from."""

    path: str
    """As it was named."""
    kept: str
    """Its copy in the run directory."""
    lines: int
    steps: int
    unread: int
    """Lines that look like a step and could not be read."""

    @property
    def words(self) -> str:
        lines = f"{self.lines:,} lines, " if self.lines else ""  # a table is read by rows
        unread = f", {self.unread:,} step lines not readable" if self.unread else ""
        return f"{lines}{self.steps:,} steps{unread}"


class LoggedValue(Record):
    """Where in a log a value was read."""

    file: str
    line: int
    value: Any = None
    """Of what no experiment has a key for; of all else the experiment has it."""


class Ingested(Record):
    """How a foreign run was read."""

    dialect: str
    """Whose lines they are."""
    era: str
    """Which versions print such lines; empty where they do not tell."""
    others: list[str] = Field(default_factory=list)
    """Further dialects found in the same files."""
    files: list[LogFile]
    first_moment: str | None = None
    """When the first step was printed, by the log's own clock."""
    last_moment: str | None = None
    said: dict[str, LoggedValue] = Field(default_factory=dict)
    """The line that says a value, by dotted key."""


class RunManifest(Record):
    """check, compare and report start here."""

    schema_version: int = SCHEMA_VERSION
    name: str
    status: RunStatus = "running"
    """Written first, replaced last: one still `running` without its heartbeat is interrupted."""
    framework: str
    experiment: PartialExperiment
    """The experiment as resolved, or as far as a log says it."""
    sources: dict[str, str]
    """Where each value comes from, by dotted key, as the text of a `Source`."""
    platform: RunPlatform
    expected: dict[str, Any]
    provenance: Provenance
    steps: int | None = None
    """Step records, once the run has ended."""
    exit_status: int | None = None
    """Of the training program; negative is a signal."""
    failure: Failure | None = None
    ingested: Ingested | None = None
    """Of a run that was read from a foreign log or result; null for one we ran."""
    job: str | None = None
    """What marks it on its hosts: its containers' label and its lock; null where it ran beside Steelyard."""
    hosts: list[str] = Field(default_factory=list)
    """The machines it ran on, in the order of its ranks; none where that is not known."""
    software: dict[str, str] = Field(default_factory=dict)
    """What the training program said of itself: versions, device."""

    @property
    def began(self) -> str:
        """When the run began: by its log's own clock where it was read from one."""
        return (self.ingested.first_moment if self.ingested else None) or self.provenance.started

    @property
    def ended(self) -> str | None:
        """When it ended, likewise."""
        return (self.ingested.last_moment if self.ingested else None) or self.provenance.ended


def not_a_run(path: Path) -> InputError:
    """What to say of a path that is none."""
    return InputError(f"{path} is not a run: it has no {FILE}", key="RUN", value=str(path), next="steelyard runs list")


def load_manifest(run: Path) -> RunManifest:
    """Read run.json, refusing what a later version wrote."""
    try:
        return read_record(run / FILE, RunManifest, SCHEMA_VERSION, "RUN")
    except (FileNotFoundError, NotADirectoryError):
        raise not_a_run(run) from None


def read_record(path: Path, model: type[Document], latest: int, key: str) -> Document:
    """A document of ours; the first thing that is wrong with it, and an OSError where there is none."""
    try:
        raw = read_json(path)
    except ValueError as reason:
        raise InputError(f"{path}: cannot be read ({reason})", key=key, value=str(path.parent)) from None
    checked_version(path, raw, latest)
    try:
        return model.model_validate(raw)
    except ValidationError as failed:
        first = failed.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))[:200]
        raise InputError(f"{path}: {place}: {first['msg']}", key=place, value=None) from None


def checked_version(path: Path, raw: Any, latest: int) -> int:
    """The version of a document, refused where it is none that we know."""
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if type(version) is int and 1 <= version <= latest:
        return version
    shown = reprlib.repr(version)
    value, fix = version if isinstance(version, int | float) else shown, "pip install --upgrade steelyard"
    problem = f"{path}: schema_version is {shown}"
    raise InputError(problem, key="schema_version", value=value, expected=f"1 to {latest}", next=fix)
