"""The report of a preflight."""

from collections.abc import Sequence

from steelyard import __version__
from steelyard.execute.preflight import HostFinding, verdict_of
from steelyard.reporting.page import Cell, Page, Table, Tile, Tone
from steelyard.verdict import Status

TONE_OF = {Status.PASS: Tone.GOOD, Status.FAIL: Tone.BAD, Status.UNKNOWN: Tone.UNSURE}
_SENTENCE = {
    Status.PASS: "The hosts are fit to run it.",
    Status.FAIL: "Something failed that a run would meet.",
    Status.UNKNOWN: "Nothing failed, but something required is not known, and what is not known does not pass.",
}
_ORDER = (Status.FAIL, Status.UNKNOWN, Status.PASS)


def preflight_page(title: str, findings: Sequence[HostFinding], command: str) -> Page:
    """All findings, what failed first."""
    verdict = verdict_of(findings)
    decisive = [one for one in findings if one.status == Status.FAIL] or [one for one in findings if one.blocks]
    hosts = {one.host for one in findings if one.host is not None}
    tiles = [Tile("Hosts", f"{len(hosts):,}", "", "asked")]
    tiles += [_tile(findings, status) for status in _ORDER]
    ranked = sorted(findings, key=lambda one: (_ORDER.index(one.status), not one.required))
    rows: list[list[str | Cell]] = [
        [
            Cell(one.status.value, TONE_OF[one.status]),
            one.check,
            one.host or "this machine",
            one.message,
            one.fix or "",
            "required" if one.required else "",
        ]
        for one in ranked
    ]
    return Page(
        kind="preflight",
        title=title,
        verdict=verdict.value,
        tone=TONE_OF[verdict],
        sentence=_SENTENCE[verdict],
        reasons=[f"{one.host or 'this machine'}, {one.check}: {one.message}" for one in decisive[:20]],
        tiles=tiles,
        charts=[],
        tables=[Table("Findings", ["finding", "check", "host", "what was found", "fix", "weight"], rows)],
        commands=[command],
        made_by=f"steelyard {__version__}",
    )


def _tile(findings: Sequence[HostFinding], status: Status) -> Tile:
    count = sum(one.status == status for one in findings)
    required = sum(one.status == status and one.required for one in findings)
    tone = TONE_OF[status] if count else Tone.PLAIN
    return Tile(status.value.capitalize(), f"{count:,}", "findings", f"{required:,} of them required", tone)
