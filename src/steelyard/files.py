"""Opens files in untrusted folders: only regular files, no symbolic links, bounded size."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextvars import ContextVar
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

DOCUMENT_BYTES = 64 << 20
"""Limit for files that are read whole; a plan of 1,000 nodes has 12 MiB."""

_ROOT: ContextVar[Path | None] = ContextVar("_ROOT", default=None)

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextlib.contextmanager
def placed_from(root: Path) -> Iterator[None]:
    """Within the block, `open_regular` opens nothing outside of `root`, and texts name files relative to it.

    A report is then the same on each machine.
    """
    token = _ROOT.set(root)
    try:
        yield
    finally:
        _ROOT.reset(token)


def place_of(path: Path) -> str:
    """A path as texts name it: as given, or relative to the folder of `placed_from`."""
    root = _ROOT.get()
    return str(path) if root is None else os.path.relpath(path, root)


def open_regular(path: Path, below: Path | None = None) -> BufferedReader:
    """Open a regular file for reading, without blocking.

    A symbolic link as the last part of the path is refused; with `below`, as any part after that folder. So is a file
    outside of the folder of `placed_from`.
    Raises OSError, whose strerror names the kind of file found.
    """
    root = _ROOT.get()
    if root is not None and not Path(os.path.normpath(path)).is_relative_to(root):
        raise OSError(errno.EACCES, f"outside of {root.name}/")
    folder = _open_folder(path.parent, below) if below is not None else None
    try:
        name = path if folder is None else path.name
        descriptor = _open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, folder)
    finally:
        if folder is not None:
            os.close(folder)
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"{_KINDS.get(kind, 'something else')}, expected a regular file")
    return os.fdopen(descriptor, "rb")


def read_document(path: Path, below: Path | None = None, most_bytes: int = DOCUMENT_BYTES) -> bytes:
    """Read a whole regular file; OSError if it is larger than `most_bytes`."""
    with open_regular(path, below) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"larger than {most_bytes >> 20:,} MiB")
    return content


def replace_file(path: Path, content: str | bytes) -> None:
    """Write a file atomically by rename."""
    with replacing(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that replaces `path` by rename at the end of the block; a symbolic link is replaced, not followed.

    An existing regular file keeps its mode; a new file gets the mode of the umask.
    """
    temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                temporary.chmod(stat.S_IMODE(mode) & 0o777)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _open_folder(folder: Path, below: Path) -> int:
    descriptor = os.open(below, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in folder.relative_to(below).parts:
        try:
            inner = _open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _open(name: Path | str, flags: int, folder: int | None) -> int:
    try:
        return os.open(name, flags | os.O_CLOEXEC, dir_fd=folder)
    except OSError as reason:
        if reason.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "a symbolic link, expected a regular file") from None
        if reason.errno == errno.ENXIO:  # a socket
            raise OSError(errno.ENXIO, "a socket, expected a regular file") from None
        raise
