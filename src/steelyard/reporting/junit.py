"""The verdict as JUnit XML, so that a CI server shows it: a required unknown is an error, never a pass."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from steelyard.inert import inert_lines
from steelyard.verdict import Finding, Status, Verdict

MARK = '<testsuites name="steelyard"'

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters XML 1.0 cannot hold, not even escaped."""


def render(*verdicts: Verdict, absent: Sequence[str] = ()) -> str:
    """One test suite a run, one test case a finding; a run that is `absent` is an error of its own."""
    counts = [_counts(verdict) for verdict in verdicts] + [_ABSENT for _ in absent]
    total = {name: sum(one[name] for one in counts) for name in _ABSENT}
    root = ElementTree.Element("testsuites", {"name": "steelyard", **_words(total)})
    for verdict in verdicts:
        _add_suite(root, verdict)
    for name in absent:
        suite = ElementTree.SubElement(root, "testsuite", {"name": _text(name), **_words(_ABSENT)})
        case = ElementTree.SubElement(suite, "testcase", _case(name, "completed"))
        ElementTree.SubElement(case, "error", {"message": "it never began"})
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


_ABSENT = {"tests": 1, "failures": 0, "errors": 1, "skipped": 0}


def _counts(verdict: Verdict) -> dict[str, int]:
    return {
        "tests": len(verdict.findings) + len(verdict.not_applicable),
        "failures": len(verdict.failed()),
        "errors": len(verdict.undecided()),
        "skipped": len(verdict.not_applicable) + sum(_weightless(finding) for finding in verdict.findings),
    }


def _words(counts: dict[str, int]) -> dict[str, str]:
    return {name: str(count) for name, count in counts.items()}


def _add_suite(root: ElementTree.Element, verdict: Verdict) -> None:
    name = verdict.run.resolve().name
    suite = ElementTree.SubElement(root, "testsuite", {"name": _text(name), **_words(_counts(verdict))})
    for finding in verdict.findings:
        case = ElementTree.SubElement(suite, "testcase", _case(name, finding.check))
        _add_outcome(case, finding)
    for one in verdict.not_applicable:
        case = ElementTree.SubElement(suite, "testcase", _case(name, one.check))
        ElementTree.SubElement(case, "skipped", {"message": _text(f"not applicable: {one.message}")})


def _case(run: str, check: str) -> dict[str, str]:
    return {"classname": _text(f"steelyard.{run}"), "name": _text(check), "time": "0"}


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
