"""The plan of a job: what each node runs, with files and variables, and what to expect."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from steelyard.records import AllowedProblem

SCHEMA_VERSION = 1


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class PlannedFile(_Document):
    """A file written before the command starts."""

    path: str
    """Below the run directory."""
    content: Any
    """Text, or a value that is written as JSON."""


class ContainerPlan(_Document):
    """The container of one node."""

    engine: str
    image: str
    name: str
    argv: list[str]
    """The whole command on the host, with the argv of the node at its end."""


class NodePlan(_Document):
    """The command of one node, in the run directory or in a container."""

    host: str
    rank: int
    argv: list[str]
    env: dict[str, str]
    """Variables in addition to those of the host, or all variables of the container."""
    files: list[PlannedFile]
    container: ContainerPlan | None = None
    directory: str | None = None
    """Control directory of the run on the host; the planned files are in its `job`. Null for the run directory."""
    workdir: str | None = None
    """Working directory of the command; null for the directory of its files."""
    secrets: dict[str, str] = {}
    """Secrets by name: the program gets a copy of this host file."""
    env_sources: dict[str, str] = {}
    """Source of each variable: config, NIC family or framework."""


class Expected(_Document):
    """Figures that are computed before the run; null if unknown."""

    parameters: int
    flops_per_token: float
    """FLOPs of forward and backward pass, with causal attention."""
    tokens_per_step: int
    memory_gib_per_gpu: float
    memory_gib_by_component: dict[str, float]
    usable_gib_per_gpu: float | None
    """Memory of the GPU."""
    first_loss: float
    loss_floor: float | None
    """Entropy rate of the data in nats per token; null for a corpus."""
    peak_tflops_per_gpu: float | None
    seconds_at_peak: float | None
    """Time of all steps at the dense peak: the lower limit."""


class Job(_Document):
    """The size of the job."""

    gpu: str
    nodes: int
    """Number of nodes of one job."""
    gpus_per_node: int
    steps: int
    global_batch_size: int
    micro_batch_size: int
    sequence_length: int
    data_parallel_size: int
    layout: str
    """Parallel sizes above 1, as text."""
    precision: str
    """Precision of the matrix products."""


class Value(_Document):
    """One value of the experiment, with its source."""

    value: Any
    source: str


class Plan(_Document):
    """plan.json, and what `steelyard plan --json` prints."""

    schema_version: int = SCHEMA_VERSION
    experiment: str
    platform: str
    framework: str
    fleet: bool = False
    """Whether each node is its own run; otherwise all nodes are one job."""
    job: Job
    nodes: list[NodePlan]
    expected: Expected
    values: dict[str, Value] = {}
    """All values of the experiment by dotted key, with their sources."""
    thresholds: list[str] = []
    """Limits that the run must meet."""
    allowed: list[AllowedProblem] = []
    """Problems of the config that the user allows."""
