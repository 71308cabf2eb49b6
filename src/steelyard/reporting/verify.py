"""Verifies an evidence bundle: makes every figure of its report again from the records in it."""

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

from steelyard import __version__
from steelyard.errors import InputError, NotInstalledError
from steelyard.files import place_of, placed_from, read_document
from steelyard.reasons import Code
from steelyard.records import Evidence
from steelyard.records.contents import record_files, records_digest
from steelyard.records.manifest import checked_record
from steelyard.records.strict import MOST_BYTES, strict_json
from steelyard.reporting import FORMATS, archive, format_of
from steelyard.reporting.archive import Archive, Content
from steelyard.reporting.bundle import (
    FILE,
    REPORT,
    ROOT,
    SCHEMA_VERSION,
    WITH_RECORDS,
    BundleManifest,
    Observe,
    this_environment,
)
from steelyard.reporting.differences import TEXTS, differences, figures_apart
from steelyard.reporting.documents import Topic, layout_of, read
from steelyard.reporting.figures import FORMS
from steelyard.reporting.rendering import Asked, File, rendered
from steelyard.verdict import Finding, Status
from steelyard.verdict.finding import Check, together

FILES, RECORDS, REPORTS = Check("files", True), Check("records", True), Check("report", True)

FILES_COMPLETE = Code("files_complete", "{count:,} files, each with the checksum of the manifest")
"""Every file of the manifest is in the bundle with its checksum, and no other file is."""
FILE_MISSING = Code("file_missing", "{file} is missing")
"""The bundle lacks a file that its manifest names, or that belongs to its report."""
FILE_EXTRA = Code("file_extra", "{file} does not belong to the bundle")
"""The bundle contains a file that its manifest does not name, or that its report is not made from."""
FILE_CHANGED = Code("file_changed", "{file} does not have the checksum of the manifest")
"""A file was changed after the bundle was made."""
DERIVED_AGAIN = Code("derived_again", lambda files, **_: f"{_counted(files)}: each follows from the records")
"""The verdicts and the comparison, made again from the records, are equal to those in the bundle."""
DERIVED_OTHERWISE = Code("derived_otherwise", lambda **values: _apart(**values))
"""A verdict or a comparison is not what the records give."""
NOT_DERIVED = Code("not_derived", "no report can be made from the records: {error}")
"""The records cannot be read, judged or compared."""
FIGURES_DIFFER = Code(
    "figures_differ", "{file}: {pointer} is {observed} in the bundle, but {expected} from the records"
)
"""A figure in a bundle by another version of Steelyard is not what the records give."""
RENDERED_AGAIN = Code("rendered_again", "{file} follows from the records, byte for byte")
"""A file of the report, made again from the records, is equal to the one in the bundle."""
RENDERED_OTHERWISE = Code("rendered_otherwise", lambda **values: _apart(**values))
"""A line of the report is not what the records give."""
LAST_DIGITS = Code(
    "last_digits", "{file} follows from the records, except for the last digits of sums, which depend on the processor"
)
"""Floating-point numbers differ by less than 1e-12 of their value, and the bundle was made on another machine."""
BYTES_DIFFER = Code("bytes_differ", "{file} is not what the records give")
"""A file of the report is not what the records give. It is not text, or it is much larger."""
OTHER_RECORDS = Code("other_records", "{file} was not made from these records of {run}")
"""The report contains another digest of the records of a run."""
OTHER_VERSION = Code(
    "other_version",
    "{file} differs from what Steelyard {here} makes, but the bundle was made by Steelyard {version}, "
    "which may use other words; verify it with that version: pip install steelyard=={version}",
)
"""The bundle was made by another version of Steelyard, so another text proves nothing."""
OTHER_TOOLS = Code("other_tools", "{file} was made with other tools ({tools}), so only its checksum was compared")
"""A file is not text, and the tools that wrote it have other versions here."""
TEXT_OF_AUTHOR = Code(
    "text_of_author", "the author wrote the text of section {section}; read it, since no record supports it"
)
"""A section of a paper has a text of its author. With a digit in it, the bundle is not verified as a whole."""
RECORDS_NOT_NAMED = Code("records_not_named", "no file of the report names the digest of its records")
"""The report is a table only, so a record without effect on its figures could have been changed."""
NOT_RENDERED = Code("not_rendered", "{file} cannot be made here, so only its checksum was compared; {way_on}")
"""A package that makes this file is not installed."""
_WITH_DIGESTS = (".html", ".md")
_MORE_BYTES = 1 << 20


