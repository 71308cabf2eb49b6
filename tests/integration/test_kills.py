"""A runner that is killed at any moment leaves nothing on a host beyond the lease, and loses no step it had read."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from integration.test_attacks import experiment
from lab import Executable, Host, Lab
from lab.running import wait_for_nothing

pytestmark = pytest.mark.integration

MOMENTS = int(os.environ.get("STEELYARD_KILLS", "5"))
"""Kills per transport; `make soak` asks for 50."""
LEASE_S = 12
CANARY = "kanarienvogel-9Lm1t6-blau"
IMAGE = "lab/evil:1"
STEP = (
    " [2026-11-17 12:00:00] iteration %8d/     600 | consumed samples: %12d | elapsed time per iteration (ms): 100.0"
    " | learning rate: 1.0E-04 | global batch size:     8 | lm loss: 5.000000E+00 | loss scale: 1.0 | grad norm: 1.000"
    " | number of skipped iterations:   0 | number of nan iterations:   0 |"
)
TRAIN = f"""#!/bin/sh
# Prints what Megatron prints, ten steps a second, for a minute.
cat /steelyard/secrets/HF_TOKEN > /dev/null || exit 3
i=0
while [ $i -lt 600 ]; do
    i=$((i + 1))
    printf '{STEP}\\n' $i $((i * 8))
    sleep 0.1
done
"""
STARTS_WITHIN_S = 180
LIMITS = ("--no-preflight", "--lost-after", "1", "--abandon-after", str(LEASE_S), "--set", "training.steps=600")


@pytest.fixture
def hosts(lab: Lab) -> Iterator[list[Host]]:
    lab.build_image(IMAGE, {"/usr/local/bin/torchrun": Executable(TRAIN)}, python=False)
    for host in lab.hosts:
        host.sh(["sh", "-c", "umask 077 && cat > /srv/token"], input=CANARY)
        host.path("/srv/runs").mkdir()
    yield lab.hosts
    for host in lab.hosts:
        host.sh(["rm", "-r", "/srv/token", "/srv/runs"])


def started(lab: Lab, host: Host, transport: str, folder: Path) -> tuple["subprocess.Popen[bytes]", Path]:
    """A run on one host, over ssh or started there, and the directory its record will be in."""
    folder.mkdir()
    config = json.dumps(experiment({}))
    words = ["-m", "steelyard", "run", "evil.yaml", *LIMITS, "--name", folder.name]
    if transport == "ssh":
        cluster = folder / "cluster.yaml"
        cluster.write_text(f"hosts: [{host.address}]\nuser: root\nkey_file: {lab.key}\n")
        (folder / "evil.yaml").write_text(config)
        argv, out = lab.controller([sys.executable, *words, "--cluster", cluster, "--out", folder]), folder
    else:
        there = f"/srv/runs/{folder.name}"
        host.path(there).mkdir()
        host.path(f"{there}/evil.yaml").write_text(config)
        enter = ["nsenter", "-t", str(host.inside.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--"]
        argv = [*enter, "sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", there, sys.executable, *words, "--out", "."]
        out = host.path(there)
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    return process, out / folder.name


def kill(process: "subprocess.Popen[bytes]", host: Host, transport: str, name: str) -> None:
    if transport != "ssh":  # ours is only what entered the host
        host.sh(["pkill", "-KILL", "-f", f"steelyard run .*--name {name}"], check=False)
    process.send_signal(signal.SIGKILL)
    process.wait()


def killed(lab: Lab, host: Host, transport: str, folder: Path, moment: random.Random, trains: bool) -> int:
    """Kill a run once, at any time or after its first step; how many steps its record has."""
    process, record = started(lab, host, transport, folder)
    deadline = time.monotonic() + STARTS_WITHIN_S
    while trains and not ((steps := record / "steps.jsonl").exists() and steps.stat().st_size):
        assert process.poll() is None, (folder / "said").read_text()
        assert time.monotonic() < deadline, (folder / "said").read_text()
        time.sleep(0.1)
    time.sleep(moment.uniform(0.5, 7.0))
    assert process.poll() is None, (folder / "said").read_text()
    kill(process, host, transport, folder.name)
    left = wait_for_nothing(host, LEASE_S + 20)
    assert left == [], (folder.name, left)
    holding = host.sh(["grep", "-rlsF", CANARY, "/root", "/tmp", "/var/tmp", "/run/docker", "/srv/runs"], check=False)
    assert holding.stdout == ""
    if not (record / "run.json").exists():
        return 0
    log, steps = record / "logs/node0.log", record / "steps.jsonl"
    printed = re.findall(r"iteration +(\d+)/", log.read_text()) if log.exists() else []
    recorded = [json.loads(line)["step"] for line in steps.read_text().splitlines() if line.endswith("}")]
    assert recorded == list(range(1, len(recorded) + 1))
    assert len(recorded) >= len(printed), "the log shows a step that the record lacks"
    return len(recorded)


@pytest.mark.parametrize("transport", ["ssh", "here"])
def test_a_runner_killed_at_random_moments(transport: str, lab: Lab, hosts: list[Host], tmp_path: Path) -> None:
    def on(at: int) -> list[int]:
        numbers = range(at, MOMENTS, len(hosts))
        moments = {number: random.Random(20261117 + number) for number in numbers}
        return [killed(lab, hosts[at], transport, tmp_path / f"run{n}", moments[n], trains=n == 0) for n in numbers]

    with ThreadPoolExecutor(len(hosts)) as pool:
        steps = [count for counts in pool.map(on, range(len(hosts))) for count in counts]
    assert len(steps) == MOMENTS
    assert steps[0] > 0, "the first is killed while it trains"
