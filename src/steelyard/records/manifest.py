"""run.json: everything about a run except its steps."""

import reprlib
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steelyard.errors import InputError
from steelyard.experiment.partial import PartialExperiment
from steelyard.experiment.problems import spelt
from steelyard.files import place_of
from steelyard.hardware.catalog import CATALOG, CPU, Gpu, lookup
from steelyard.records.strict import read_json

SCHEMA_VERSION = 1
FILE = "run.json"
UNNAMED = "GPU"
"""A GPU without a name whose figures are stated."""

RunStatus = Literal["running", "completed", "ended", "failed", "interrupted"]
"""`ended`: a log that stops without an end marker where no plan is known."""


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


Document = TypeVar("Document", bound=Record)


class RunPlatform(Record):
    """The platform of the run."""

    name: str
    """The platform's name in the file, or else the GPU's name."""
    gpu: str | None
    """The GPU's name in the catalog; null on a CPU and for a GPU that is not in the catalog."""
    gpu_name: str | None
    """The name that the platform or the driver uses; null if not recorded."""
    nodes: int | None = Field(gt=0, le=10**6)
    gpus_per_node: int | None = Field(gt=0, le=10**6)
    world_size: int | None = Field(gt=0, le=10**9)
    """GPUs of all nodes; null, like the two fields above, if not recorded."""
    peak_tflops_per_gpu: float | None
    """The dense peak of the precision used; null if unknown."""
    gpu_by: str | None = None
    """Who names the GPU: --gpu, log, folder, config, or driver; null if not recorded."""
    peaks_tflops: dict[str, float] = Field(default_factory=dict)
    """Dense peaks per GPU by precision, as of the record; empty if unknown."""
    peaks_by: str | None = None
    """Who states the peaks: catalog, --gpu-peak, or a file gpus.yaml."""
    memory_gib: float | None = None
    """Memory per GPU, as of the record; null if unknown."""
    memory_by: str | None = None
    """Who states the memory: catalog, --gpu-memory, or a file gpus.yaml."""

    @property
    def card(self) -> Gpu | None:
        """The GPU with the recorded figures, so that each machine judges alike; of earlier records, the catalog's."""
        name = self.gpu or self.gpu_name
        listed = lookup(name) if name else None
        if self.gpu_name == CPU or not (self.peaks_tflops or self.memory_gib):
            return listed
        stated = self.peaks_by if self.peaks_by != CATALOG else None
        vendor, variants = (listed.vendor, listed.variants) if listed else ("", ())
        peaks, memory = self.peaks_tflops, self.memory_gib
        return Gpu(name or UNNAMED, vendor, peaks, memory, variants=variants, stated_by=stated)

    @property
    def words(self) -> str:
        """Number of nodes and GPUs, and the GPU's name."""
        unit = "CPU rank" if self.gpu_name == CPU else "GPU"
        if self.nodes is not None and self.gpus_per_node is not None:
            gpus = "CPU ranks" if self.gpu_name == CPU else self.gpu_name or "GPUs of unknown type"
            return f"{self.nodes} node{'s' * (self.nodes != 1)} x {self.gpus_per_node} {gpus}"
        if self.world_size is None:
            return f"{self.gpu_name}, {unit} count unknown" if self.gpu_name else "GPU type and count unknown"
        count = f"{self.world_size:,} {unit}{'s' * (self.world_size != 1)}"
        if self.gpu_name == CPU:
            return count
        return f"{count} ({self.gpu_name})" if self.gpu_name else f"{count} of unknown type"


class Provenance(Record):
    """How this record was made: by which version, from what, where and when."""

    steelyard: str
    """Version of Steelyard."""
    command: list[str]
    file: str | None
    """The experiment file."""
    sha256: str | None
    """SHA-256 of the experiment file."""
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
    """reach, lock, preflight, image, prepare, start, train or collect; null for an imported run."""
    file: str | None = None
    line: int | None = None


class LogFile(Record):
    """One file of an imported run."""

    path: str
    """As typed."""
    kept: str
    """Its copy in the run directory."""
    lines: int
    steps: int
    unread: int
    """Unreadable step lines."""

    @property
    def words(self) -> str:
        lines = f"{self.lines:,} line{'s' * (self.lines != 1)}, " if self.lines else ""  # a table has rows instead
        unread = f", {self.unread:,} unreadable step line{'s' * (self.unread != 1)}" if self.unread else ""
        return f"{lines}{self.steps:,} step record{'s' * (self.steps != 1)}{unread}"


class LoggedValue(Record):
    """The place of a value in a log."""

    file: str
    line: int
    value: Any = None
    """Only for settings without an experiment key; the experiment contains all others."""


class Override(Record):
    """A setting that replaces the value in the log."""

    value: Any
    logged: Any
    file: str
    line: int

    @property
    def words(self) -> str:
        return f"{spelt(self.value)} (log: {spelt(self.logged)}, {self.file}:{self.line})"


