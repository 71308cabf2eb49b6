"""A secret reaches the program and nothing else; the text of a config executes nothing."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import LOGIN, Executable, Host, Lab

pytestmark = pytest.mark.integration

CANARY = "kanarienvogel-7Zq4v9-gelb"
SHOWS = "lab/shows:1"
SHOW = """#!/bin/sh
# Prints its secret and its variables, as a careless program does.
env
i=0
[ -n "${HF_TOKEN_PATH:-}" ] || exit 1
while [ $i -lt 25 ]; do
    i=$((i + 1))
    echo "line $i: the token is $(cat "$HF_TOKEN_PATH")"
    sleep 0.2
done
exit 1
"""
HOSTILE = "\"; touch /tmp/pwned #$(touch /tmp/pwned)`touch /tmp/pwned`' && touch /tmp/pwned"


@pytest.fixture
def careless(lab: Lab, tmp_path: Path) -> Iterator[Path]:
    """An experiment whose training script prints its token, on hosts that have one."""
    lab.build_image(SHOWS, {"/usr/local/bin/torchrun": Executable(SHOW)}, python=False)
    for host in lab.hosts:
        host.sh(
            ["sh", "-c", f"mkdir /home/lab && umask 077 && cat > /home/lab/token && chown {LOGIN} /home/lab/token"],
            input=CANARY + "\n",
        )
    path = tmp_path / "careless.yaml"
    path.write_text(json.dumps(experiment({"hf_token_file": "/home/lab/token"})))
    yield path
    for host in lab.hosts:
        host.sh(["rm", "-r", "/home/lab"])


def experiment(platform: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "name": "careless",
        "model": {"preset": "llama3.1-8b"},
        "training": {
            "micro_batch_size": 1,
            "global_batch_size": 24,
            "sequence_length": 2048,
            "steps": 30,
            "learning_rate": 1e-4,
        },
        "precision": {"dtype": "bf16"},
        "data": {"source": "counting"},
        "platforms": {
            "lab": {
                "gpu": "mi300x",
                "nodes": 3,
                "gpus_per_node": 8,
                "framework": "megatron",
                "container": {"image": SHOWS},
                "network": {"socket_interface": "eth0"},
                **platform,
            }
        },
    }


LOOK = """
find /srv /tmp /root /var/tmp /var/log /run/docker -xdev -type f -print0 2> /dev/null > /dev/shm/files
xargs -0 -a /dev/shm/files grep -lsFI -f -
rm /dev/shm/files
"""
"""The host's own files that hold what is typed: not the gigabytes of this machine, which it cannot write to."""


def watched(host: Host, stop: threading.Event, seen: list[str]) -> None:
    """What every process of a host was started with, again and again."""
    look = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2> /dev/null | tr '\\0' '\\n'"
    while not stop.is_set():
        seen.append(host.sh(["sh", "-c", look], check=False).stdout)
        time.sleep(0.1)


def holding(folder: Path, secret: str) -> list[str]:
    """The files that hold a secret."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_a_token_is_found_nowhere(careless: Path, start: Any, lab: Lab, tmp_path: Path) -> None:
    stop = threading.Event()
    seen: list[str] = []
    watchers = [threading.Thread(target=watched, args=(host, stop, seen)) for host in lab.hosts]
    for one in watchers:
        one.start()
    run = start(careless, "--no-preflight", "--first-step-within", "60").until_phase("train")
    time.sleep(2)
    looked = (host.sh(["sh", "-c", LOOK], CANARY, check=False).stdout for host in lab.hosts)
    found = {path for paths in looked for path in paths.splitlines()}
    during = {path for path in found if not path.endswith(("/secrets/HF_TOKEN", "/log"))}
    ended = run.end()
    stop.set()
    for one in watchers:
        one.join()
    assert ended.status == 1, ended.err
    assert any("pretrain_gpt.py" in text for text in seen)
    assert not any(CANARY in text for text in seen)
    assert found - during, "the secret's own file is there while it is needed"
    assert not during
    log = (ended.run.directory / "logs" / "node0.log").read_text()
    assert "line 3: the token is [redacted]" in log
    assert "HF_TOKEN_PATH=/steelyard/secrets/HF_TOKEN" in log
    report = start("--to", "html,md", ended.run.directory, cluster=False, verb="report").end()
    assert report.status == 0, report.err
    assert holding(tmp_path, CANARY) == []
    assert CANARY not in ended.out + ended.err + report.out + report.err


@pytest.mark.parametrize(
    ("platform", "status"),
    [
        ({"env": {"GREETING": HOSTILE}}, 1),
        ({"container": {"image": SHOWS, "env": {"GREETING": HOSTILE}, "volumes": {f"/tmp/labs{HOSTILE}": "/data"}}}, 1),
        ({"log_dir": f"/tmp/labs{HOSTILE}"}, 1),
        ({"hf_token_file": f"/tmp/{HOSTILE}"}, 3),
        ({"cache_dir": f"/tmp/labs{HOSTILE}"}, 1),
        ({"options": {"wandb_project": HOSTILE}}, 1),
        ({"network": {"socket_interface": HOSTILE}}, 2),
        ({"container": {"image": HOSTILE}}, 2),
    ],
    ids=["env", "container", "log_dir", "token", "cache", "options", "interface", "image"],
)
def test_a_hostile_config_executes_nothing(
    platform: dict[str, Any], status: int, start: Any, lab: Lab, tmp_path: Path
) -> None:
    lab.build_image(SHOWS, {"/usr/local/bin/torchrun": Executable(SHOW)}, python=False)
    path = tmp_path / "hostile.yaml"
    path.write_text(json.dumps(experiment(platform)))
    ended = start(path, "--no-preflight").end()
    assert ended.status == status, ended.err
    assert "Traceback" not in ended.err
    for host in lab.hosts:
        host.sh(["sh", "-c", "rm -rf /tmp/labs*"])  # the engine makes what a volume names and is not there
        assert host.sh(["sh", "-c", "ls /tmp/pwned* /pwned* 2> /dev/null"], check=False).stdout == ""
    assert not Path("/tmp/pwned").exists()
