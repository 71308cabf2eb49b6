"""steelyard verify ZIP: whether a bundle's report follows from its records."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cli.options import QUIET, VERBOSE, Printing, argument, examples, option, size_of
from steelyard.cli.verb import verb

if TYPE_CHECKING:
    from steelyard.reporting.verify import Verification

EXAMPLES = examples("steelyard verify evidence.zip", "steelyard verify evidence.zip --json")
MOST = 12
"""Findings that are printed without -v."""
_WIDTH = len("records")
_SIZE = "Largest unpacked size: 512MiB, 64GiB, 2TiB. Default: 64GiB, and at most 200 times the file."


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(Printing):
    bundle: Path = argument("ZIP", "A bundle that `report --bundle` wrote.")
    max_unpacked: str | None = option("--max-unpacked SIZE", _SIZE)
    verbose: bool = option(*VERBOSE)
    quiet: bool = option(*QUIET)


@verb
def verify(options: VerifyOptions) -> int:
    """Make every figure of a bundle's report again from its records.

    Exits with 0 if all of them are equal, 1 if something differs, 5 if a part could not be made again.
    """
    from steelyard import api, verdict
    from steelyard.cli.progress import StageView

    size = None if options.max_unpacked is None else size_of(options.max_unpacked)
    verified = api.verify(options.bundle, most_unpacked=size, observe=StageView())
    if options.as_json:
        printing.show_json(verified.document())
    else:
        _show(verified, options)
    return verdict.EXIT_OF[verified.status]


def _show(verified: "Verification", options: VerifyOptions) -> None:
    """The result, what differs, and the checksums to compare with a copy from elsewhere."""
    from steelyard.verdict import Status

    status, apart = verified.status, [finding for finding in verified.findings if finding.status != Status.PASS]
    counts = Counter(finding.status for finding in apart)
    words = {
        Status.PASS: f"every figure about {verified.manifest.home} follows from its records",
        Status.FAIL: f"{counts[Status.FAIL]} difference{'s' * (counts[Status.FAIL] != 1)}",
        Status.UNKNOWN: f"{counts[Status.UNKNOWN]} not verified",
    }
    head = f"{options.bundle}: {status.value}"
    printing.say(f"{head}: {words[status]}", printing.STATUS_STYLES[status.value], len(head))
    if options.quiet:
        return
    shown = verified.findings if options.verbose or not apart else apart[:MOST]
    for finding in shown:
        printing.finding(finding.status.value, finding.check, finding.message, _WIDTH)
    if not options.verbose and len(apart) > MOST:
        printing.say(f"  {len(apart) - MOST} more (-v)")
    for text in verified.manifest.removed:
        printing.item("  note     ", text)
    printing.say("Compare with a checksum from the author:")
    for name, digest in verified.reports.items():
        printing.say(f"  {digest}  {name}")