class RunInFiles(Record):
    """One of several runs in the same files."""

    number: int
    first_line: int
    last_line: int
    first_step: int | None
    """Null if it never stepped."""
    last_step: int | None

    @property
    def words(self) -> str:
        if self.first_step is None:
            return "no steps"
        if self.first_step == self.last_step:
            return f"step {self.first_step:,}"
        return f"steps {self.first_step:,} to {self.last_step:,}"


class Ingested(Record):
    """How an imported run was read."""

    dialect: str
    """The dialect of the step lines."""
    era: str
    """Versions that print such lines; empty if unknown."""
    others: list[str] = Field(default_factory=list)
    """Further dialects found in the same files."""
    files: list[LogFile]
    first_moment: str | None = None
    """Timestamp of the first step in the log."""
    last_moment: str | None = None
    said: dict[str, LoggedValue] = Field(default_factory=dict)
    """The log line of each logged setting, by dotted key."""
    overridden: dict[str, Override] = Field(default_factory=dict)
    """Settings that replace logged values (`--set` with `--override`), by dotted key."""
    run: int = 1
    """Which of the runs in the files it is."""
    runs: list[RunInFiles] = Field(default_factory=list)
    """All runs in the files, if there are several."""

    def whole(self, key: str) -> int | None:
        """A logged count without an experiment key."""
        logged = self.said.get(key)
        return logged.value if logged is not None and type(logged.value) is int else None


class AllowedProblem(Record):
    """A problem of the config that did not stop the run, because the user allows its code."""

    code: str
    pointer: str
    """Its place in the config, as a JSON pointer."""
    message: str
    by: str = "config"
    """Who allows it: --allow, or config."""

    @property
    def words(self) -> str:
        return f"{self.code} at {self.pointer} (by {self.by}): {self.message}"


class RunManifest(Record):
    """The content of run.json."""

    schema_version: int = SCHEMA_VERSION
    name: str
    status: RunStatus = "running"
    """Written first, replaced last. `running` without a heartbeat means interrupted."""
    framework: str
    experiment: PartialExperiment
    """The resolved experiment, or what the log contains of it."""
    sources: dict[str, str]
    """The source of each value, by dotted key, as the text of a `Source`."""
    platform: RunPlatform
    expected: dict[str, Any]
    provenance: Provenance
    steps: int | None = None
    """Number of step records, once the run has ended."""
    exit_status: int | None = None
    """Exit status of the training program; a negative number is a signal."""
    failure: Failure | None = None
    ingested: Ingested | None = None
    """Only for imported runs; null for our own."""
    job: str | None = None
    """Label of its containers and lock on its hosts; null if it ran as a child process of Steelyard."""
    hosts: list[str] = Field(default_factory=list)
    """Hosts in the order of ranks; empty if unknown."""
    arguments: dict[str, str] = Field(default_factory=dict)
    """Arguments that the training program printed and that determine no key, by name; without secrets."""
    software: dict[str, str] = Field(default_factory=dict)
    """Versions and device that the training program reported."""
    allowed: list[AllowedProblem] = Field(default_factory=list)
    """Problems of the config that the user allowed."""

    @property
    def began(self) -> str:
        """Start of the run; of an imported run, the timestamp of the first step."""
        return (self.ingested.first_moment if self.ingested else None) or self.provenance.started

    @property
    def ended(self) -> str | None:
        """End of the run; of an imported run, the timestamp of the last step."""
        return (self.ingested.last_moment if self.ingested else None) or self.provenance.ended


def not_a_run(path: Path) -> InputError:
    """The error for a directory without run.json."""
    complaint = f"{place_of(path)} is not a run ({FILE} missing)"
    return InputError(complaint, key="RUN", value=str(path), next="steelyard runs list")


def load_manifest(run: Path) -> RunManifest:
    """Read run.json; refuse a later schema version."""
    try:
        return read_record(run / FILE, RunManifest, SCHEMA_VERSION, "RUN")
    except (FileNotFoundError, NotADirectoryError):
        raise not_a_run(run) from None


def read_record(path: Path, model: type[Document], latest: int, key: str) -> Document:
    """Read one of our documents. InputError names the first problem; OSError if the file is missing."""
    try:
        raw = read_json(path)
    except ValueError as reason:
        raise InputError(f"{place_of(path)} cannot be read ({reason})", key=key, value=str(path.parent)) from None
    return checked_record(path, raw, model, latest)


def checked_record(path: Path, raw: Any, model: type[Document], latest: int) -> Document:
    """One of our documents from parsed JSON; `path` is its place, for errors."""
    checked_version(path, raw, latest)
    try:
        return model.model_validate(raw)
    except ValidationError as failed:
        first = failed.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))[:200]
        raise InputError(f"{place_of(path)}: {place}: {first['msg']}", key=place, value=None) from None


def checked_version(path: Path, raw: Any, latest: int) -> int:
    """The schema version of a document; InputError if unknown."""
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if type(version) is int and 1 <= version <= latest:
        return version
    shown = reprlib.repr(version)
    value, fix = version if isinstance(version, int | float) else shown, "pip install --upgrade steelyard"
    problem = f"{place_of(path)}: schema_version is {shown}"
    raise InputError(problem, key="schema_version", value=value, expected=f"1 to {latest}", next=fix)
