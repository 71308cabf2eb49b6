"""The files of a folder: what is read, and what belongs together by name."""

from pathlib import Path

import pytest

from steelyard.errors import InputError
from steelyard.ingestion import folder as listing
from steelyard.ingestion.folder import Skip, logs_in


def listed(tmp_path: Path, *names: str) -> listing.Folder:
    for number, name in enumerate(names):
        path = tmp_path / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"log {number}\n")
    return logs_in(tmp_path / "logs")


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (("b.log", "a.log"), [("a.log",), ("b.log",)]),
        (("a.out", "a.err", "b.err"), [("a.out", "a.err"), ("b.err",)]),
        (("a.out.gz", "a.err.zst"), [("a.out.gz", "a.err.zst")]),
        (("a.out", "a.log", "a.err"), [("a.log",), ("a.out", "a.err")]),
        (("a.log", "a.err", "a.err.gz"), [("a.log", "a.err", "a.err.gz")]),
        (("a/x.out", "b/x.err"), [("a/x.out",), ("b/x.err",)]),
        (("tb/events.out.tfevents.1", "tb/events.out.tfevents.2"), [("tb",)]),
        ((".git/x.log", ".x.log", "x.log"), [("x.log",)]),
    ],
)
def test_files_are_grouped_by_their_names(
    tmp_path: Path, names: tuple[str, ...], groups: list[tuple[str, ...]]
) -> None:
    assert [files.names for files in listed(tmp_path, *names).logs] == groups


@pytest.mark.parametrize(
    ("one", "another", "alike"),
    [
        ("node0.log", "node1.log", True),
        ("train_rank3.log", "train_rank12.log", True),
        ("stdout.0", "stdout.1", True),
        ("a.host-1.log.gz", "a.host-2.log.gz", True),
        ("run1.log", "run2.log", False),
        ("mbs4_node0.log", "mbs8_node0.log", False),
        ("a/node0.log", "b/node1.log", False),
    ],
)
def test_only_the_number_of_a_node_or_rank_may_differ(tmp_path: Path, one: str, another: str, alike: bool) -> None:
    first, second = (files.numbered for files in listed(tmp_path, one, another).logs)
    assert (first is not None and first == second) == alike


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("h100/a.log", "h100"),
        ("MI300X/mbs4/a.log", "mi300x"),
        ("h100/b200/a.log", "b200"),
        ("h100-new/a.log", None),
        ("gpus/a.log", None),
        ("h100.log", None),
    ],
)
def test_the_nearest_folder_with_the_whole_name_of_a_gpu_counts(tmp_path: Path, name: str, gpu: str | None) -> None:
    assert [files.gpu for files in listed(tmp_path, name).logs] == [gpu]


def test_a_folder_is_read_to_a_depth_and_a_number_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "DEEPEST", 2)
    folder = listed(tmp_path, "a/b/x.log", "a/b/c/y.log")
    assert [files.names for files in folder.logs] == [("a/b/x.log",)]
    assert {folder.name(path): why for path, why in folder.skipped.items()} == {"a/b/c": Skip.DEEP}
    monkeypatch.setattr(listing, "MOST_FILES", 1)
    with pytest.raises(InputError) as error:
        listed(tmp_path, "a/z.log")
    assert error.value.key == "--suite"


def test_an_unreadable_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = listing.os.scandir

    def refuse(path: Path) -> object:
        if path.name == "closed":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(listing.os, "scandir", refuse)
    folder = listed(tmp_path, "closed/a.log", "b.log")
    assert [folder.name(path) for path in folder.unreadable] == ["closed"]
    assert [files.names for files in folder.logs] == [("b.log",)]
