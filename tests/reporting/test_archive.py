"""Zips that could harm are refused before anything is unpacked."""

import json
import os
import stat
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bundles
from steelyard.reporting import archive

Add = Callable[[zipfile.ZipFile], None]


@pytest.fixture
def refusal(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """The error of `verify` for a file; nothing was written anywhere."""

    def call(path: Path, *options: str) -> dict[str, Any]:
        place = tmp_path / "temporary"
        place.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        before = set(tmp_path.rglob("*"))
        done = cli("verify", path, "--json", *options)
        assert done.status == 2, done.out
        assert set(tmp_path.rglob("*")) == before
        return dict(done.document["error"])

    return call


@pytest.fixture
def zipped(tmp_path: Path) -> Callable[[Add], Path]:
    """A zip with a manifest and what `add` adds."""

    def call(add: Add) -> Path:
        path = tmp_path / "hostile.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr(bundles.MANIFEST, "{}")
            add(packed)
        return path

    return call


def entry(name: str, mode: int = stat.S_IFREG | 0o644, **attributes: int) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo("entry")
    made.filename, made.external_attr, made.create_system = name, mode << 16, 3
    for attribute, value in attributes.items():
        setattr(made, attribute, value)
    return made


@pytest.mark.parametrize(
    "name",
    [
        *("../run.json", "runs/../../etc/passwd", "/etc/passwd", "//host/share", "C:/run.json", "C:run.json"),
        *("runs\\run.json", "..\\run.json", "runs//run.json", "./run.json", "runs/.", "runs/", "runs/..", ".."),
        *("runs/\x07.json", "runs/\u202e.json", "runs/\n", "a" * 300, "/".join("a" * 30), "x/" * 600 + "x"),
    ],
)
def test_a_name_that_is_not_a_plain_path_is_refused(refusal: Any, zipped: Any, name: str) -> None:
    error = refusal(zipped(lambda packed: packed.writestr(entry(name), "x")))
    assert error["key"] == "BUNDLE"


def test_a_null_in_a_name_is_refused(refusal: Any, zipped: Any) -> None:
    path = zipped(lambda packed: packed.writestr(entry("runs/ab"), "x"))
    path.write_bytes(path.read_bytes().replace(b"runs/ab", b"runs/\0b"))
    refusal(path)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFDIR, stat.S_IFSOCK])
def test_only_regular_files_are_unpacked(refusal: Any, zipped: Any, kind: int) -> None:
    refusal(zipped(lambda packed: packed.writestr(entry("runs/a", kind | 0o777), "/etc/passwd")))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("runs/a", "runs/a"),
        ("runs/a", "runs/A"),
        ("runs/stra\u00dfe", "runs/STRASSE"),
        ("runs/\u00e9", "runs/e\u0301"),
        ("runs/a", "runs/a/b"),
        ("runs/A", "runs/a/b"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_some_system_takes_for_one_are_refused(refusal: Any, zipped: Any, first: str, second: str) -> None:
    def add(packed: zipfile.ZipFile) -> None:
        packed.writestr(entry(first), "x")
        packed.writestr(entry(second), "y")

    refusal(zipped(add))


def rewritten(path: Path, field: int, value: int, size: str = "<H") -> Path:
    """A field of the last entry in the table of entries, at its offset, with another value."""
    content = bytearray(path.read_bytes())
    struct.pack_into(size, content, content.rindex(b"PK\x01\x02") + field, value)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("field", "value", "size"),
    [
        (8, 0x1, "<H"),
        (8, 0x41, "<H"),
        (10, zipfile.ZIP_LZMA, "<H"),
        (10, 99, "<H"),
        (24, 1 << 20, "<I"),
        (24, 1, "<I"),
        (16, 12345, "<I"),
        (42, 0, "<I"),
        (42, 1 << 30, "<I"),
        (20, 1 << 30, "<I"),
    ],
    ids=[
        *("encrypted", "strongly encrypted", "lzma", "unknown method", "longer", "shorter", "checksum", "overlap"),
        *("beyond the end", "too long"),
    ],
)
def test_an_entry_that_lies_is_refused(
    refusal: Any, tmp_path: Path, made_bundle: Path, field: int, value: int, size: str
) -> None:
    path = tmp_path / "lying.zip"
    path.write_bytes(made_bundle.read_bytes())
    refusal(rewritten(path, field, value, size))


@pytest.fixture(scope="module")
def made_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundles.make("run", tmp_path_factory.mktemp("run"))


def test_a_bomb_is_refused_by_what_it_declares(refusal: Any, zipped: Any) -> None:
    """600 MiB of zeros in 600 KB."""

    def add(packed: zipfile.ZipFile) -> None:
        with packed.open(entry("runs/a/run.json", compress_type=zipfile.ZIP_DEFLATED), "w", force_zip64=True) as file:
            for _ in range(600):
                file.write(bytes(1 << 20))

    path = zipped(add)
    error = refusal(path)
    assert (error["key"], error["next"]) == ("--max-unpacked", f"steelyard verify {path} --max-unpacked 4GiB")


