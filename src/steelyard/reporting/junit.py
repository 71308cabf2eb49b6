"""The verdict as JUnit XML for CI servers. An unknown required check is an error, never a pass."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from steelyard.campaign.suite_verdict import CellStatus, SuiteVerdict
from steelyard.inert import inert_lines
from steelyard.reporting import write_report
from steelyard.verdict import Finding, Status, Verdict

MARK = '<testsuites name="steelyard"'

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, not even escaped."""


@dataclass(frozen=True, slots=True)
class Note:
    """The only test case of a run without a verdict, or with a result that was declared."""

    case: str
    outcome: Literal["pass", "error", "skipped"]
    message: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One test suite: a run by its name, with its verdict or a note."""

    name: str
    content: Verdict | Note


def of_verdicts(verdicts: Sequence[Verdict], absent: Sequence[str] = ()) -> list[Entry]:
    """A test suite per run; a run that is `absent` is an error."""
    judged = [Entry(verdict.run.resolve().name, verdict) for verdict in verdicts]
    return judged + [Entry(name, Note("completed", "error", "not started")) for name in absent]


def of_suite(judged: SuiteVerdict) -> Iterator[Entry]:
    """A test suite per run, named CELL/RUN; a result that was declared or predicted is one test case."""
    for cell in judged.cells:
        if cell.status == CellStatus.SKIPPED:
            needs, has = cell.cell.planned_gib, cell.cell.available_gib
            message = f"not run: the plan needs {needs} GiB per GPU, of {has} GiB"
            yield Entry(cell.cell.directory, Note("memory_capacity", "skipped", message))
            continue
        for run in cell.runs:
            name = cell.cell.path_of(run.name)
            if run.verdict is None:
                yield Entry(name, Note("completed", "error", "not run"))
            elif cell.is_expected and run.status == CellStatus.OOM:
                yield Entry(name, Note("memory_capacity", "pass", "out of memory, as declared"))
            else:
                yield Entry(name, run.verdict)


def write(path: Path, entries: Iterable[Entry]) -> None:
    """One test suite per entry, one test case per finding."""
    write_report(path, render(list(entries)), MARK, "--junit")


def render(entries: Sequence[Entry]) -> str:
    counts = [_counts(entry.content) for entry in entries]
    total = {name: sum(suite[name] for suite in counts) for name in counts[0]}
    root = ElementTree.Element("testsuites", _suite("steelyard", total))
    for entry, own in zip(entries, counts, strict=True):
        _add(ElementTree.SubElement(root, "testsuite", _suite(entry.name, own)), entry)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add(suite: ElementTree.Element, entry: Entry) -> None:
    content, name = entry.content, entry.name
    if isinstance(content, Note):
        case = _case(suite, name, content.case)
        if content.outcome == "pass":
            ElementTree.SubElement(case, "system-out").text = _text(content.message)
        else:
            ElementTree.SubElement(case, content.outcome, {"message": _text(content.message)})
        return
    for finding in content.findings:
        _add_outcome(_case(suite, name, finding.check), finding)
    for skipped in content.not_applicable:
        message = _text(f"not applicable: {skipped.message}")
        ElementTree.SubElement(_case(suite, name, skipped.check), "skipped", {"message": message})


def _counts(verdict: Verdict | Note) -> dict[str, int]:
    if isinstance(verdict, Note):
        outcome = verdict.outcome
        return {"tests": 1, "failures": 0, "errors": int(outcome == "error"), "skipped": int(outcome == "skipped")}
    weightless = [finding for finding in verdict.findings if finding.status == Status.UNKNOWN and not finding.required]
    return {
        "tests": len(verdict.findings) + len(verdict.not_applicable),
        "failures": len(verdict.failed()),
        "errors": len(verdict.undecided()),
        "skipped": len(verdict.not_applicable) + len(weightless),
    }


def _suite(name: str, counts: dict[str, int]) -> dict[str, str]:
    return {"name": _text(name), **{key: str(count) for key, count in counts.items()}}


def _case(suite: ElementTree.Element, run: str, check: str) -> ElementTree.Element:
    names = {"classname": _text(f"steelyard.{run}"), "name": _text(check), "time": "0"}
    return ElementTree.SubElement(suite, "testcase", names)


def _add_outcome(case: ElementTree.Element, finding: Finding) -> None:
    message = {"message": _text(finding.message)}
    where = f", {finding.evidence.file}:{finding.evidence.line}" if finding.evidence else ""
    detail = _text(f"observed {finding.observed}, expected {finding.expected}{where}")
    if finding.status == Status.FAIL:
        ElementTree.SubElement(case, "failure", message).text = detail
    elif finding.status == Status.UNKNOWN and finding.required:
        ElementTree.SubElement(case, "error", message).text = detail
    elif finding.status == Status.UNKNOWN:
        ElementTree.SubElement(case, "skipped", message)
    else:
        ElementTree.SubElement(case, "system-out").text = _text(finding.message)


def _text(text: str) -> str:
    return inert_lines(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))
