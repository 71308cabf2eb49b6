"""One selection of a config file, in the structure of an experiment file, with the place of each value."""

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
    """One value in a file, with its place."""

    value: Any
    path: PointerPath
    assumed: bool = False
    """Whether the value is a placeholder, and its example is used so that the rest can be checked."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One threshold and its place."""

    threshold: Threshold
    path: PointerPath
    example: bool = False
    """Whether it is only the example of a placeholder."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One selection of a file: the input of later stages."""

    file: Path
    sha256: str
    content: Mapping[str, Any]
    """In the structure of an experiment file; at most one platform is used."""
    platform: str | None
    """The selected platform in `content`."""
    family: Family = "steelyard"
    paths: Mapping[str, PointerPath] = field(default_factory=dict)
    """The place of a dotted key's value, if the key does not name it."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    """Sources of values that are not in the file."""
    problems: tuple[Problem, ...] = ()
    """Problems found while reading."""
    section: Literal["single_node", "multi_node"] | None = None
    both_sections: bool = False
    """Whether the file has the other section too, so that `config` cannot tell which one is meant."""
    copies: int | None = 1
    """Number of nodes that each run their own job; None if the file does not have it."""
    cell: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the cell of a suite, by dotted key."""
    nodes_asked: int | None = None
    """The node count from the command line; it replaces that of the platform."""
    nodes_open: bool = False
    """Whether the node count is not filled in, so that arithmetic over all GPUs is not possible."""
    config: Mapping[str, Stated] = field(default_factory=dict)
    """Values of `config`, by the names in the file."""
    params: Mapping[str, Stated] = field(default_factory=dict)
    """Values of the selected model and GPU, by the names in the file."""
    env: Mapping[str, Stated] = field(default_factory=dict)
    """Environment variables of the container or the program."""
    env_copies: tuple[tuple[str, Stated], ...] = ()
    """Variables that appear again at another place."""
    bounds: tuple[Bound, ...] = ()
    params_path: PointerPath = ()
    """The place of `params`."""
    model_key: str | None = None
    """The name of the model in the file."""
    example_nodes: int | None = None
    """The node count of the file's examples."""
