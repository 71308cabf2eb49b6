"""Zip files of others, checked before anything is unpacked, and our own, in which equal content gives equal bytes."""

import contextlib
import hashlib
import os
import shlex
import shutil
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from pydantic import Field

from steelyard.errors import InfrastructureError, InputError
from steelyard.files import open_regular
from steelyard.ingestion.sources import MOST_UNPACKED, in_units
from steelyard.records.manifest import Record

KEY = "BUNDLE"
EXPECTED = "a bundle as `steelyard report --bundle` writes it"
MOST_RATIO = 200
"""Limit of unpacked bytes per byte of the file, unless the user sets one. Logs and records reach 30."""
SMALL = 256 << 20
"""Unpacked bytes that any file may have."""
MOST_DIRECTORY_BYTES = 16 << 20
"""Limit of the table of entries, which is read at once, and of the manifest: 80,000 files with our names."""
_MOST_NAME, _MOST_PART, _MOST_DEEP = 1024, 255, 16
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_LOCAL_HEADER_BYTES, _MANIFEST_ENTRY_BYTES = 30, 160
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BLOCK_BYTES = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = (stat.S_IFREG | 0o644) << 16
_LARGER = "set TMPDIR to a directory with more space"
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError),
)
"""What zipfile raises for a file that is not a zip, or is damaged."""


class Content(Record):
    """Size and checksum of a file."""

    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"\A[0-9a-f]{64}\z")


class Archive:
    """An open zip whose entries are regular files with plain names, of limited size."""

    def __init__(self, path: Path, file: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo]) -> None:
        self.path, self._file, self._entries = path, file, entries

    @property
    def names(self) -> Sequence[str]:
        return list(self._entries)

    @property
    def unpacked_bytes(self) -> int:
        return sum(entry.file_size for entry in self._entries.values())

    def read(self, name: str, most_bytes: int) -> bytes:
        """A whole entry, of limited size."""
        if self._entries[name].file_size > most_bytes:
            raise refused(self.path, f"{name} is larger than {most_bytes >> 20} MiB")
        return b"".join(self._blocks(name))

    def unpack(self, names: Iterable[str], root: Path, observe: Callable[[int], None]) -> dict[str, Content]:
        """Write entries below an empty directory; `observe` is called with the bytes of each block."""
        return {name: self._unpack(name, root / name, observe) for name in names}

    def _unpack(self, name: str, place: Path, observe: Callable[[int], None]) -> Content:
        digest, total = hashlib.sha256(), 0
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            copy = place.open("xb")
        except OSError as reason:
            raise not_stored(place, reason) from None
        with copy:
            for block in self._blocks(name):
                digest.update(block)
                total += len(block)
                observe(len(block))
                try:
                    copy.write(block)
                except OSError as reason:
                    raise not_stored(place, reason) from None
        return Content(bytes=total, sha256=digest.hexdigest())

    def _blocks(self, name: str) -> Iterator[bytes]:
        """The content of an entry, at most as long as declared."""
        entry = self._entries[name]
        left = entry.file_size
        try:
            with self._file.open(entry) as stream:
                while block := stream.read(_BLOCK_BYTES):
                    left -= len(block)
                    if left < 0:
                        raise refused(self.path, f"{name} is longer than declared")
                    yield block
        except _DAMAGED as reason:
            raise refused(self.path, f"{name} is damaged ({reason})") from None
        if left:
            raise refused(self.path, f"{name} is shorter than declared")


@contextlib.contextmanager
def opened(path: Path, most_unpacked: int | None = None) -> Iterator[Archive]:
    """Open a zip and check all of its entries; InputError if one of them could harm. Nothing is unpacked yet."""
    try:
        file = open_regular(Path(os.path.realpath(path)))  # the user may name a link
    except OSError as reason:
        complaint, way_on = f"{path} cannot be read ({reason.strerror})", "steelyard report NAME --bundle FILE"
        raise InputError(complaint, key=KEY, value=str(path), expected=EXPECTED, next=way_on) from None
    with file:
        size = file.seek(0, 2)
        try:
            archive = zipfile.ZipFile(_Bounded(path, file))
        except _DAMAGED as reason:
            raise refused(path, f"not a zip ({reason})") from None
        with archive:
            usual = min(MOST_UNPACKED, max(SMALL, MOST_RATIO * size >> 20 << 20))
            most = usual if most_unpacked is None else most_unpacked
            yield Archive(path, archive, _checked(path, archive, most))


