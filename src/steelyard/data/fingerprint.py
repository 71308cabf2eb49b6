"""Fingerprints of a corpus or a tokenizer: one hash of content, which copies under other paths share."""

import hashlib
import os
import shlex
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from steelyard.errors import InputError

FILES, TOKENS = "files-sha256", "tokens-sha256"
_BLOCK = 1 << 22
_MAGIC = b"MMIDIDX\x00\x00"
_DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
"""Codes of integers in a .idx file of Megatron."""
_WIDEST = 2**32


@dataclass(frozen=True, slots=True)
class Fingerprint:
    text: str
    """Kind and hash. Equal token ids have equal fingerprints, as .npy and as Megatron's .bin and .idx."""
    kind: str
    files: int
    size: int
    """Bytes."""


def fingerprint(paths: Sequence[Path]) -> Fingerprint:
    """The fingerprint of these files in order; a directory stands for its files, sorted by path."""
    files = [file for path in paths for file in _files(path)]
    corpora = [_tokens_of(file) for file in files]
    if files and all(corpora):
        ids, counted = hashlib.sha256(), 0
        for corpus in corpora:
            assert corpus is not None
            counted += _hash_tokens(*corpus, ids)
        return Fingerprint(f"{TOKENS}:{ids.hexdigest()}", TOKENS, len(files), counted)
    whole, size = hashlib.sha256(), 0
    for file in files:
        digest, read = _hash_file(file)
        whole.update(struct.pack("<Q", read) + digest)
        size += read
    return Fingerprint(f"{FILES}:{whole.hexdigest()}", FILES, len(files), size)


def fingerprint_if_small(path: Path, most_bytes: int) -> str | None:
    """The fingerprint of one corpus; None if it is missing, unreadable, or larger than this."""
    try:
        files = list(_files(path))
        if sum(file.lstat().st_size for file in files) > most_bytes:
            return None
        return fingerprint([path]).text
    except (InputError, OSError):
        return None


def _files(path: Path) -> Iterator[Path]:
    """Regular files; of Megatron's pair of .bin and .idx, which share a prefix, the .bin."""
    if not os.path.lexists(path) and (pair := path.with_name(path.name + ".bin")).exists():
        path = pair
    try:
        mode = path.lstat().st_mode
    except OSError as reason:
        raise _refused(path, reason.strerror or str(reason), "an existing file or directory") from None
    if stat.S_ISREG(mode):
        yield path
    elif stat.S_ISDIR(mode):
        try:
            inside = sorted(path.iterdir(), key=lambda each: each.name)
        except OSError as reason:
            raise _refused(path, reason.strerror or str(reason), "a readable directory") from None
        binaries = {each.stem for each in inside if each.suffix == ".bin"}
        for each in inside:
            if not (each.suffix == ".idx" and each.stem in binaries):
                yield from _files(each)
    elif stat.S_ISLNK(mode):
        raise _refused(
            path, "is a link", "the file itself: links are not followed", f"readlink -f {shlex.quote(str(path))}"
        )
    else:
        raise _refused(path, "is not a regular file", "a file or a directory")


def _refused(path: Path, problem: str, expected: str, next: str | None = None) -> InputError:
    look = f"ls -l {shlex.quote(str(path))}"
    return InputError(f"{path}: {problem}", key="PATH", value=str(path), expected=expected, next=next or look)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file and its size; it must not have become a link or a device since it was listed."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as reason:
        raise _refused(path, reason.strerror or str(reason), "a readable file") from None
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise _refused(path, "is not a regular file", "a file or a directory")
        yield file, about.st_size


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block


def _hash_file(path: Path) -> tuple[bytes, int]:
    digest, read = hashlib.sha256(), 0
    with _opened(path) as (file, size):
        for block in _blocks(file):
            digest.update(block)
            read += len(block)
    if read != size:
        raise _refused(path, "changed while it was read", "a file that nothing writes")
    return digest.digest(), read


def _tokens_of(path: Path) -> tuple[Path, int, str] | None:
    """The file with token ids, where they begin, and their type; None if it is not a file of token ids."""
    if path.suffix == ".npy":
        with _opened(path) as (file, _):
            try:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version[0] == 1 else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(file)
            except ValueError:
                return None
            return (path, file.tell(), dtype.str) if len(shape) == 1 and dtype.kind in "iu" else None
    index = path.with_suffix(".idx")
    if path.suffix != ".bin" or not index.exists():
        return None
    with _opened(index) as (file, _):
        head = file.read(len(_MAGIC) + 9)
    dtype_of = _DTYPES.get(head[-1]) if head.startswith(_MAGIC) and len(head) == len(_MAGIC) + 9 else None
    return (path, 0, dtype_of) if dtype_of else None


def _hash_tokens(path: Path, start: int, dtype: str, into: "hashlib._Hash") -> int:
    """Hash ids as 32-bit numbers, so that the width of the file does not count."""
    width = np.dtype(dtype).itemsize
    with _opened(path) as (file, size):
        file.seek(start)
        for block in _blocks(file):
            if len(block) % width:
                raise _refused(path, "ends within a token id", "a complete file")
            ids = np.frombuffer(block, dtype=dtype)
            if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= _WIDEST):
                raise _refused(path, "contains a negative or too large token id", "ids below 2^32")
            into.update(ids.astype("<u4").tobytes())
        if file.tell() != size:
            raise _refused(path, "changed while it was read", "a file that nothing writes")
    return size
