"""A run over hosts that have Podman: the figures of Docker, the same causes, and nothing left."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import LOGIN, Lab
from lab.podman import Podman, remove_cgroups
from lab.running import IMAGE, Ended, Running, pid_of_trainer
from steelyard.experiment.platform import Container
from steelyard.hardware.nics import NICS
from steelyard.planning.container import run_argv

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(LOGIN != "root", reason="Podman without root needs subordinate ids, which the lab has none of"),
]

LONG = 4000
QUICK = ("--lost-after", "4", "--abandon-after", "15", "--stall-after", "5")
IN_PODMAN = {"image": IMAGE, "engine": "podman"}
CDI = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {"name": "all", "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{each}"} for each in range(8)]}}
    ],
}
"""What `nvidia-ctk cdi generate` writes, in small."""
LOOK = "find /dev; echo $QUOTED; cd /sys/fs/cgroup; if [ -d pids ]; then cat pids/pids.max; else cat pids.max; fi"


@pytest.fixture(scope="module")
def saved(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tar = tmp_path_factory.mktemp("saved") / "image.tar"
    lab.hosts[0].save_image(IMAGE, tar)
    return tar


@pytest.fixture(scope="module")
def engines(lab: Lab, saved: Path) -> Iterator[list[Podman]]:
    made = [Podman(host) for host in lab.hosts]
    for podman in made:
        podman.load(saved)
    yield made
    for podman in made:
        podman.remove()
    remove_cgroups()


@pytest.fixture(autouse=True)
def podman_is_left_as_it_was(engines: list[Podman], hosts_are_left_as_they_were: None) -> Iterator[None]:
    """No container, whoever's; processes and files are looked for on every host anyway."""
    yield
    left = {podman.host.name: found for podman in engines if (found := podman.containers())}
    for podman in engines if left else ():
        podman.remove()
    assert not left


@pytest.fixture
def run(start: Any, experiment: Any) -> Running:
    """A run over three hosts that is under way."""
    found: Running = start(experiment(LONG, container=IN_PODMAN), *QUICK).until_step(3)
    return found


def failed(ended: Ended) -> tuple[int, str, str]:
    return ended.status, ended.failure["kind"], ended.failure["node"]


def test_the_losses_are_dockers_once_the_image_is_brought(
    start: Any, experiment: Any, engines: list[Podman], saved: Path
) -> None:
    engines[2].host.sh(["podman", "rmi", IMAGE])
    lacking = start(experiment(container=IN_PODMAN), "--no-preflight").end()
    assert lacking.status == 3
    assert f"image {IMAGE} not found" in lacking.failure["message"]
    assert "podman save" in lacking.document["error"]["next"]
    ours = start(experiment(container=IN_PODMAN), "--image-file", saved).end()
    dockers = start(experiment()).end()
    assert (ours.status, dockers.status) == (0, 0), (ours.err, dockers.err)
    losses = [[step["loss"] for step in ended.run.steps()] for ended in (ours, dockers)]
    assert len(losses[0]) == len(losses[1]) == 30
    assert all(math.isclose(one, other, abs_tol=1e-5) for one, other in zip(*losses, strict=True))
    ids = [
        next(event for event in ended.run.events() if event["kind"] == "image")["details"]["ids"]
        for ended in (ours, dockers)
    ]
    assert ids[0] == ids[1]


def test_rank_exits_1(run: Running, engines: list[Podman]) -> None:
    host = engines[2].host
    host.sh(["kill", "-KILL", pid_of_trainer(host)])
    ended = run.end()
    assert (ended.status, ended.failure["node"]) == (1, host.address), ended.out


def test_container_killed(run: Running, engines: list[Podman]) -> None:
    host = engines[1].host
    host.sh(["podman", "kill", engines[1].one_of_ours()])
    assert failed(run.end()) == (3, "killed", host.address)


def test_out_of_memory(start: Any, experiment: Any, engines: list[Podman]) -> None:
    host = engines[1].host
    run = start(experiment(LONG, container=IN_PODMAN), *QUICK).until(lambda _: bool(engines[1].containers()))
    host.sh(["podman", "update", "--memory", "64m", "--memory-swap", "64m", engines[1].one_of_ours()])
    assert failed(run.end()) == (1, "oom", host.address)


def test_a_program_that_the_image_lacks(start: Any, experiment: Any) -> None:
    lacking = {**IN_PODMAN, "env": {"PATH": "/nowhere"}}
    ended = start(experiment(nodes=1, container=lacking), "--nodes", "1").end()
    assert (ended.status, ended.failure["kind"]) == (3, "container"), ended.out
    assert "No such file or directory" in ended.failure["message"]


def test_interrupted_beside_a_foreign_container(start: Any, experiment: Any, engines: list[Podman]) -> None:
    podman = engines[1]
    name = ["--name", "three-node1", "--network", "host"]
    foreign = podman.host.sh(["podman", "run", "-d", *name, IMAGE, "sleep", "600"]).stdout.strip()
    try:
        refused = start(experiment(LONG, container=IN_PODMAN), *QUICK).end()
        assert failed(refused) == (3, "container", podman.host.address)
        assert "already in use" in refused.failure["message"]
        run = start(experiment(LONG, container={**IN_PODMAN, "name": "another"}), *QUICK).until_step(3)
        run.interrupt()
        ended = run.end()
        assert (ended.status, ended.document["status"]) == (130, "interrupted"), ended.err
        (still,) = podman.containers()
        assert (still["Id"], still["State"]) == (foreign, "running")
    finally:
        podman.remove(foreign)


def test_a_container_sees_its_gpus_and_network_cards(engines: list[Podman]) -> None:
    host = engines[0].host
    host.path("/etc/cdi").mkdir(exist_ok=True)
    host.path("/etc/cdi/nvidia.json").write_text(json.dumps(CDI))
    host.path("/srv/job/job/output").mkdir(parents=True)
    host.path("/srv/job/environment").write_text("QUOTED='a b' \"c\"\n")
    seen = {}
    for vendor in ("nvidia", "amd"):
        argv = run_argv(
            Container(image=IMAGE, engine="podman", shm_size="128m"),
            ["sh", "-c", LOOK],
            name=vendor,
            experiment="seen",
            control_dir="/srv/job",
            vendor=vendor,
            nic=NICS["cx7"],
            workdir="/steelyard",
        )
        seen[vendor] = host.sh(argv).stdout.splitlines()
        engines[0].remove(vendor)
    assert {f"/dev/nvidia{each}" for each in range(8)} <= set(seen["nvidia"])
    assert {"/dev/kfd", "/dev/dri/renderD128", "/dev/infiniband/uverbs0"} <= set(seen["amd"])
    for lines in seen.values():
        assert lines[-2:] == ["'a b' \"c\"", "max"]
