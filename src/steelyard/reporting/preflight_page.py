"""The report of a preflight."""

from collections.abc import Sequence

from steelyard.execute.preflight import HostFinding, verdict_of
from steelyard.reporting.page import Cell, Page, Table, Tile, Tone
from steelyard.reporting.run_page import TONE_OF
from steelyard.verdict import Status

_SENTENCE = {
    Status.PASS: "The hosts are fit to run it.",
    Status.FAIL: "Something failed that a run would meet.",
    Status.UNKNOWN: "Nothing failed, but something required is not known, and what is not known does not pass.",
}
_ORDER = (Status.FAIL, Status.UNKNOWN, Status.PASS)


def preflight_page(title: str, findings: Sequence[HostFinding], command: str) -> Page:
    verdict = verdict_of(findings)
    failed = [finding for finding in findings if finding.status == Status.FAIL]
    decisive = failed or [finding for finding in findings if finding.blocks]
    hosts = {finding.host for finding in findings if finding.host is not None}
    rows: list[list[str | Cell]] = [
        [
            Cell(finding.status.value, TONE_OF[finding.status]),
            finding.check,
            finding.host or "this machine",
            finding.message,
            finding.fix or "",
            "required" if finding.required else "",
        ]
        for finding in sorted(findings, key=lambda finding: (_ORDER.index(finding.status), not finding.required))
    ]
    return Page(
        kind="preflight",
        title=title,
        verdict=verdict.value,
        tone=TONE_OF[verdict],
        sentence=_SENTENCE[verdict],
        reasons=[f"{cause.host or 'this machine'}, {cause.check}: {cause.message}" for cause in decisive[:20]],
        tiles=[Tile("Hosts", f"{len(hosts):,}", "", "asked"), *(_tile(findings, status) for status in _ORDER)],
        charts=[],
        tables=[Table("Findings", ["finding", "check", "host", "what was found", "fix", "weight"], rows)],
        commands=[command],
    )


def _tile(findings: Sequence[HostFinding], status: Status) -> Tile:
    required = [finding.required for finding in findings if finding.status == status]
    tone = TONE_OF[status] if required else Tone.PLAIN
    note = f"{sum(required):,} of them required"
    return Tile(status.value.capitalize(), f"{len(required):,}", "findings", note, tone)
