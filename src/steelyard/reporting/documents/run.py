"""One run."""

from steelyard import records, verdict
from steelyard.reporting.documents import RUNS, Document, Layout, Topic, as_last_judged
from steelyard.reporting.paper.run import judged_run
from steelyard.reporting.rendering import Report
from steelyard.reporting.run_page import run_page


def layout(topic: Topic) -> Layout:
    place = f"{RUNS}/{topic.directory.resolve().name}"
    return Layout(place, {topic.directory: place})


def read(topic: Topic, linked: bool, unchanged: bool) -> Document:
    subject = as_last_judged(records.load(topic.directory))
    judged = verdict.judge(subject)
    page = run_page(subject, judged)
    return Document(Report(topic.directory, page, lambda: judged_run(subject, judged, page)), [judged])
