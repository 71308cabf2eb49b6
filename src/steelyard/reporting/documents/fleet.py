"""The runs of a fleet, the latest of each host."""

from steelyard.campaign.fleet_verdict import judge_fleet
from steelyard.records import FLEET as FILE
from steelyard.records.fleet import load_fleet
from steelyard.reporting.documents import RUNS, Document, Layout, Topic, as_last_judged
from steelyard.reporting.fleet_page import fleet_page
from steelyard.reporting.rendering import Report


def layout(topic: Topic) -> Layout:
    directory = topic.directory
    fleet, home = load_fleet(directory), f"{RUNS}/{directory.resolve().name}"
    begun = [entry.directory for entry, run in zip(fleet.manifest.runs, fleet.runs(), strict=True) if run is not None]
    runs = {directory / name: f"{home}/{name}" for name in begun}
    return Layout(home, runs, {f"{home}/{FILE}": fleet.text})


def read(topic: Topic, linked: bool, unchanged: bool) -> Document:
    directory = topic.directory
    judged = judge_fleet(load_fleet(directory), as_last_judged)
    verdicts = [member.verdict for member in judged.members if member.verdict is not None]
    updated = judged.updated().updated(name=directory.resolve().name)
    return Document(Report(directory, fleet_page(judged, linked)), verdicts, {directory / FILE: updated.text})
