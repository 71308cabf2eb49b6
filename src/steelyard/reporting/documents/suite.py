"""The cells of a suite, or those of one of its platforms."""

from pathlib import Path

from steelyard.campaign.suite_verdict import judge_suite
from steelyard.records import SUITE as FILE
from steelyard.records.suite import the_suite
from steelyard.reporting.documents import RUNS, Document, Layout, as_last_judged, suite_runs, verdict_files
from steelyard.reporting.suite_page import suite_page


def layout(directory: Path) -> Layout:
    suite = the_suite("SUITE", str(directory), directory)
    home = f"{RUNS}/{suite.directory.resolve().name}"
    runs = {run: f"{home}/{run.relative_to(suite.directory)}" for run in suite_runs(suite)}
    text = suite.manifest.model_dump_json(indent=2) + "\n"
    return Layout(f"{home}/{suite.platform_place or ''}".rstrip("/"), runs, {f"{home}/{FILE}": text})


def read(directory: Path, linked: bool = False, unchanged: bool = True) -> Document:
    judged = judge_suite(the_suite("SUITE", str(directory), directory), as_last_judged)
    suite = judged.updated()

    def derived() -> dict[Path, str]:
        verdicts = (judged for cell in judged.cells for judged in cell.verdicts())
        return {**verdict_files(verdicts), suite.directory / FILE: suite.text}

    return Document("suite", suite.directory, suite_page(judged, linked), derived)