def _counted(files: Sequence[str]) -> str:
    """`8 verdict.json, 1 comparison.json`."""
    names = Counter(name.rpartition("/")[2] for name in files)
    return ", ".join(f"{count:,} {name}" for name, count in names.items())


def _apart(place: Evidence, column: int, observed: str | None, expected: str | None, more: int) -> str:
    texts = ("no such line" if text is None else repr(text) for text in (observed, expected))
    where, (bundled, remade) = f"{place.file}, line {place.line}, column {column}", texts
    rest = f"; {more:,} more lines of it differ" if more else ""
    return f"{where}: {bundled} in the bundle, {remade} from the records{rest}"


@dataclass(frozen=True, slots=True)
class Verification:
    """What verifying a bundle gave."""

    bundle: Path
    manifest: BundleManifest
    reports: dict[str, str]
    """The checksum of each file of the report, to be compared with one from its author."""
    findings: tuple[Finding, ...]

    @property
    def status(self) -> Status:
        return together(self.findings)

    def document(self) -> dict[str, Any]:
        """The document of `verify --json`."""
        return {
            "bundle": str(self.bundle.resolve()),
            "verdict": self.status.value,
            "kind": self.manifest.kind,
            "home": self.manifest.home,
            "environment": self.manifest.environment.model_dump(),
            "reports": self.reports,
            "redacted": self.manifest.redacted,
            "left_out": self.manifest.left_out,
            "findings": [finding.document() for finding in self.findings],
        }


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A bundle in a directory of its own."""

    path: Path
    root: Path
    manifest: BundleManifest
    names: Sequence[str]
    """All entries of the zip; those of the manifest are unpacked."""
    contents: dict[str, Content]

    @property
    def is_ours(self) -> bool:
        """Whether this version made it, so that equal records give equal texts."""
        return self.manifest.environment.steelyard == __version__

    @property
    def rounds_alike(self) -> bool:
        """Whether this machine gives the same last digits."""
        return self.manifest.environment.arithmetic == this_environment().arithmetic

    def holds(self, name: str, content: bytes) -> bool:
        return name in self.contents and self.contents[name].sha256 == hashlib.sha256(content).hexdigest()


class Unpacking(TypedDict, total=False):
    """How to unpack a bundle."""

    most_unpacked: int | None
    """Limit of unpacked bytes. By default 64 GiB, and 200 times the size of the bundle."""
    observe: Observe


def verify_bundle(path: Path, **how: Unpack[Unpacking]) -> Verification:
    """Unpack a bundle into a temporary directory, and make everything that follows from its records again."""
    observe = how.get("observe", lambda stage, count: None)
    with archive.opened(path, how.get("most_unpacked")) as packed:
        manifest = _manifest(path, packed)
        with tempfile.TemporaryDirectory(prefix="steelyard-") as temporary:
            archive.check_space(Path(temporary), packed.unpacked_bytes)
            root = Path(temporary).resolve() / ROOT
            known = [name for name in packed.names if name in manifest.files]
            contents = packed.unpack(known, root, partial(observe, "unpacking"))
            unpacked = Unpacked(path, root, manifest, packed.names, contents)
            with placed_from(root):
                made_again, belonging = _made_again(unpacked)
                files = _files(unpacked, belonging)
                reports = {name: content.sha256 for name, content in contents.items() if name.startswith(f"{REPORT}/")}
                return Verification(path, manifest, reports, (*files, *made_again))


def _manifest(path: Path, packed: Archive) -> BundleManifest:
    if FILE not in packed.names:
        raise archive.refused(path, f"it contains no {FILE}")
    try:
        raw = strict_json(packed.read(FILE, MOST_BYTES))
    except ValueError as reason:
        raise archive.refused(path, f"{FILE} cannot be read ({reason})") from None
    manifest = checked_record(path / FILE, raw, BundleManifest, SCHEMA_VERSION)
    if (problem := archive.name_problem(manifest.home)) is not None:
        raise archive.refused(path, f"{FILE} names {manifest.home[:200]!r}, which {problem}")
    return manifest


def _files(unpacked: Unpacked, belonging: Set[str] | None) -> list[Finding]:
    """Whether the files are those of the manifest, and those that belong to the report, if these are known."""
    entries = unpacked.manifest.files
    findings = []
    for name in sorted({*entries, *(belonging or ()), *unpacked.names} - {FILE}):
        belongs = belonging is None or name in belonging
        # another version may keep other files
        decide = FILES.failed if unpacked.is_ours or (name in entries) != (name in unpacked.names) else FILES.unknown
        if name not in unpacked.names:
            findings.append(decide(FILE_MISSING, file=name))
        elif name not in entries or not belongs:
            findings.append(decide(FILE_EXTRA, file=name))
        elif unpacked.contents[name] != entries[name]:
            findings.append(FILES.failed(FILE_CHANGED, file=name))
    return findings or [FILES.passed(FILES_COMPLETE, count=len(entries))]


def _made_again(unpacked: Unpacked) -> tuple[list[Finding], Set[str] | None]:
    """Whether what follows from the records is as they give it; and the names of all files that belong, if known."""
    manifest = unpacked.manifest
    topic = Topic(manifest.kind, unpacked.root / manifest.home)
    decide = RECORDS.failed if unpacked.is_ours else RECORDS.unknown
    try:
        layout = layout_of(topic)
    except InputError as error:
        return [decide(NOT_DERIVED, error=error.message)], None
    runs = [_inside(unpacked, run) for run in layout.runs]
    try:
        document = read(topic, unchanged=False)
        derived = {place_of(path): text.encode() for path, text in document.derived().items()}
        reports = {f"{REPORT}/{file.name}": file for file in rendered(document.report, _asked(manifest))}
    except InputError as error:
        return [decide(NOT_DERIVED, error=error.message)], None
    equal = [name for name, content in derived.items() if unpacked.holds(name, content)]
    findings = [RECORDS.passed(DERIVED_AGAIN, files=equal)] if equal else []
    for name, content in derived.items():
        if name in unpacked.contents and name not in equal:
            findings += _derived(unpacked, name, content)
    findings += _of_author(manifest)
    for name, file in reports.items():
        findings += _report(unpacked, name, file, runs) if name in unpacked.contents else ()
    of_runs = (f"{run}/{name}" for run in runs for name in record_files(unpacked.root / run))
    return findings, {*of_runs, *derived, *reports}


def _inside(unpacked: Unpacked, run: Path) -> str:
    """The place of a run; a path that leads out of the bundle is hostile, and nothing was read there."""
    if not run.is_relative_to(unpacked.root):
        raise archive.refused(unpacked.path, f"{unpacked.manifest.home} names a run outside of the bundle")
    return str(run.relative_to(unpacked.root))


def _asked(manifest: BundleManifest) -> Asked:
    """The files of the report; formats that only another version knows are left to their checksums."""
    formats = [format_of(name) for name in manifest.formats if name in FORMATS]
    return Asked(formats, [form for form in FORMS if form in manifest.figures], manifest.texts)


def _of_author(manifest: BundleManifest) -> Iterator[Finding]:
    """What no record supports: texts that the author wrote. Those with digits may state figures."""
    for section, text in manifest.texts.items():
        check = REPORTS if any(map(str.isdigit, text)) else Check(REPORTS.name)
        yield check.unknown(TEXT_OF_AUTHOR, section=section)
    if not any(format_of(name).OF in WITH_RECORDS for name in manifest.formats if name in FORMATS):
        yield REPORTS.unknown(RECORDS_NOT_NAMED)


def _derived(unpacked: Unpacked, name: str, content: bytes) -> Iterator[Finding]:
    """How a verdict or a comparison differs from what the records give."""
    if unpacked.is_ours:
        yield from _lines_apart(unpacked, name, content, RECORDS, DERIVED_OTHERWISE)
        return
    try:
        bundled = strict_json(read_document(unpacked.root / name, unpacked.root, MOST_BYTES))
    except (OSError, ValueError) as reason:
        yield RECORDS.failed(NOT_DERIVED, error=f"{name} cannot be read ({reason})")
        return
    for pointer, ours, theirs in figures_apart(bundled, strict_json(content)):
        yield RECORDS.failed(FIGURES_DIFFER, ours, theirs, file=name, pointer=pointer)
    yield RECORDS.unknown(OTHER_VERSION, file=name, version=unpacked.manifest.environment.steelyard, here=__version__)


def _report(unpacked: Unpacked, name: str, file: File, runs: Sequence[str]) -> Iterator[Finding]:
    """Whether a file of the report is what the records give."""
    try:
        content = file.content()
    except NotInstalledError as missing:
        yield REPORTS.unknown(NOT_RENDERED, file=name, way_on=missing.next)
        return
    except InputError as error:
        yield (REPORTS.failed if unpacked.is_ours else REPORTS.unknown)(NOT_DERIVED, error=error.message)
        return
    environment = unpacked.manifest.environment
    if unpacked.holds(name, content):
        yield REPORTS.passed(RENDERED_AGAIN, file=name)
        return
    yield from _records_apart(unpacked, name, runs)
    if not unpacked.is_ours:
        yield REPORTS.unknown(OTHER_VERSION, file=name, version=environment.steelyard, here=__version__)
    elif name.endswith(TEXTS):
        yield from _lines_apart(unpacked, name, content, REPORTS, RENDERED_OTHERWISE)
    elif environment != this_environment():
        tools = ", ".join(f"{tool} {version}" for tool, version in environment.tools.items())
        yield REPORTS.unknown(OTHER_TOOLS, file=name, tools=tools)
    else:
        yield REPORTS.failed(BYTES_DIFFER, file=name)


def _lines_apart(unpacked: Unpacked, name: str, content: bytes, check: Check, code: Code) -> Iterator[Finding]:
    try:
        bundled = read_document(unpacked.root / name, unpacked.root, 2 * len(content) + _MORE_BYTES)
    except OSError:
        yield check.failed(BYTES_DIFFER, file=name)
        return
    shown, total = differences(bundled, content, rounding=not unpacked.rounds_alike)
    if not total:
        yield check.passed(LAST_DIGITS, file=name)
    for at, line in enumerate(shown, start=1):
        more, place = total - len(shown) if at == len(shown) else 0, Evidence(name, line.line)
        yield check.failed(code, line.bundled, line.remade, place, place=place, column=line.column, more=more)


def _records_apart(unpacked: Unpacked, name: str, runs: Sequence[str]) -> Iterator[Finding]:
    """The runs of whose records the report does not contain the digest."""
    try:
        text = read_document(unpacked.root / name, unpacked.root) if name.endswith(_WITH_DIGESTS) else None
    except OSError:
        return  # much larger than a report
    for run in runs:
        if text is not None and records_digest(unpacked.root / run).encode() not in text:
            yield REPORTS.failed(OTHER_RECORDS, file=name, run=run)
