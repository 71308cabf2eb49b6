"""A saved comparison of two suites, and all of their runs."""

import os
from pathlib import Path

from steelyard.campaign.saved_suites import FILE, compare_again, file_text, saved
from steelyard.comparison.files import FOLDER
from steelyard.records import SUITE
from steelyard.reporting.documents import Document, Layout, Topic, json_text, tree
from steelyard.reporting.documents.suite import runs_of, suite_text
from steelyard.reporting.paper.cells import cells_of_suites
from steelyard.reporting.rendering import Report
from steelyard.reporting.suite_comparison_page import suite_comparison_page


def layout(topic: Topic) -> Layout:
    directory = topic.directory.resolve()
    content, suites, _ = saved(directory)
    places = tree([suite.directory for suite in suites])
    home = f"{FOLDER}/{directory.name}"
    runs: dict[Path, str] = {}
    for name, suite in zip(("target", "baseline"), suites, strict=True):
        content[name]["suite"] = os.path.relpath(places[suite.directory], home)
        runs |= runs_of(suite, places[suite.directory])
    files = {f"{places[suite.directory]}/{SUITE}": suite_text(suite) for suite in suites}
    return Layout(home, runs, {**files, f"{home}/{FILE}": json_text(content)}, as_checked=False)


def read(topic: Topic, linked: bool, unchanged: bool) -> Document:
    directory = topic.directory
    made = compare_again(directory, unchanged)
    comparisons = [pair.comparison for pair in made.pairs if pair.comparison]
    verdicts = [verdict for each in comparisons for side in each.sides for verdict in side.verdicts]
    suites = {suite.directory / SUITE: suite_text(suite) for suite in made.suites}
    page = suite_comparison_page(made)
    report = Report(directory, page, lambda: cells_of_suites(made, page))
    return Document(report, verdicts, suites, lambda: {directory / FILE: file_text(made, directory)})