def test_the_limit_is_an_option(refusal: Any, cli: Any, made_bundle: Path) -> None:
    error = refusal(made_bundle, "--max-unpacked", "64KiB")
    assert (error["key"], error["value"]) == ("--max-unpacked", "64KiB")
    assert cli("verify", made_bundle, "--max-unpacked", "2MiB").status == 0
    assert cli("verify", made_bundle, "--max-unpacked", "much").status == 2


def test_entries_that_share_bytes_are_refused(refusal: Any, tmp_path: Path) -> None:
    """One compressed kernel, which many entries of the table point to."""
    path = tmp_path / "overlapping.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(bundles.MANIFEST, "{}")
        packed.writestr("runs/0", bytes(1 << 20))
        kernel = packed.getinfo("runs/0")
        for at in range(1, 50):
            copy = entry(f"runs/{at}")
            for name in ("header_offset", "CRC", "compress_size", "file_size", "compress_type"):
                setattr(copy, name, getattr(kernel, name))
            packed.filelist.append(copy)
    refusal(path)


def test_a_large_table_of_entries_is_not_read(refusal: Any, zipped: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_DIRECTORY_BYTES", 1 << 17)

    def add(packed: zipfile.ZipFile) -> None:
        for at in range(3000):
            packed.writestr(f"runs/{at}", "")

    refusal(zipped(add))


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"PK\x05\x06" + bytes(18), b"not a zip" * 1000, b"\x1f\x8b" + bytes(99)]
)
def test_what_is_not_a_bundle_is_refused(refusal: Any, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.zip"
    path.write_bytes(content)
    refusal(path)


@pytest.mark.parametrize(
    "manifest",
    [
        *("", "{", "[]", "null", "[" * 10**5, '{"format": "steelyard bundle"}', '{"schema_version": 99}', "\ufeff{}"),
        '{"a":' * 10**4 + "1" + "}" * 10**4,
    ],
)
def test_a_manifest_that_cannot_be_read_is_refused(refusal: Any, tmp_path: Path, manifest: str) -> None:
    refusal(bundles.pack(tmp_path / "other.zip", {bundles.MANIFEST: manifest.encode()}))


@pytest.mark.parametrize("kind", ["absent", "directory", "pipe"])
def test_a_path_that_is_no_file_is_refused_without_waiting(refusal: Any, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bundle.zip"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    refusal(path)


def test_a_link_to_a_bundle_is_followed_because_the_user_named_it(cli: Any, tmp_path: Path, made_bundle: Path) -> None:
    (tmp_path / "latest.zip").symlink_to(made_bundle)
    assert cli("verify", tmp_path / "latest.zip").status == 0


@pytest.mark.parametrize("home", ["../runs/first", "/etc", "runs/../..", "", "runs\\first"])
def test_a_home_outside_of_the_bundle_is_refused(refusal: Any, tmp_path: Path, made_bundle: Path, home: str) -> None:
    files = bundles.files_of(made_bundle)
    files[bundles.MANIFEST] = json.dumps({**json.loads(files[bundles.MANIFEST]), "home": home}).encode()
    refusal(bundles.pack(tmp_path / "other.zip", files))


@pytest.mark.parametrize("version", ["1.0; rm -rf ~", "$(id)", "", "1.0\n", "x" * 200])
def test_a_version_that_would_act_in_a_command_is_refused(
    refusal: Any, tmp_path: Path, made_bundle: Path, version: str
) -> None:
    files = bundles.files_of(made_bundle)
    manifest = json.loads(files[bundles.MANIFEST])
    manifest["environment"]["steelyard"] = version
    files[bundles.MANIFEST] = json.dumps(manifest).encode()
    refusal(bundles.pack(tmp_path / "other.zip", files))


@pytest.mark.parametrize("place", ["../../../../first", "/etc", "../../runs/../../first"])
def test_a_comparison_that_names_a_run_outside_of_the_bundle_is_refused(
    refusal: Any, tmp_path: Path, place: str
) -> None:
    bundle = bundles.make("comparison", tmp_path / "made")
    files = bundles.files_of(bundle)
    content = json.loads(files["comparisons/fair/comparison.json"])
    files["comparisons/fair/comparison.json"] = json.dumps({**content, "target": [place]}).encode()
    refusal(bundles.pack(tmp_path / "other.zip", files, with_checksums=True))


def test_a_suite_outside_of_the_bundle_is_not_opened(cli: Any, tmp_path: Path) -> None:
    bundle = bundles.make("suite_comparison", tmp_path / "made")
    files = bundles.files_of(bundle)
    (place,) = (name for name in files if name.endswith("suite_comparison.json"))
    content = json.loads(files[place])
    content["target"]["suite"] = str(tmp_path / "made/runs/ours")
    files[place] = json.dumps(content).encode()
    done = cli("verify", bundles.pack(tmp_path / "other.zip", files, with_checksums=True), "--json")
    assert done.status in (1, 2)
    assert "num_layers" not in done.out
