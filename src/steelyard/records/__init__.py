"""The run directory: written as a run happens, read by every stage after it."""

from steelyard.records.manifest import Failure, Provenance, RunManifest, RunPlatform
from steelyard.records.reader import Run, events, find, load, runs_under, steps
from steelyard.records.step import Event, Evidence, Step
from steelyard.records.writer import RunWriter, create_run, now, run_name

__all__ = [
    "Event",
    "Evidence",
    "Failure",
    "Provenance",
    "Run",
    "RunManifest",
    "RunPlatform",
    "RunWriter",
    "Step",
    "create_run",
    "events",
    "find",
    "load",
    "now",
    "run_name",
    "runs_under",
    "steps",
]
