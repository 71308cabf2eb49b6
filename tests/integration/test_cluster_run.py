"""A run over three hosts: real ssh, real containers, one record."""

import math
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from lab.running import IMAGE

pytestmark = pytest.mark.integration


def test_three_hosts_give_the_losses_of_one(start: Any, experiment: Any, lab: Lab) -> None:
    three = start(experiment(nodes=3)).end()
    one = start(experiment(nodes=1), "--nodes", "1").end()
    assert (three.status, one.status) == (0, 0), (three.err, one.err)
    losses = [[step["loss"] for step in ended.run.steps()] for ended in (three, one)]
    assert len(losses[0]) == len(losses[1]) == 30
    assert all(math.isclose(ours, theirs, abs_tol=1e-5) for ours, theirs in zip(*losses, strict=True))
    ids = next(event for event in three.run.events() if event["kind"] == "image")["details"]["ids"]
    assert set(ids) == {host.address for host in lab.hosts}
    assert len(set(ids.values())) == 1
    telemetry = three.run.telemetry()
    assert {sample["node"] for sample in telemetry} == set(ids)  # every host was sampled
    assert all(sample["device"] == "cpu" and sample["memory_used_gib"] > 0 for sample in telemetry)


def test_an_image_is_brought_where_it_is_missing(start: Any, experiment: Any, lab: Lab, tmp_path: Path) -> None:
    host, saved = lab.hosts[2], tmp_path / "image.tar"
    host.save_image(IMAGE, saved)
    host.sh(["docker", "rmi", IMAGE])
    try:
        lacking = start(experiment(nodes=3)).end()
        brought = start(experiment(nodes=3), "--image-file", saved).end()
    finally:
        host.load_saved_image(saved)
    assert lacking.status == 3
    assert (lacking.failure["phase"], lacking.failure["node"]) == ("preflight", host.address)
    assert brought.status == 0, brought.err
