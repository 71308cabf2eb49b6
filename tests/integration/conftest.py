"""The lab for all tests here, and a run of Steelyard in it that can be watched and disturbed."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import Lab, maxtext, reasons_not_to
from lab.lab import at_once
from lab.running import IMAGE, Running, purge, wait_for_nothing
from lab.suite import make_ready, unmake


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    if reason := reasons_not_to():
        pytest.skip(reason)
    with Lab(shared=maxtext.shared_paths() if maxtext.ENVIRONMENT else ()) as made:
        made.build_image(IMAGE)
        yield made


Start = Callable[..., Running]


@pytest.fixture
def start(lab: Lab, tmp_path: Path) -> Iterator[Start]:
    """Start `steelyard run` there."""
    running: list[Running] = []

    def call(*arguments: str | Path, cluster: bool = True, verb: str = "run") -> Running:
        folder = tmp_path / f"call{len(running)}"
        folder.mkdir()
        argv = [sys.executable, "-m", "steelyard", verb, *map(str, arguments), "--json"]
        if verb == "run":
            argv += ["--out", str(folder / "runs")]
        if cluster:
            argv += ["--cluster", str(lab.cluster_file(folder))]
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            process = subprocess.Popen(lab.controller(argv), stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        running.append(Running(process, folder / "runs", folder))
        return running[-1]

    yield call
    for one in running:
        if one.process.poll() is None:
            one.interrupt()
            one.process.wait(60)


@pytest.fixture(autouse=True)
def hosts_are_left_as_they_were(lab: Lab) -> Iterator[None]:
    """After every test here: no process, container or file of ours is left on any host."""
    yield
    for host in lab.hosts:
        host.mend()
    left = {host.name: found for host in lab.hosts if (found := wait_for_nothing(host))}
    for host in lab.hosts if left else ():
        purge(host)  # so that one failure is not the next test's too
    assert not left


@pytest.fixture
def hosts_as_configs_name_them(lab: Lab, hosts_are_left_as_they_were: None) -> Iterator[None]:
    """What the packaged configs name and preflight asks for."""
    at_once([lambda host=host: make_ready(host) for host in lab.hosts])
    yield
    at_once([lambda host=host: unmake(host) for host in lab.hosts])


Write = Callable[..., Path]


@pytest.fixture
def experiment(tmp_path: Path) -> Write:
    """The built-in trainer over so many hosts, in containers."""

    def write(steps: int = 30, nodes: int = 3, **platform: Any) -> Path:
        content = {
            "schema_version": 1,
            "name": "three",
            "model": {"preset": "tiny-llama"},
            "training": {
                "seed": 42,
                "micro_batch_size": 2,
                "global_batch_size": 12,
                "sequence_length": 64,
                "steps": steps,
                "learning_rate": 1e-3,
                "warmup_steps": 2,
            },
            "precision": {"dtype": "fp32"},
            "data": {"source": "markov", "seed": 7, "samples": steps * 12},
            "platforms": {
                "lab": {
                    "gpu": "cpu",
                    "nodes": nodes,
                    "gpus_per_node": 1,
                    "framework": "native",
                    "container": {"image": IMAGE},
                    "network": {"socket_interface": "eth0"},
                    **platform,
                }
            },
        }
        path = tmp_path / f"three-{nodes}.yaml"
        path.write_text(json.dumps(content))
        return path

    return write
