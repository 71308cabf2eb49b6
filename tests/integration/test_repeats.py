"""Repeats on hosts: platforms that take turns there, and a series that is stopped."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab import Lab

pytestmark = pytest.mark.integration


def test_two_platforms_take_turns_on_the_same_hosts(start: Any, experiment: Any, lab: Lab, tmp_path: Path) -> None:
    config = experiment(nodes=3, steps=60)
    content = json.loads(config.read_text())
    content["platforms"]["larger"] = {**content["platforms"]["lab"], "overrides": {"training": {"micro_batch_size": 4}}}
    config.write_text(json.dumps(content))
    done = start(config, "--platform", "lab,larger", "--repeats", "3", "--name", "turns").end(300)
    assert (done.status, done.document["verdict"]) == (0, "pass"), done.err
    runs = done.document["runs"]
    assert [(run["platform"], run["repeat"]) for run in runs] == [
        ("lab", 1),
        ("larger", 1),
        ("larger", 2),
        ("lab", 2),
        ("lab", 3),
        ("larger", 3),
    ]
    manifests = [json.loads((Path(run["run"]) / "run.json").read_text()) for run in runs]
    assert [one["hosts"] for one in manifests] == [[host.address for host in lab.hosts]] * 6
    assert all(before["provenance"]["ended"] <= after["provenance"]["started"] for before, after in pairwise(manifests))

    sides = done.document["directories"]
    weighed = start(sides["larger"], sides["lab"], "--out", tmp_path / "weighed", cluster=False, verb="compare").end()
    ratio = weighed.document["throughput_speedup"]
    assert weighed.status in (0, 5), weighed.err  # three small hosts on shared cores: decided or not, never refused
    assert (ratio["interval"], ratio["target_runs"], ratio["baseline_runs"]) == ("runs", 3, 3)
    assert "same_hosts" in {note["code"] for note in ratio["caveats"]}


def test_a_series_that_is_stopped_keeps_what_was_made_and_leaves_the_hosts_clean(start: Any, experiment: Any) -> None:
    series = start(experiment(nodes=3, steps=60), "--repeats", "4", "--name", "series")
    second = series.out / "series" / "repeat-2" / "steps.jsonl"
    series.until(lambda _: second.exists() and second.stat().st_size > 0, 120).interrupt()
    done = series.end()
    assert (done.status, done.document["verdict"], done.document["planned"]) == (130, None, 4), done.err
    assert [run["status"] for run in done.document["runs"]] == ["completed", "interrupted"]
    assert not (series.out / "series" / "repeat-3").exists()
