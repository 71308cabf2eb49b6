"""fleet.json and the directory it lies in."""

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import InputError
from steelyard.records.fleet import again, find_fleet, held_directory, load_fleet, new_fleet


def test_a_new_fleet_has_a_place_for_each_host_and_says_running(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path, None, "stamped", ["10.0.0.1", "fe80::1"])
    content = json.loads((tmp_path / "stamped" / "fleet.json").read_text())
    assert content["schema_version"] == 1
    assert [(run["host"], run["directory"], run["status"]) for run in content["runs"]] == [
        ("10.0.0.1", "10.0.0.1", "running"),
        ("fe80::1", "fe80--1", "running"),
    ]
    assert load_fleet(fleet.directory) == fleet
    assert fleet.runs() == [None, None]
    assert {one.status for one in fleet.refreshed(fleet.runs()).manifest.runs} == {"interrupted"}


def test_hosts_that_run_again_get_new_directories_and_the_others_keep_theirs(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path, "nightly", "unused", ["a", "b"])
    (fleet.directory / "b").mkdir()
    renewed = again(fleet, ["b"])
    assert [(one.host, one.directory) for one in renewed.manifest.runs] == [("a", "a"), ("b", "b-2")]
    assert load_fleet(fleet.directory) == renewed


def test_names_that_become_one_are_told_apart(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path, None, "x", ["a:1", "a-1", "..."])
    assert [one.directory for one in fleet.manifest.runs] == ["a-1", "a-1-2", "node"]


def test_a_fleet_that_runs_is_not_run_again_at_the_same_time(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path, None, "x", ["a"])
    with held_directory(fleet.directory):
        assert fleet.is_running
        with pytest.raises(InputError, match="still running"), held_directory(fleet.directory):
            pass
    assert not fleet.is_running


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ({"schema_version": 2}, "schema_version is 2"),
        ({"runs": []}, "runs"),
        ({"runs": [{"host": "a", "directory": "../elsewhere"}]}, "runs.0.directory"),
        ({"runs": [{"host": "a", "directory": "/tmp"}]}, "runs.0.directory"),
    ],
)
def test_what_is_wrong_with_fleet_json_is_one_sentence(tmp_path: Path, edit: dict[str, Any], says: str) -> None:
    fleet = new_fleet(tmp_path, None, "x", ["a"])
    path = fleet.directory / "fleet.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **edit}))
    with pytest.raises(InputError, match=says) as error:
        load_fleet(fleet.directory)
    assert "\n" not in str(error.value)


def test_a_fleet_is_found_by_path_and_by_name(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path / "runs", "nightly", "x", ["a"])
    for name in ("nightly", str(fleet.directory)):
        found = find_fleet(name, tmp_path / "runs")
        assert found is not None
        assert found.manifest == fleet.manifest
    assert find_fleet("other", tmp_path / "runs") is None
