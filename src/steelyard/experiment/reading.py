"""What a config file says of one selection of it, in the shape of an experiment file, each value with its place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from steelyard.experiment.problems import Problem
from steelyard.experiment.sources import Source
from steelyard.experiment.thresholds import Threshold

PointerPath = tuple[str, ...]
"""Keys from the root of the file to a value."""

Family = Literal["steelyard", "megatron", "jax"]


@dataclass(frozen=True, slots=True)
class Stated:
    """One fact as a file states it."""

    value: Any
    path: PointerPath
    assumed: bool = False
    """The file leaves it open, and its own example stands in so that the rest can be looked at."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One threshold and where it stands."""

    threshold: Threshold
    path: PointerPath
    example: bool = False
    """A suggestion beside a place that is to be filled."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One selection of a file; what the stages after it see of the file."""

    file: Path
    sha256: str
    content: Mapping[str, Any]
    """In the shape of an experiment file, with at most one platform that matters."""
    platform: str | None
    """Which of `content`'s platforms."""
    family: Family = "steelyard"
    paths: Mapping[str, PointerPath] = field(default_factory=dict)
    """Where the value of a dotted key stands in the file, where that is not the key's own place."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    """Where a value comes from that the file does not state."""
    problems: tuple[Problem, ...] = ()
    """What was wrong while reading."""
    section: Literal["single_node", "multi_node"] | None = None
    both_sections: bool = False
    """Whether the file has the other section too, so that nothing general can say which is meant."""
    copies: int | None = 1
    """Nodes that each run the job by themselves; None where the file leaves it open."""
    nodes_asked: int | None = None
    """What the command line says of the node count, in place of the platform's own."""
    nodes_open: bool = False
    """How many nodes the job spans is left open, so arithmetic over all GPUs means nothing yet."""
    config: Mapping[str, Stated] = field(default_factory=dict)
    """What the file's general part states, by its own names."""
    params: Mapping[str, Stated] = field(default_factory=dict)
    """What the selected model and GPU are given, by the file's own names."""
    env: Mapping[str, Stated] = field(default_factory=dict)
    """Variables the file gives the container or the program."""
    env_copies: tuple[tuple[str, Stated], ...] = ()
    """Variables it gives once more, at another place."""
    bounds: tuple[Bound, ...] = ()
    params_path: PointerPath = ()
    """Where `params` stand."""
    model_key: str | None = None
    """The file's own name of the model."""
    example_nodes: int | None = None
    """The node count the file's examples were made for."""
