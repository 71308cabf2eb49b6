"""Faults of a run on hosts, a row of docs/explanation/reliability.md each: cause named, record kept, nothing left."""

import json
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from integration.test_attacks import EVIL
from integration.test_attacks import experiment as evil
from integration.test_kills import STEP
from lab import CONTROL, CONTROL_DISK, LOGIN, Executable, Host, Lab, images
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


@pytest.fixture
def start_printing(start: Any, lab: Lab, tmp_path: Path) -> Any:
    """Start a run of 30 steps on one host, whose program only prints what Megatron does and then ends so."""

    def call(end: str, *words: str, before: Sequence[str] = ()) -> Running:
        lines = [*before, *(STEP % (step, step * 8) for step in range(1, 31))]
        program = f"#!/bin/sh\ncat /lines\nsleep 1\n{end}\n"
        files = {"/usr/local/bin/torchrun": Executable(program), "/lines": "\n".join(lines) + "\n"}
        lab.build_image(EVIL, files, python=False)
        content = {**evil({}), "name": "prints"}
        del content["platforms"]["lab"]["hf_token_file"]
        path = tmp_path / "prints.yaml"
        path.write_text(json.dumps(content))
        one = lab.cluster_file(tmp_path, 1)
        started: Running = start(path, "--no-preflight", *words, "--cluster", one, cluster=False)
        return started

    return call


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
    assert "connection" in ended.failure["message"]
    (left,) = (event for event in ended.run.events() if event["kind"] == "left_behind")
    assert "stops by itself within 15 s" in left["message"]
    assert re.search(rf"ssh .*{lab.hosts[2].address} kill \d+$", left["message"])
    assert f"left_behind: {lab.hosts[2].address}: " in ended.err
    assert f"link_lost: {lab.hosts[2].address}: " in ended.err
    assert "Traceback" not in ended.err
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
    assert (ended.failure["kind"], ended.failure["node"]) == ("stall", host.address)
    assert "no step for" in ended.failure["message"]
    rank = "rank 2, " if LOGIN == "root" else ""  # another login's processes do not show their variables
    assert re.search(rf"; {rank}process \d+ on {host.address} is stopped", ended.failure["message"])
    kept(ended)


def control_file(host: Host, name: str) -> Path:
    """A control file of the run on a host."""
    (path,) = host.path(CONTROL).glob(f"*/{name}")
    return path


@pytest.mark.parametrize("process", ["watcher", "keeper"])
def test_watcher_killed(run: Running, lab: Lab, process: str) -> None:
    host = lab.hosts[1]
    host.sh(["kill", "-KILL", control_file(host, process).read_text().strip()])
    ended = run.end()
    assert ended.status == 3, ended.out
    assert ended.failure["node"] == host.address
    assert "was killed" in ended.failure["message"]
    kept(ended)


def test_hang_at_exit(start_printing: Any) -> None:
    ended = start_printing("sleep 600", "--exit-within", "3").end()
    assert ended.status == 3, ended.out
    assert ended.failure["kind"] == "hang_at_exit"
    assert "did not exit within 3 s after its last step 30" in ended.failure["message"]
    assert "--exit-within" in ended.document["error"]["next"]
    assert len(ended.run.steps()) == 30


def test_poison_lines(start_printing: Any) -> None:
    """Lines that no reader was made for: recorded as unread where they look like a step, and the run goes on."""
    digits = "9" * 5000
    lines = [
        "------------------------ arguments ------------------------",
        "  data_path ....................................... [{[]}]",
        f"  seq_length ...................................... {digits}",
        "  num_layers ...................................... \u00b2",
        "-------------------- end of arguments ---------------------",
        f" [2026-11-17 12:00:00] iteration {digits}/      30 | consumed samples: {digits} | lm loss: 5.0E+00 |",
        " [2026-11-17 12:00:00] iteration \u00b2/      30 | consumed samples: \u00b2 | lm loss: \u00b2 |",
        "step: \u00b2/30 | loss: " + digits,
        "completed step: \u00b2, seconds: \u00b2, TFLOP/s/device: \u00b2",
    ]
    ended = start_printing("exit 0", "--no-check", before=lines).end()
    assert (ended.status, ended.document["status"]) == (0, "completed"), ended.out + ended.err
    assert len(ended.run.steps()) == 30


