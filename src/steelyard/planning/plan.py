"""The plan of a job: what each node runs, with which files and variables, and what to expect of it."""

from typing import Any

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class PlannedFile(_Document):
    """A file written before the command starts."""

    path: str
    """Below the run directory."""
    content: Any
    """Text, or a value written as JSON."""


class ContainerPlan(_Document):
    """The container of one node."""

    engine: str
    image: str
    name: str
    argv: list[str]
    """The whole command the host executes, the node's own argv at its end."""


class NodePlan(_Document):
    """What one node executes, in the run directory or in a container."""

    host: str
    rank: int
    argv: list[str]
    env: dict[str, str]
    """Added to the node's own environment, or all of the container's."""
    files: list[PlannedFile]
    container: ContainerPlan | None = None
    directory: str | None = None
    """Control directory of the run on the host, whose `job` holds the planned files; null for the run directory."""
    workdir: str | None = None
    """Where the command starts, on the host or in the container; null for where its files lie."""
    secrets: dict[str, str] = {}
    """What reaches the program in a file of its own, and the file of the host each is copied from."""
    env_sources: dict[str, str] = {}
    """Where each variable comes from: config, the NIC's family, the framework."""


class Expected(_Document):
    """What the arithmetic says of the run before it starts; null where it cannot say."""

    parameters: int
    flops_per_token: float
    """FLOP of forward and backward, by the causal formula."""
    tokens_per_step: int
    memory_gib_per_gpu: float
    memory_gib_by_component: dict[str, float]
    usable_gib_per_gpu: float | None
    """What the card holds."""
    first_loss: float
    loss_floor: float | None
    """Entropy rate of the data in nats a token; null for a corpus."""
    peak_tflops_per_gpu: float | None
    seconds_at_peak: float | None
    """Time of all steps at the dense peak: no run is faster."""


class Job(_Document):
    """The size of what is planned."""

    gpu: str
    nodes: int
    """Machines of one job."""
    gpus_per_node: int
    steps: int
    global_batch_size: int
    micro_batch_size: int
    sequence_length: int
    data_parallel_size: int
    layout: str
    """Parallel sizes above 1, in words."""
    precision: str
    """What the matrix products are done in."""


class Value(_Document):
    """One value of the experiment and what decided it."""

    value: Any
    source: str


class Allowed(_Document):
    """A lint error that the platform's `allow` permits."""

    code: str
    pointer: str
    """Where it stands in the config, as a JSON pointer."""
    message: str


class Plan(_Document):
    """plan.json, and what `steelyard plan --json` prints."""

    schema_version: int = SCHEMA_VERSION
    experiment: str
    platform: str
    framework: str
    fleet: bool = False
    """Whether each node is a run of its own; else they are one job."""
    job: Job
    nodes: list[NodePlan]
    expected: Expected
    values: dict[str, Value] = {}
    """The whole experiment by dotted key, each value with its source."""
    thresholds: list[str] = []
    """What the run must keep."""
    allowed: list[Allowed] = []
    """What lint would have refused and the platform allows."""
