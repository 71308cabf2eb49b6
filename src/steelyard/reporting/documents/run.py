"""One run."""

from pathlib import Path

from steelyard import records, verdict
from steelyard.reporting.documents import RUNS, Document, Layout, as_last_judged
from steelyard.reporting.run_page import run_page


def layout(directory: Path) -> Layout:
    place = f"{RUNS}/{directory.resolve().name}"
    return Layout(place, {directory: place})


def read(directory: Path, linked: bool, unchanged: bool) -> Document:
    subject = as_last_judged(records.load(directory))
    judged = verdict.judge(subject)
    return Document(directory, run_page(subject, judged), [judged])