def test_dockerd_killed_while_it_trains(run: Running, lab: Lab) -> None:
    host = lab.hosts[1]
    host.stop_engine(crash=True)
    try:
        ended = run.end()
    finally:
        host.start_engine()
    assert ended.status == 3, ended.out
    assert (ended.failure["kind"], ended.failure["node"]) == ("engine", host.address)
    assert re.search(r"docker stopped during the run, after step \d+", ended.failure["message"])
    assert "docker does not answer" in ended.err
    kept(ended)


def test_a_program_that_ends_with_a_status_of_the_engine_s(start_printing: Any) -> None:
    ended = start_printing("no-such-program").end()
    assert ended.status == 1, ended.out
    assert ended.failure["kind"] == "exit"
    assert "status 127 after step 30" in ended.failure["message"]


def test_a_name_that_cannot_be_resolved(start: Any, experiment: Any, lab: Lab, tmp_path: Path) -> None:
    cluster = lab.cluster_file(tmp_path)
    cluster.write_text(cluster.read_text().replace(lab.hosts[1].address, "no-such-host.invalid"))
    ended = start(experiment(LONG), "--cluster", cluster, cluster=False).end()
    assert ended.status == 3
    assert ended.failure["node"] == "no-such-host.invalid"
    assert "cannot resolve the host name" in ended.failure["message"]
    assert "getent hosts" in ended.document["error"]["next"]


@pytest.mark.long
def test_an_image_that_loads_for_over_a_minute(start: Any, experiment: Any, lab: Lab, tmp_path: Path) -> None:
    """The run keeps its hosts meanwhile, though the lease is much shorter."""
    host, saved = lab.hosts[0], tmp_path / "image.tar"
    host.save_image(IMAGE, saved)
    host.sh(["docker", "rmi", IMAGE])
    host.fake_tool("docker", 'case " $* " in *" load "*) sleep 65 ;; esac\nexec /usr/bin/docker "$@"')
    try:
        run = start(experiment(30, nodes=3), "--lost-after", "4", "--abandon-after", "20", "--image-file", saved)
        run.until_phase("image")
        time.sleep(40)
        second = start(experiment(30)).end()
        ended = run.end(200)
    finally:
        host.remove_tool("docker")
        host.load_saved_image(saved)
    assert second.status == 3
    assert "in use by run" in second.failure["message"]
    assert ended.status == 0, ended.out + ended.err


def test_a_second_interrupt_ends_at_once_and_says_what_remains(start_printing: Any, lab: Lab) -> None:
    slow_to_end = "trap '' TERM; sleep 100"
    run = start_printing(slow_to_end, "--lost-after", "1", "--abandon-after", "11").until_step(30)
    run.interrupt()
    run.until(lambda now: "stopping" in now.said())
    time.sleep(0.5)
    began = time.monotonic()
    run.interrupt()
    ended = run.end()
    assert time.monotonic() - began < 8
    assert ended.status == 130
    assert "press Ctrl-C again to leave at once" in ended.err
    assert re.search(rf"left_behind: {lab.hosts[0].address}: the job may still run .* kill \d+", ended.err)


def test_what_a_dead_run_left_is_told(start_printing: Any, lab: Lab) -> None:
    host = lab.hosts[0]
    run = start_printing("sleep 100").until_step(30)
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    for name in ("keeper", "watcher"):
        host.sh(["kill", "-KILL", control_file(host, name).read_text().strip()])
    ended = start_printing("exit 0", "--no-check").end()
    assert ended.status == 0, ended.err
    assert f"stale_lock: {host.address}: removed the files of the dead run prints-" in ended.err


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
    host.fill_disk(CONTROL_DISK)
    try:
        ended = start(experiment(LONG), "--no-preflight", *QUICK).end()
    finally:
        host.free_disk()
    assert ended.status == 3, ended.out
    assert ended.failure["node"] == host.address
    assert "No space left" in ended.failure["message"]


def test_disk_full_while_it_trains(run: Running, lab: Lab) -> None:
    host = lab.hosts[0]
    host.fill_disk(CONTROL_DISK)
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
    assert "image nobody/has:this not found" in ended.failure["message"]
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
    assert "on other hosts" in ended.failure["message"]


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
        assert "host key has changed" in one.failure["message"]


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
