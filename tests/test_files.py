"""Files that somebody else may have put there."""

import os
import socket
from pathlib import Path

import pytest

from steelyard.files import open_regular, read_document, replace_file


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/a").write_bytes(b"line\n")
    with open_regular(tmp_path / "logs/a", below=tmp_path) as file:
        assert file.read() == b"line\n"
    assert read_document(tmp_path / "logs/a") == b"line\n"


@pytest.mark.parametrize("kind", ["pipe", "link", "directory", "socket", "device"])
def test_anything_else_is_refused_without_waiting(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "directory":
        path.mkdir()
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(os.fspath(path))
    else:
        path = Path("/dev/zero")
    with pytest.raises(OSError, match="expected a regular file"):
        read_document(path)


def test_no_folder_on_the_way_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "logs").symlink_to("/etc")
    with pytest.raises(OSError, match=r"symbolic link|Not a directory"):
        open_regular(tmp_path / "logs/passwd", below=tmp_path)


def test_a_folder_that_is_itself_named_by_a_link_is_opened(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/a").write_bytes(b"here")
    (tmp_path / "latest").symlink_to(tmp_path / "run")
    assert read_document(tmp_path / "latest/a", below=tmp_path / "latest") == b"here"


def test_more_than_the_cap_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "big"
    with path.open("wb") as file:
        file.truncate(10 << 20)
    with pytest.raises(OSError, match="larger than 1 MiB"):
        read_document(path, most_bytes=1 << 20)


def test_writing_replaces_a_link_and_leaves_what_it_led_to(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "report.html").symlink_to(victim)
    replace_file(tmp_path / "report.html", "page")
    assert victim.read_text() == "mine"
    assert (tmp_path / "report.html").read_text() == "page"
    assert not (tmp_path / "report.html").is_symlink()


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    path.write_text("old")
    path.chmod(0o640)
    replace_file(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [path]
