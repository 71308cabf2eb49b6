"""The run directory: written during a run, read by all later stages."""

from steelyard.records.columns import Column, StepTable, node_tables, table, tables
from steelyard.records.manifest import FILE as MANIFEST
from steelyard.records.manifest import AllowedProblem, Failure, Provenance, RunManifest, RunPlatform
from steelyard.records.reader import Run, events, find, first_and_last, load, runs_under, steps
from steelyard.records.step import Event, Evidence, Step
from steelyard.records.strict import read_json
from steelyard.records.writer import FLEET, SUITE, RunWriter, create_run, new_directory, now, stamped, unstamped

__all__ = ["Column", "StepTable", "node_tables", "table", "tables"]
__all__ += ["FLEET", "MANIFEST", "SUITE", "AllowedProblem", "Failure", "Provenance", "RunManifest", "RunPlatform"]
__all__ += ["Run", "events", "find", "first_and_last", "load", "read_json", "runs_under", "steps"]
__all__ += ["Event", "Evidence", "Step"]
__all__ += ["RunWriter", "create_run", "new_directory", "now", "stamped", "unstamped"]
