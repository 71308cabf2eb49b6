"""What may befall a run on hosts, a row of docs/reliability.md each: the cause named, the record kept, nothing left."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from lab import Host, Lab, images
from lab.running import IMAGE, Ended, Running, pid_of_trainer

pytestmark = pytest.mark.integration

LONG = 4000
QUICK = ("--lost-after", "4", "--abandon-after", "15", "--stall-after", "5")


def container_of(host: Host) -> str:
    (one,) = (one for one in host.containers() if "steelyard.run" in one["Labels"])
    return str(one["Id"])


def kept(ended: Ended) -> None:
    """The record of a run that got going is there and readable."""
    assert len(ended.run.steps()) >= 3
    assert ended.run.directory is not None
    manifest = json.loads((ended.run.directory / "run.json").read_text())
    assert manifest["status"] in ("failed", "interrupted")
    assert "step" in (ended.run.directory / "logs" / "node0.log").read_text()


@pytest.fixture
def run(start: Any, experiment: Any) -> Running:
    """A run over three hosts that is under way."""
    found: Running = start(experiment(LONG), *QUICK).until_step(3)
    return found


def test_link_cut_and_back(start: Any, experiment: Any, lab: Lab) -> None:
    run = start(experiment(400), "--lost-after", "30").until_step(3)
    lab.hosts[2].cut()
    time.sleep(5)
    lab.hosts[2].mend()
    ended = run.end()
    assert ended.status == 0, ended.err
    kinds = [event["kind"] for event in ended.run.events() if event.get("node") == lab.hosts[2].address]
    assert "link_lost" in kinds
    assert "link_back" in kinds
    assert [step["step"] for step in ended.run.steps()] == list(range(1, 401))


def test_link_cut_for_good(run: Running, lab: Lab) -> None:
    lab.hosts[2].cut()
    ended = run.end()
    assert ended.status == 3
    assert ended.failure["node"] == lab.hosts[2].address
    assert "out of reach" in ended.failure["message"]
    assert any(event["kind"] == "left_behind" for event in ended.run.events())
    kept(ended)


def test_sshd_killed(run: Running, lab: Lab) -> None:
    lab.hosts[1].stop_sshd()
    try:
        ended = run.end()
        assert ended.status == 3
        assert ended.failure["node"] == lab.hosts[1].address
        assert ended.failure["kind"] == "link"
        kept(ended)
        deadline = time.monotonic() + 30
        while lab.hosts[1].containers() and time.monotonic() < deadline:
            time.sleep(0.5)
    finally:
        lab.hosts[1].start_sshd()


def test_container_killed(run: Running, lab: Lab) -> None:
    host = lab.hosts[1]
    host.sh(["docker", "kill", container_of(host)])
    ended = run.end()
    assert ended.status == 3, ended.out
    assert (ended.failure["kind"], ended.failure["node"]) == ("killed", host.address)
    kept(ended)


def test_rank_exits_1(run: Running, lab: Lab) -> None:
    host = lab.hosts[2]
    host.sh(["kill", "-KILL", pid_of_trainer(host)])
    ended = run.end()
    assert ended.status == 1, ended.out
    assert ended.failure["node"] == host.address
    kept(ended)


def test_rank_hangs(run: Running, lab: Lab) -> None:
    host = lab.hosts[2]
    host.sh(["kill", "-STOP", pid_of_trainer(host)])
    ended = run.end()
    assert ended.status == 3, ended.out
    assert ended.failure["kind"] == "stall"
    assert "no step for" in ended.failure["message"]
    kept(ended)


def test_out_of_memory(start: Any, experiment: Any, lab: Lab) -> None:
    """The kernel ends a rank that grows beyond what its container may have."""
    host = lab.hosts[1]
    run = start(experiment(LONG), *QUICK).until(lambda run: bool(host.containers()))
    host.sh(["docker", "update", "--memory", "64m", "--memory-swap", "64m", container_of(host)])
    ended = run.end()
    assert ended.status == 1, ended.out
    assert (ended.failure["kind"], ended.failure["node"]) == ("oom", host.address)
    assert ended.run.directory is not None
    assert json.loads((ended.run.directory / "run.json").read_text())["status"] == "failed"


def test_disk_full_before_the_start(start: Any, experiment: Any, lab: Lab) -> None:
    host = lab.hosts[1]
    host.fill_disk("/root")
    try:
        ended = start(experiment(LONG), "--no-preflight", *QUICK).end()
    finally:
        host.free_disk()
    assert ended.status == 3, ended.out
    assert ended.failure["node"] == host.address
    assert "No space left" in ended.failure["message"]


def test_disk_full_while_it_trains(run: Running, lab: Lab) -> None:
    host = lab.hosts[0]
    host.fill_disk("/root")
    try:
        ended = run.end()
    finally:
        host.free_disk()
    assert ended.status == 3, ended.out
    assert (ended.failure["kind"], ended.failure["node"]) == ("disk", host.address)
    kept(ended)


def test_engine_not_running(start: Any, experiment: Any, lab: Lab) -> None:
    host = lab.hosts[1]
    host.stop_engine()
    try:
        ended = start(experiment(LONG), "--no-preflight").end()
    finally:
        host.start_engine()
    assert ended.status == 3
    assert ended.failure["node"] == host.address
    assert "docker does not answer" in ended.failure["message"]


def test_image_missing(start: Any, experiment: Any, lab: Lab) -> None:
    ended = start(experiment(LONG, container={"image": "nobody/has:this"}), "--no-preflight").end()
    assert ended.status == 3
    assert "image nobody/has:this is not there" in ended.failure["message"]
    assert "--pull" in ended.document["error"]["next"]


def test_digest_differing(start: Any, experiment: Any, lab: Lab, tmp_path: Path) -> None:
    other = lab.hosts[2]
    right = tmp_path / "image.tar"
    other.save_image(IMAGE, right)
    (tmp_path / "tree").mkdir()
    other.load_image(images.busybox_tree(tmp_path / "tree", {"/odd": "one"}), IMAGE)
    try:
        ended = start(experiment(LONG), "--no-preflight").end()
    finally:
        other.sh(["docker", "rmi", IMAGE])
        other.load_saved_image(right)
    assert ended.status == 3
    assert ended.failure["node"] == other.address
    assert "elsewhere" in ended.failure["message"]


def test_name_taken_by_a_foreign_container(start: Any, experiment: Any, lab: Lab) -> None:
    host = lab.hosts[1]
    name = ["--name", "three-node1", "--network", "host"]
    foreign = host.sh(["docker", "run", "-d", *name, IMAGE, "sleep", "600"]).stdout.strip()
    try:
        ended = start(experiment(LONG), *QUICK).end()
        assert ended.status == 3, ended.out
        assert (ended.failure["kind"], ended.failure["node"]) == ("container", host.address)
        assert "already in use" in ended.failure["message"]
        (still,) = host.containers()
        assert (still["Id"], still["State"]) == (foreign, "running")
    finally:
        host.sh(["docker", "rm", "-f", foreign])


def test_wrong_host_key(start: Any, experiment: Any, lab: Lab) -> None:
    host = lab.hosts[1]
    host.new_host_key()
    try:
        ended = start(experiment(LONG)).end()
        taken = start(experiment(LONG), "--accept-new-host-keys").end()
    finally:
        host.restore_host_key()
    for one in (ended, taken):
        assert one.status == 3
        assert one.failure["node"] == host.address
        assert "host key is not the one on record" in one.failure["message"]


def test_second_run_on_the_same_hosts(run: Running, start: Any, experiment: Any) -> None:
    second = start(experiment(LONG)).end()
    assert second.status == 3
    assert run.directory is not None
    job = json.loads((run.directory / "run.json").read_text())["job"]
    assert f"in use by run {job}" in second.failure["message"]
    before = len(run.steps())
    run.until(lambda now: len(now.steps()) > before)
    run.interrupt()
    assert run.end().status == 130


@pytest.mark.parametrize("phase", ["reach", "lock", "preflight", "image", "prepare", "start", "train"])
def test_interrupted_in_each_phase(start: Any, experiment: Any, phase: str) -> None:
    run = start(experiment(LONG)).until_phase(phase)
    run.interrupt()
    ended = run.end()
    assert ended.status == 130, ended.err
    assert ended.document["status"] == "interrupted"
    assert "Traceback" not in ended.err
