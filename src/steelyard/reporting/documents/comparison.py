"""A saved comparison and the runs of its sides."""

import os
from pathlib import Path

from steelyard.comparison.files import FILE, FOLDER, file_text, places_of, saved, weigh_again
from steelyard.reporting.comparison_page import comparison_page
from steelyard.reporting.documents import Document, Layout, json_text, tree


def layout(directory: Path) -> Layout:
    """Runs keep their places relative to each other, since sides are called after directories."""
    directory = directory.resolve()
    content = saved(directory)
    sides = places_of(content, directory)
    runs = tree([place for side in sides for place in side])
    home = f"{FOLDER}/{directory.name}"
    for name, side in zip(("target", "baseline"), sides, strict=True):
        content[name] = [os.path.relpath(runs[place], home) for place in side]
    return Layout(home, runs, {f"{home}/{FILE}": json_text(content)}, as_checked=False)


def read(directory: Path, linked: bool, unchanged: bool) -> Document:
    made = weigh_again(directory, unchanged)
    verdicts = [judged for side in made.sides for judged in side.verdicts]
    page = comparison_page(made)
    return Document(directory, page, verdicts, made=lambda: {directory / FILE: file_text(made, directory)})
