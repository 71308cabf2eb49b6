"""The cells of a suite, or those of one of its platforms."""

from pathlib import Path

from steelyard.campaign.suite_verdict import judge_suite
from steelyard.records import SUITE as FILE
from steelyard.records.suite import Suite, the_suite
from steelyard.reporting.documents import RUNS, Document, Layout, as_last_judged
from steelyard.reporting.suite_page import suite_page


def layout(directory: Path) -> Layout:
    suite = _suite(directory)
    place = f"{RUNS}/{suite.directory.resolve().name}"
    home = str(Path(place, suite.platform_place or ""))
    return Layout(home, runs_of(suite, place), {f"{place}/{FILE}": suite_text(suite)})


def read(directory: Path, linked: bool, unchanged: bool) -> Document:
    judged = judge_suite(_suite(directory), as_last_judged)
    verdicts = [verdict for cell in judged.cells for verdict in cell.verdicts()]
    place = judged.suite.directory
    return Document(place, suite_page(judged, linked), verdicts, {place / FILE: suite_text(judged.updated())})


def runs_of(suite: Suite, place: str) -> dict[Path, str]:
    """The runs of its cells that exist, where the suite is in this place."""
    runs = (run for cell in suite.cells for run in suite.runs(cell))
    return {run.directory: f"{place}/{run.directory.relative_to(suite.directory)}" for run in runs if run is not None}


def suite_text(suite: Suite) -> str:
    """The content of suite.json, with the name of its directory."""
    return suite.updated(name=suite.directory.resolve().name).manifest.model_dump_json(indent=2) + "\n"


def _suite(directory: Path) -> Suite:
    return the_suite("SUITE", str(directory), directory)
