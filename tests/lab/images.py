"""Small images: a busybox tree, files of the test's own, and on request the machine's Python."""

import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.runc_bundle import MARK

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
GROUP = "root:x:0:\ntty:x:5:\nvideo:x:44:\nrender:x:105:\nnogroup:x:65534:\n"


@dataclass(frozen=True, slots=True)
class Executable:
    """A file that may be run."""

    text: str


Content = str | bytes | Executable


def python_env() -> dict[str, str]:
    """The variables of an image in which `python` is the repository's."""
    mark, value = MARK.split("=")
    return {mark: value, "PATH": f"{sys.prefix}/bin:{PATH}"}


def quoted(value: str) -> str:
    """A value as a Dockerfile's ENV reads it back."""
    return '"' + re.sub(r'(["\\$])', r"\\\1", value) + '"'


def busybox_tree(folder: Path, files: Mapping[str, Content] | None = None) -> Path:
    """Lay out the root of an image below a folder that is empty or new."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    for each in ("bin", "dev", "etc", "proc", "root", "sys", "usr/bin", "usr/local/bin", "var"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    (folder / "tmp").mkdir(mode=0o777, exist_ok=True)
    (folder / "tmp").chmod(0o1777)
    shutil.copy(busybox, folder / "bin/busybox")
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    for applet in set(listed.stdout.split()) - {"busybox"}:
        (folder / "bin" / applet).symlink_to("busybox")
    (folder / "usr/bin/env").symlink_to("/bin/busybox")
    (folder / "bin/bash").symlink_to("/usr/bin/bash")
    (folder / "etc/passwd").write_text(PASSWD)
    (folder / "etc/group").write_text(GROUP)
    for path, content in (files or {}).items():
        _write(folder / path.lstrip("/"), content)
    return folder


def pack(tree: Path, tar: Path) -> Path:
    """Pack a tree with root as owner and no times, so that equal trees are equal archives."""
    with tarfile.open(tar, "w") as archive:
        for path in sorted(tree.rglob("*")):
            archive.add(path, str(path.relative_to(tree)), recursive=False, filter=_plain)
    return tar


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = "root"
    return entry


def _write(path: Path, content: Content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        path.unlink()
    if isinstance(content, Executable):
        path.write_text(content.text)
        path.chmod(0o755)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content)
