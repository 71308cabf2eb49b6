"""A saved comparison and the runs of its sides."""

import os
from pathlib import Path

from steelyard.comparison.files import FILE, FOLDER, file_text, places_of, saved, weigh_again
from steelyard.reporting.comparison_page import comparison_page
from steelyard.reporting.documents import RUNS, Document, Layout, json_text, verdict_files


def layout(directory: Path) -> Layout:
    """Runs keep their places relative to each other, since sides are called after directories."""
    directory = directory.resolve()
    content = saved(directory)
    sides = places_of(content, directory)
    above = os.path.commonpath([place.parent for side in sides for place in side])
    runs = {place: f"{RUNS}/{place.relative_to(above)}" for side in sides for place in side}
    home = f"{FOLDER}/{directory.name}"
    for name, side in zip(("target", "baseline"), sides, strict=True):
        content[name] = [os.path.relpath(runs[place], home) for place in side]
    return Layout(home, runs, {f"{home}/{FILE}": json_text(content)})


def read(directory: Path, linked: bool = False, unchanged: bool = True) -> Document:
    made = weigh_again(directory, unchanged)

    def derived() -> dict[Path, str]:
        verdicts = [judged for side in made.sides for judged in side.verdicts]
        return {**verdict_files(verdicts), directory / FILE: file_text(made, directory)}

    return Document("comparison", directory, comparison_page(made), derived)
