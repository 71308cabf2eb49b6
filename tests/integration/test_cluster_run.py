"""A run over three hosts: real ssh, real containers, one record."""

import math
from typing import Any

import pytest

from lab import Lab

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
