"""Writes an evidence bundle: a report, the records that it is made from, and the checksum of each file, in one zip."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from steelyard import records, verdict
from steelyard.errors import InputError
from steelyard.files import open_regular, place_of, placed_from, replacing
from steelyard.records.contents import file_digest, is_regular, record_files
from steelyard.records.strict import LINE_BYTES, unreadable
from steelyard.reporting import SUFFIXES, archive, check_place, format_of, unwritable
from steelyard.reporting.archive import Content
from steelyard.reporting.bundle import (
    FILE,
    MARK,
    REPORT,
    ROOT,
    WITH_RECORDS,
    BundleManifest,
    Observe,
    this_environment,
)
from steelyard.reporting.documents import Document, Layout, Topic, layout_of, read
from steelyard.reporting.rendering import Asked, rendered
from steelyard.secrets import Redactor

KEY = "--bundle"
_JSON = (".json", ".jsonl")


@dataclass(frozen=True, slots=True)
class Staged:
    """A bundle before it is packed, and what copying changed."""

    root: Path
    redacted: dict[str, int] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def write(self, contents: Mapping[str, str | bytes]) -> None:
        for name, content in contents.items():
            path = self.root / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.encode() if isinstance(content, str) else content)
            except OSError as reason:
                raise archive.not_stored(path, reason) from None

    def contents(self) -> dict[str, Content]:
        paths = {str(path.relative_to(self.root)): path for path in self.root.rglob("*") if path.is_file()}
        return {
            name: Content(bytes=path.stat().st_size, sha256=file_digest(path, self.root))
            for name, path in sorted(paths.items())
        }


def write_bundle(path: Path, topic: Topic, asked: Asked, observe: Observe) -> BundleManifest:
    """Write the bundle of a run, a fleet or a comparison. The report in it is made from the records in it."""
    place = check_place(path, MARK, KEY)
    if not any(form.OF in WITH_RECORDS for form in asked.formats):
        asked = replace(asked, formats=[*asked.formats, format_of("html")])
    layout = layout_of(topic)
    with tempfile.TemporaryDirectory(prefix="steelyard-") as temporary:
        staged = Staged(Path(temporary).resolve() / ROOT)
        _copy_runs(layout, staged, observe)
        staged.write(layout.files)
        document = _document(topic, staged, layout.home)
        with placed_from(staged.root):
            staged.write({place_of(file): text for file, text in document.derived().items()})
            staged.write({f"{REPORT}/{file.name}": file.content() for file in rendered(document.report, asked)})
        manifest = BundleManifest(
            kind=topic.kind,
            home=layout.home,
            formats=[SUFFIXES[form.SUFFIX] for form in asked.formats],
            figures=list(asked.figures),
            texts=dict(asked.texts),
            environment=this_environment(),
            redacted=staged.redacted,
            left_out=staged.left_out,
            files=staged.contents(),
        )
        staged.write({FILE: manifest.model_dump_json(indent=2) + "\n"})
        try:
            with replacing(place) as file:
                archive.write(file, staged.root, [FILE, *manifest.files], lambda count: observe("packing", count))
        except OSError as reason:
            raise unwritable(path, reason, KEY) from None
    return manifest


def _document(topic: Topic, staged: Staged, home: str) -> Document:
    """The document of the copied records. An error is the one of the original, with the names that the user knows."""
    if staged.redacted:  # the copied records are not those that were compared
        read(topic)
    try:
        with placed_from(staged.root):
            return read(Topic(topic.kind, staged.root / home), unchanged=not staged.redacted)
    except InputError:
        read(topic)
        raise


def _copy_runs(layout: Layout, staged: Staged, observe: Observe) -> None:
    sources: dict[str, tuple[Path, str]] = {}
    for run, place in layout.runs.items():
        if records.load(run).status == "running":
            complaint, way_on = f"{place_of(run)} is still running", "the same command after it has ended"
            raise InputError(complaint, key=KEY, value=str(run), expected="runs that have ended", next=way_on)
        judged = [verdict.FILE] if layout.as_checked and is_regular(run / verdict.FILE) else []
        sources |= {f"{place}/{name}": (run, name) for name in [*record_files(run), *judged]}
    archive.check_names([*sources, *layout.files])
    archive.check_space(staged.root.parent, sum((run / name).stat().st_size for run, name in sources.values()))
    for place, (run, name) in sources.items():
        _copy(run, name, staged, place, lambda count: observe("copying", count))


def _copy(run: Path, name: str, staged: Staged, place: str, observe: Callable[[int], None]) -> None:
    """Copy a file without secrets, line by line; a binary file with a secret is left out."""
    copied, redactor = staged.root / place, Redactor(as_json=name.endswith(_JSON))
    try:
        source = open_regular(run / name, below=run)
    except OSError as reason:
        raise unreadable(run / name, reason.strerror or str(reason)) from None
    try:
        copied.parent.mkdir(parents=True, exist_ok=True)
        with source, copied.open("xb") as copy:
            is_binary = b"\0" in source.peek(1)
            while line := source.readline(LINE_BYTES):
                copy.write(redactor(line))
                observe(len(line))
        if not redactor.changed:
            return
        if is_binary:
            copied.unlink()
            staged.left_out.append(place)
        else:
            staged.redacted[place] = redactor.changed
    except OSError as reason:
        raise archive.not_stored(copied, reason) from None
