"""One run."""

from pathlib import Path

from steelyard import records, verdict
from steelyard.reporting.documents import RUNS, Document, Layout, as_last_judged, verdict_files
from steelyard.reporting.run_page import run_page


def layout(directory: Path) -> Layout:
    place = f"{RUNS}/{directory.resolve().name}"
    return Layout(place, {directory: place})


def read(directory: Path, linked: bool = False, unchanged: bool = True) -> Document:
    subject = as_last_judged(records.load(directory))
    judged = verdict.judge(subject)
    return Document("run", directory, run_page(subject, judged), lambda: verdict_files([judged]))
