"""The cells of a suite, or those of one of its platforms; of a ladder, the runs of its sides too."""

import os
from dataclasses import replace
from pathlib import Path

from steelyard.campaign.suite_verdict import judge_suite
from steelyard.records import MANIFEST
from steelyard.records import SUITE as FILE
from steelyard.records.suite import Suite, the_suite
from steelyard.reporting.documents import Document, Layout, Topic, as_last_judged, tree
from steelyard.reporting.paper.run import judged_cells
from steelyard.reporting.rendering import Report
from steelyard.reporting.suite_page import suite_page


def layout(topic: Topic) -> Layout:
    suite = _suite(topic)
    suite = replace(suite, directory=suite.directory.resolve())
    sides = _ladder_runs(suite)
    places = tree([suite.directory, *sides])
    place = places.pop(suite.directory)
    home = str(Path(place, suite.platform_place or ""))
    return Layout(home, {**runs_of(suite, place), **places}, {f"{place}/{FILE}": suite_text(suite)})


def read(topic: Topic, linked: bool, unchanged: bool) -> Document:
    judged = judge_suite(_suite(topic), as_last_judged)
    verdicts = [verdict for cell in judged.cells for verdict in cell.verdicts()]
    page = suite_page(judged, linked)
    report = Report(judged.suite.directory, page, lambda: judged_cells(judged, page, as_last_judged))
    return Document(report, verdicts, {judged.suite.directory / FILE: suite_text(judged.updated())})


def runs_of(suite: Suite, place: str) -> dict[Path, str]:
    """The runs of its cells that exist, where the suite is in this place."""
    runs = (run for cell in suite.cells for run in suite.runs(cell))
    return {run.directory: f"{place}/{run.directory.relative_to(suite.directory)}" for run in runs if run is not None}


def suite_text(suite: Suite) -> str:
    """The content of suite.json, with the name of its directory."""
    return suite.updated(name=suite.directory.resolve().name).manifest.model_dump_json(indent=2) + "\n"


def _suite(topic: Topic) -> Suite:
    """The suite; a ladder with the target that the topic has."""
    suite = the_suite("SUITE", str(topic.directory), topic.directory)
    if topic.target is None or suite.manifest.ladder is None:
        return suite
    here = suite.directory.resolve()
    runs = [os.path.relpath(run.directory.resolve(), here) for run in topic.target]
    return suite.updated(ladder=suite.manifest.ladder.model_copy(update={"target_runs": runs}))


def _ladder_runs(suite: Suite) -> list[Path]:
    """The runs of the sides of a ladder that exist."""
    ladder = suite.manifest.ladder
    names = [*ladder.target_runs, *ladder.baseline_runs] if ladder is not None else []
    places = [Path(os.path.normpath(suite.directory / name)) for name in names]
    return [place for place in dict.fromkeys(places) if os.path.lexists(place / MANIFEST)]
