"""The verdict as JUnit XML, so that a CI server shows it: a required unknown is an error, never a pass."""

import re
from xml.etree import ElementTree

from steelyard.inert import inert_lines
from steelyard.verdict import Finding, Status, Verdict

MARK = '<testsuites name="steelyard"'

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters XML 1.0 cannot hold, not even escaped."""


def render(verdict: Verdict) -> str:
    """One test suite a run, one test case a finding."""
    counts = {
        "tests": len(verdict.findings) + len(verdict.not_applicable),
        "failures": len(verdict.failed()),
        "errors": len(verdict.undecided()),
        "skipped": len(verdict.not_applicable) + sum(_weightless(finding) for finding in verdict.findings),
    }
    numbers = {name: str(count) for name, count in counts.items()}
    root = ElementTree.Element("testsuites", {"name": "steelyard", **numbers})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _text(verdict.run.resolve().name), **numbers})
    for finding in verdict.findings:
        case = ElementTree.SubElement(suite, "testcase", _case(verdict, finding.check))
        _add_outcome(case, finding)
    for one in verdict.not_applicable:
        case = ElementTree.SubElement(suite, "testcase", _case(verdict, one.check))
        ElementTree.SubElement(case, "skipped", {"message": _text(f"not applicable: {one.reason}")})
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(verdict: Verdict, check: str) -> dict[str, str]:
    return {"classname": _text(f"steelyard.{verdict.run.resolve().name}"), "name": _text(check), "time": "0"}


def _add_outcome(case: ElementTree.Element, finding: Finding) -> None:
    message = {"message": _text(finding.message)}
    where = f"{finding.evidence.file}:{finding.evidence.line}" if finding.evidence else ""
    detail = _text(f"observed {finding.observed}, expected {finding.expected}{f', {where}' if where else ''}")
    if finding.status == Status.FAIL:
        ElementTree.SubElement(case, "failure", message).text = detail
    elif finding.status == Status.UNKNOWN and finding.required:
        ElementTree.SubElement(case, "error", message).text = detail
    elif finding.status == Status.UNKNOWN:
        ElementTree.SubElement(case, "skipped", message)
    else:
        ElementTree.SubElement(case, "system-out").text = _text(finding.message)


def _weightless(finding: Finding) -> bool:
    return finding.status == Status.UNKNOWN and not finding.required


def _text(text: str) -> str:
    return inert_lines(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))
