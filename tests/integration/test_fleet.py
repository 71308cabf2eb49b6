"""A single-node config on three hosts: three runs of their own, judged together."""

import json
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from lab.running import Running

pytestmark = pytest.mark.integration


def test_one_host_fails_the_others_pass_and_it_alone_runs_again(start: Any, experiment: Any, lab: Lab) -> None:
    config, broken = experiment(nodes=1), lab.hosts[1]
    broken.stop_engine()
    try:
        first = start(config, "--no-preflight").end()
    finally:
        broken.start_engine()
    assert first.status == 3, first.err
    found = {run["host"]: run for run in first.document["runs"]}
    assert {host: (run["status"], run["steps"], run["verdict"]) for host, run in found.items()} == {
        host.address: ("failed", 0, "fail") if host is broken else ("completed", 30, "pass") for host in lab.hosts
    }
    assert found[broken.address]["failure"]["node"] == broken.address
    assert "docker does not answer" in found[broken.address]["failure"]["message"]
    assert (first.document["verdict"], first.document["outliers"]) == ("fail", [])
    assert "--resume" in first.document["error"]["next"]
    assert len({json.loads((Path(run["run"]) / "run.json").read_text())["job"] for run in found.values()}) == 3

    fleet = Path(first.document["fleet"])
    second = start(config, "--no-preflight", "--resume", fleet).end()
    assert (second.status, second.document["verdict"]) == (0, "pass"), second.err
    places = {run["host"]: Path(run["run"]).name for run in second.document["runs"]}
    assert places == {host.address: f"{host.address}-2" if host is broken else host.address for host in lab.hosts}
    losses = {
        tuple(json.loads(line)["loss"] for line in (fleet / place / "steps.jsonl").read_text().splitlines())
        for place in places.values()
    }
    assert len(losses) == 1
    kept = json.loads((fleet / "fleet.json").read_text())
    assert [(run["directory"], run["verdict"]) for run in kept["runs"]] == [
        (place, "pass") for place in places.values()
    ]


def test_a_host_that_preflight_finds_unfit_drops_out_and_the_others_run(start: Any, experiment: Any, lab: Lab) -> None:
    broken = lab.hosts[1]
    broken.stop_engine()
    try:
        done = start(experiment(nodes=1)).end()
    finally:
        broken.start_engine()
    assert done.status == 3, done.err
    assert {run["host"]: (run["status"], run["verdict"]) for run in done.document["runs"]} == {
        host.address: ("failed", "fail") if host is broken else ("completed", "pass") for host in lab.hosts
    }
    (failure,) = (run["failure"] for run in done.document["runs"] if run["failure"])
    assert (failure["phase"], failure["node"]) == ("preflight", broken.address)
    blocked = [(one["host"], one["check"]) for one in done.document["preflight"] if one["required"]]
    assert blocked == [(broken.address, "image")]


def test_ctrl_c_stops_every_run_and_leaves_nothing(start: Any, experiment: Any, lab: Lab) -> None:
    def all_train(run: Running) -> bool:
        found = list(run.out.glob("*/*/steps.jsonl"))
        return len(found) == len(lab.hosts) and all(path.stat().st_size for path in found)

    run = start(experiment(steps=4000, nodes=1)).until(all_train)
    run.interrupt()
    ended = run.end()
    assert ended.status == 130, ended.err
    assert [one["status"] for one in ended.document["runs"]] == ["interrupted"] * len(lab.hosts)
    assert ended.document["verdict"] is None
    assert "Traceback" not in ended.err
