"""The run directory: written as a run happens, read by every stage after it."""

from steelyard.records.columns import Column, StepTable, node_tables, table, tables
from steelyard.records.fleet import FILE as FLEET
from steelyard.records.manifest import FILE as MANIFEST
from steelyard.records.manifest import Failure, Provenance, RunManifest, RunPlatform
from steelyard.records.naming import new_directory, stamped, unstamped
from steelyard.records.reader import Run, events, find, first_and_last, load, runs_under, steps
from steelyard.records.step import Event, Evidence, Step
from steelyard.records.strict import read_json
from steelyard.records.writer import RunWriter, create_run, now, run_name

__all__ = [
    "FLEET",
    "MANIFEST",
    "Column",
    "Event",
    "Evidence",
    "Failure",
    "Provenance",
    "Run",
    "RunManifest",
    "RunPlatform",
    "RunWriter",
    "Step",
    "StepTable",
    "create_run",
    "events",
    "find",
    "first_and_last",
    "load",
    "new_directory",
    "node_tables",
    "now",
    "read_json",
    "run_name",
    "runs_under",
    "stamped",
    "steps",
    "table",
    "tables",
    "unstamped",
]
