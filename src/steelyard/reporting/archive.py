"""Zip files of others, checked before anything is unpacked, and our own, in which equal content gives equal bytes."""

import contextlib
import hashlib
import re
import shutil
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from steelyard.errors import InfrastructureError, InputError
from steelyard.files import open_regular
from steelyard.ingestion.sources import MOST_UNPACKED, in_units

KEY = "BUNDLE"
MOST_RATIO = 200
"""Limit of unpacked bytes per byte of the file, unless the user sets one. Logs and records reach 30."""
SMALL = 256 << 20
"""Unpacked bytes that any file may have."""
MOST_DIRECTORY_BYTES = 16 << 20
"""Limit of the table of entries, which is read at once: 150,000 entries of our names."""
_MOST_NAME, _MOST_PART, _MOST_DEEP = 1024, 255, 16
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_LOCAL_HEADER_BYTES = 30
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BLOCK_BYTES = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = (stat.S_IFREG | 0o644) << 16
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError),
)
"""What zipfile raises for a file that is not a zip, or is damaged."""


@dataclass(frozen=True, slots=True)
class Content:
    """Size and checksum of an unpacked file."""

    bytes: int
    sha256: str


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

    def unpack(self, root: Path, observe: Callable[[int], None] = lambda count: None) -> dict[str, Content]:
        """Write all entries below an empty directory; `observe` is called with the bytes of each block."""
        return {name: self._unpack(name, root / name, observe) for name in self._entries}

    def _unpack(self, name: str, place: Path, observe: Callable[[int], None]) -> Content:
        digest, total = hashlib.sha256(), 0
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            copy = place.open("xb")
        except OSError as reason:
            raise _unwritable(place, reason) from None
        with copy:
            for block in self._blocks(name):
                digest.update(block)
                total += len(block)
                observe(len(block))
                try:
                    copy.write(block)
                except OSError as reason:
                    raise _unwritable(place, reason) from None
        return Content(total, digest.hexdigest())

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
        file = open_regular(path.resolve())
    except OSError as reason:
        raise unreadable(path, reason.strerror or str(reason)) from None
    with file:
        size = file.seek(0, 2)
        try:
            archive = zipfile.ZipFile(_Bounded(path, file))  # type: ignore[call-overload]
        except _DAMAGED as reason:
            raise refused(path, f"not a zip ({reason})") from None
        with archive:
            most = most_unpacked or min(MOST_UNPACKED, max(SMALL, MOST_RATIO * size))
            yield Archive(path, archive, _checked(path, archive, most))


class _Bounded:
    """The file as zipfile reads it; the table of entries is read in one call, whose size the file declares."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MOST_DIRECTORY_BYTES:
            raise refused(self._path, f"its table of entries is larger than {MOST_DIRECTORY_BYTES >> 20} MiB")
        return self._file.read(size)


def _checked(path: Path, archive: zipfile.ZipFile, most_unpacked: int) -> dict[str, zipfile.ZipInfo]:
    entries: dict[str, zipfile.ZipInfo] = {}
    spellings: dict[str, str] = {}
    for entry in archive.infolist():
        name = entry.orig_filename
        if (problem := name_problem(name) or _entry_problem(entry)) is not None:
            raise refused(path, f"entry {name[:200]!r} {problem}")
        spelling = _alike(name)
        if (other := spellings.setdefault(spelling, name)) is not name or name in entries:
            raise refused(path, f"entry {name!r} and entry {other!r} are one file on some systems")
        entries[name] = entry
    for name in entries:
        for parent in PurePosixPath(name).parents:
            if _alike(str(parent)) in spellings:
                raise refused(path, f"entry {str(parent)!r} is a file and a directory")
    _check_places(path, archive)
    if sum(entry.file_size for entry in entries.values()) > most_unpacked:
        raise InputError(
            f"{path} unpacks to more than {in_units(most_unpacked)}",
            key="--max-unpacked",
            value=in_units(most_unpacked),
            expected="a smaller bundle, or a larger limit",
            next=f"steelyard verify {path} --max-unpacked {in_units(16 * most_unpacked)}",
        )
    return entries


def name_problem(name: str) -> str | None:
    """Why a name is not a plain relative path on every system; None if it is."""
    parts = name.split("/")
    if not name or len(name) > _MOST_NAME or len(parts) > _MOST_DEEP:
        return "has no name" if not name else "has a name that is too long"
    if "\\" in name or ":" in name or not name.isprintable():
        return "has a name with a backslash, a colon or a control character"
    if any(part in ("", ".", "..") for part in parts):
        return "has a name that is not a plain path"
    if any(len(part.encode("utf-8", "surrogatepass")) > _MOST_PART or part.endswith((" ", ".")) for part in parts):
        return "has a name that some systems cannot store"
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
            raise refused(path, f"entry {entry.orig_filename!r} overlaps another")
        end = entry.header_offset + _LOCAL_HEADER_BYTES + len(entry.orig_filename) + entry.compress_size
    if end > archive.start_dir:
        raise refused(path, "its last entry overlaps the table of entries")


def write(file: BinaryIO, root: Path, names: Iterable[str], observe: Callable[[int], None]) -> None:
    """Write files below `root` as a zip, in this order: same names and content, same bytes. Names ending in .json
    at the top are stored as they are, so that the kind of the file can be told from its start."""
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
        raise InfrastructureError(complaint, key="TMPDIR", value=str(directory), next="TMPDIR=DIR steelyard …")


def refused(path: Path, problem: str) -> InputError:
    expected = "a bundle as `steelyard report --bundle` writes it"
    return InputError(f"{path} is refused: {problem}", key=KEY, value=str(path), expected=expected)


def unreadable(path: Path, problem: str) -> InputError:
    return InputError(f"{path} cannot be read ({problem})", key=KEY, value=str(path), expected="a bundle (zip)")


def _unwritable(place: Path, reason: OSError) -> InfrastructureError:
    complaint = f"{place} cannot be written ({reason.strerror})"
    return InfrastructureError(complaint, key="TMPDIR", value=str(place), next="TMPDIR=DIR steelyard …")
