"""The arguments of `ingest`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from steelyard.configs.gpus import StatedGpus
from steelyard.experiment import sources
from steelyard.experiment.resolve import Resolved
from steelyard.ingestion.sources import MOST_UNPACKED
from steelyard.records import Event, Step

Observer = Callable[[Step | Event], None]
RunChoice = int | Literal["last", "all"]
"""Which run of files that hold several: its number from 1, the last one, or all."""


@dataclass(frozen=True, slots=True)
class Request:
    paths: Sequence[str]
    out: Path
    name: str | None
    command: Sequence[str]
    framework: str | None = None
    config: Resolved | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    setting_sources: Mapping[str, sources.Source] = field(default_factory=dict)
    override: bool = False
    """Whether settings replace values in the log."""
    gpu: str | None = None
    folder_gpu: str | None = None
    """The GPU that a folder is named after, for logs that neither --gpu nor the log itself names."""
    gpus: int | None = None
    nodes: int | None = None
    stated: StatedGpus = field(default_factory=StatedGpus)
    columns: Mapping[str, str] | None = None
    follow: bool = False
    run: RunChoice = "last"
    most_unpacked: int = MOST_UNPACKED
    observe: Observer = lambda record: None
