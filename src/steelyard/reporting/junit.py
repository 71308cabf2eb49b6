"""The verdict as JUnit XML for CI servers. An unknown required check is an error, never a pass."""

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from steelyard.inert import inert_lines
from steelyard.reporting import write_report
from steelyard.verdict import Finding, Status, Verdict

MARK = '<testsuites name="steelyard"'

_ABSENT = {"tests": 1, "failures": 0, "errors": 1, "skipped": 0}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, not even escaped."""


def write(path: Path, verdicts: Sequence[Verdict], absent: Sequence[str] = ()) -> None:
    """One test suite per run, one test case per finding; a run that is `absent` is an error."""
    write_report(path, _render(verdicts, absent), MARK, "--junit")


def _render(verdicts: Sequence[Verdict], absent: Sequence[str]) -> str:
    counts = [_counts(verdict) for verdict in verdicts] + [_ABSENT for _ in absent]
    total = {name: sum(suite[name] for suite in counts) for name in _ABSENT}
    root = ElementTree.Element("testsuites", _suite("steelyard", total))
    for verdict in verdicts:
        name = verdict.run.resolve().name
        suite = ElementTree.SubElement(root, "testsuite", _suite(name, _counts(verdict)))
        for finding in verdict.findings:
            _add_outcome(_case(suite, name, finding.check), finding)
        for skipped in verdict.not_applicable:
            message = _text(f"not applicable: {skipped.message}")
            ElementTree.SubElement(_case(suite, name, skipped.check), "skipped", {"message": message})
    for name in absent:
        suite = ElementTree.SubElement(root, "testsuite", _suite(name, _ABSENT))
        ElementTree.SubElement(_case(suite, name, "completed"), "error", {"message": "not started"})
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _counts(verdict: Verdict) -> dict[str, int]:
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
