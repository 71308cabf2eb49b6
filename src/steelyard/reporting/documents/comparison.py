"""A saved comparison and the runs of its sides."""

import os

from steelyard.comparison.files import FILE, FOLDER, file_text, places_of, saved, weigh_again
from steelyard.reporting.comparison_page import comparison_page
from steelyard.reporting.documents import Document, Layout, Topic, json_text, tree
from steelyard.reporting.paper.cells import cells_of_comparison
from steelyard.reporting.rendering import Report


def layout(topic: Topic) -> Layout:
    directory = topic.directory.resolve()
    content = saved(directory)
    sides = places_of(content, directory)
    runs = tree([place for side in sides for place in side])
    home = f"{FOLDER}/{directory.name}"
    for name, side in zip(("target", "baseline"), sides, strict=True):
        content[name] = [os.path.relpath(runs[place], home) for place in side]
    return Layout(home, runs, {f"{home}/{FILE}": json_text(content)}, as_checked=False)


def read(topic: Topic, linked: bool, unchanged: bool) -> Document:
    directory = topic.directory
    made = weigh_again(directory, unchanged)
    verdicts = [judged for side in made.sides for judged in side.verdicts]
    page = comparison_page(made)
    report = Report(directory, page, lambda: cells_of_comparison(made, page))
    return Document(report, verdicts, made=lambda: {directory / FILE: file_text(made, directory)})