class _Bounded:
    """The file as zipfile reads it; the table of entries is read in one call, whose size the file declares."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        most = MOST_DIRECTORY_BYTES + 1
        content = self._file.read(min(size, most) if size >= 0 else most)
        if len(content) == most:
            raise refused(self._path, f"its table of entries is larger than {MOST_DIRECTORY_BYTES >> 20} MiB")
        return content


def _checked(path: Path, archive: zipfile.ZipFile, most_unpacked: int) -> dict[str, zipfile.ZipInfo]:
    entries = archive.infolist()
    for entry in entries:
        if (problem := _entry_problem(entry)) is not None:
            raise refused(path, f"it contains {entry.orig_filename[:200]!r}, which {problem}")
    if (wrong := _names_problem([entry.orig_filename for entry in entries])) is not None:
        raise refused(path, f"it contains {wrong}")
    _check_places(path, archive)
    if sum(entry.file_size for entry in entries) > most_unpacked:
        raise InputError(
            f"{path} unpacks to more than {in_units(most_unpacked)}",
            key="--max-unpacked",
            value=in_units(most_unpacked),
            expected="a smaller bundle, or a larger limit",
            next=f"steelyard verify {shlex.quote(str(path))} --max-unpacked {in_units(16 * most_unpacked)}",
        )
    return {entry.orig_filename: entry for entry in entries}


def check_names(names: Sequence[str]) -> None:
    """Refuse files that no bundle can have."""
    problem = _names_problem(names)
    if sum(_MANIFEST_ENTRY_BYTES + len(name.encode(errors="replace")) for name in names) > MOST_DIRECTORY_BYTES:
        problem = f"{len(names):,} files"
    if problem is not None:
        expected, way_on = "plain names, each once", "rename it, or bundle a part"
        raise InputError(f"a bundle cannot contain {problem}", key="--bundle", expected=expected, next=way_on)


def _names_problem(names: Sequence[str]) -> str | None:
    spellings: dict[str, str] = {}
    for name in names:
        if (problem := name_problem(name)) is not None:
            return f"{name[:200]!r}, which {problem}"
        spelling = _alike(name)
        if spelling in spellings:
            return f"{spellings[spelling]!r} and {name!r}, which are one file on some systems"
        spellings[spelling] = name
    for spelling in spellings:
        above = spelling
        while above := above.rpartition("/")[0]:
            if above in spellings:
                return f"{spellings[above]!r} as a file and as a directory"
    return None


def name_problem(name: str) -> str | None:
    """Why a name is not a plain relative path; None if it is."""
    parts = name.split("/")
    if not name or len(name) > _MOST_NAME or len(parts) > _MOST_DEEP:
        return "is empty or too long"
    if "\\" in name or not name.isprintable():
        return "has a backslash or a control character"
    if any(part in ("", ".", "..") for part in parts) or name[1:2] == ":":
        return "is not a plain path"
    if any(len(part.encode()) > _MOST_PART for part in parts):
        return "is too long"
    return None


def _alike(name: str) -> str:
    """The same for names that some file systems do not distinguish."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _entry_problem(entry: zipfile.ZipInfo) -> str | None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if entry.flag_bits & _ENCRYPTED:
        return "is encrypted"
    if kind not in (0, stat.S_IFREG):
        return "is a symbolic link" if kind == stat.S_IFLNK else "is not a regular file"
    if entry.compress_type not in _METHODS:
        return "is compressed by another method than deflate"
    if entry.compress_type == zipfile.ZIP_STORED and entry.file_size != entry.compress_size:
        return "declares two sizes"
    return None


def _check_places(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse entries that share bytes of the file: a small file can then unpack to any size."""
    end = 0
    for entry in sorted(archive.infolist(), key=lambda entry: entry.header_offset):
        if entry.header_offset < end:
            raise refused(path, f"it contains {entry.orig_filename!r}, which overlaps another entry")
        end = entry.header_offset + _LOCAL_HEADER_BYTES + len(entry.orig_filename) + entry.compress_size
    if end > archive.start_dir:
        raise refused(path, "its last entry overlaps its table of entries")


def write(file: BinaryIO, root: Path, names: Iterable[str], observe: Callable[[int], None]) -> None:
    """Write files below `root` as a zip, in this order: same names and content, same bytes.

    A file at the top is not compressed, so that a bundle is recognized by its start.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system, entry.external_attr = 3, _FILE_MODE
            entry.compress_type = zipfile.ZIP_DEFLATED if "/" in name else zipfile.ZIP_STORED
            large = (root / name).stat().st_size >= zipfile.ZIP64_LIMIT // 2
            with open_regular(root / name, below=root) as source, archive.open(entry, "w", force_zip64=large) as copy:
                while block := source.read(_BLOCK_BYTES):
                    copy.write(block)
                    observe(len(block))


def check_space(directory: Path, needed: int) -> None:
    """Refuse before the disk is full."""
    free = shutil.disk_usage(directory).free
    if needed > free:
        complaint = f"{directory} has {free >> 20:,} MiB free, and {needed >> 20:,} MiB are needed"
        raise InfrastructureError(complaint, key="TMPDIR", value=str(directory), next=_LARGER)


def refused(path: Path, problem: str) -> InputError:
    """The error for a file that is not a bundle, is damaged, or could harm."""
    way_on = "get the bundle again from its author"
    return InputError(f"{path} is refused: {problem}", key=KEY, value=str(path), expected=EXPECTED, next=way_on)


def not_stored(place: Path, reason: OSError) -> InfrastructureError:
    """The error for a temporary file that cannot be written."""
    complaint = f"{place} cannot be written ({reason.strerror})"
    return InfrastructureError(complaint, key="TMPDIR", value=str(place), next=_LARGER)
