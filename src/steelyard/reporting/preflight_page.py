"""The report of a preflight."""

from collections.abc import Sequence

from steelyard.execute.preflight import HostFinding, verdict_of
from steelyard.reporting.page import Group, Page, Table, Tile, Tiles, Tone
from steelyard.reporting.run_page import TONE_OF
from steelyard.verdict import Status

_SENTENCE = {
    Status.PASS: "All required checks passed on all hosts.",
    Status.FAIL: "At least one check failed; a run would fail too.",
    Status.UNKNOWN: "No check failed, but a required check is unknown.",
}
_WORDS = {Status.PASS: "passed", Status.FAIL: "failed", Status.UNKNOWN: "unknown"}
_ORDER = (Status.FAIL, Status.UNKNOWN, Status.PASS)


def preflight_page(title: str, findings: Sequence[HostFinding], command: str) -> Page:
    verdict = verdict_of(findings)
    failed = [finding for finding in findings if finding.status == Status.FAIL]
    decisive = failed or [finding for finding in findings if finding.blocks]
    hosts = {finding.host for finding in findings if finding.host is not None}
    return Page(
        kind="preflight",
        title=title,
        verdict=verdict.value,
        tone=TONE_OF[verdict],
        sentence=_SENTENCE[verdict],
        reasons=[f"{cause.host or 'this machine'}, {cause.check}: {cause.message}" for cause in decisive[:20]],
        blocks=[
            Tiles("Counts", [Tile("Hosts", f"{len(hosts):,}", "", "checked"), *(_tile(findings, s) for s in _ORDER)]),
            *_groups(findings),
        ],
        commands=[command],
    )


def _groups(findings: Sequence[HostFinding]) -> list[Group]:
    """Failed, unknown, passed; what passed is folded."""
    tables = []
    for status in _ORDER:
        own = sorted((f for f in findings if f.status == status), key=lambda finding: not finding.required)
        rows = [
            [f.check, f.host or "this machine", f.message, f.fix or "", "required" if f.required else "optional"]
            for f in own
        ]
        if rows:
            columns = ["check", "host", "finding", "fix", "weight"]
            tables.append(Table(f"{len(rows)} {_WORDS[status]}", columns, rows, folded=status == Status.PASS))
    return [Group("Checks", tables)] if tables else []


def _tile(findings: Sequence[HostFinding], status: Status) -> Tile:
    required = [finding.required for finding in findings if finding.status == status]
    tone = TONE_OF[status] if required else Tone.PLAIN
    note = f"{sum(required):,} required"
    return Tile(status.value.capitalize(), f"{len(required):,}", "checks", note, tone)
