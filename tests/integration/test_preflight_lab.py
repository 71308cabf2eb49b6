"""Preflight of three hosts: fit ones pass, and each thing that is wrong with one is found there, with its fix."""

import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab import CONTROL, CONTROL_DISK, LOGIN, Host, Lab, images
from lab.lab import at_once
from lab.namespaces import joined_network
from lab.rocm_smi import idle_mi300x
from steelyard.experiment import packaged

pytestmark = pytest.mark.integration

IMAGE = "rocm/megatron-lm:preflight"
FOLDER = "/srv/preflight"
TOKEN, DATA = f"{FOLDER}/hf_token", f"{FOLDER}/data"
PORT = 6000
SETTINGS = ("training.global_batch_size=384", "data.source=tokens", "data.path=/data/corpus_text_document")
# What rocm-smi of eight idle MI300X printed, but for the cards that are left out.


def make_fit(host: Host) -> None:
    """What the job needs and a host of the lab has not: GPUs, shared memory, data, a token, a kernel log of its own."""
    host.fake_tool("rocm-smi", idle_mi300x(8))
    host.fake_tool("dmesg", "echo '[    0.000000] Linux version 6.8.0'")
    host.sh(["mount", "-o", "remount,size=9g", "/dev/shm"])
    host.path(DATA).mkdir(parents=True)
    for name in ("corpus_text_document.bin", "corpus_text_document.idx"):
        host.path(f"{DATA}/{name}").write_bytes(bytes(range(256)) * 8192)
    host.path(TOKEN).write_text("not-a-real-token\n")
    host.path(TOKEN).chmod(0o600)
    host.sh(["chown", LOGIN, TOKEN])


def unmake(host: Host) -> None:
    for tool in ("rocm-smi", "dmesg"):
        host.remove_tool(tool)
    host.sh(["mount", "-o", "remount,size=1g", "/dev/shm"])
    shutil.rmtree(host.path(FOLDER))
    host.sh(["docker", "rmi", "--force", IMAGE])


@pytest.fixture(scope="module")
def hosts(lab: Lab) -> Iterator[list[Host]]:
    """Hosts that are fit for the job."""
    lab.build_image(IMAGE, python=False)
    at_once([lambda host=host: make_fit(host) for host in lab.hosts])
    yield lab.hosts
    at_once([lambda host=host: unmake(host) for host in lab.hosts])


def job(folder: Path, **others: Any) -> Path:
    """Megatron over three hosts of eight MI300X; `others` are further keys of the platform, None takes one out."""
    platform = {
        "gpu": "mi300x",
        "nodes": 3,
        "gpus_per_node": 8,
        "framework": "megatron",
        "container": {"image": IMAGE, "volumes": {DATA: "/data"}},
        "network": {"socket_interface": "eth0", "port": PORT},
        "hf_token_file": TOKEN,
    }
    platform = {key: value for key, value in {**platform, **others}.items() if value is not None}
    experiment = packaged.text("tiny-llama").partition("\nplatforms:")[0]
    path = folder / "job.yaml"
    path.write_text(f"{experiment}\nplatforms: {json.dumps({'lab': platform})}\n")
    return path


@pytest.fixture
def asked(start: Any, hosts: list[Host], tmp_path: Path) -> Any:
    """Preflight of the job: its exit status and document."""

    def call(*arguments: str, **platform: Any) -> tuple[int, dict[str, Any]]:
        settings = [word for setting in SETTINGS for word in ("--set", setting)]
        ended = start(job(tmp_path, **platform), *settings, *arguments, verb="preflight").end()
        assert ended.out, ended.err
        return ended.status, ended.document

    return call


def of(document: dict[str, Any], check: str) -> dict[str, dict[str, Any]]:
    """The findings of a check by host."""
    return {one["host"]: one for one in document["findings"] if one["check"] == check}


def only_on(answer: tuple[int, dict[str, Any]], host: Host, check: str) -> dict[str, Any]:
    """The one finding that is no pass is this check's, on this host, with a fix; nothing else is wrong."""
    status, document = answer
    wrong = [one for one in document["findings"] if one["status"] == "fail"]
    assert [(one["check"], one["host"]) for one in wrong] == [(check, host.address)], wrong
    assert (status, document["verdict"]) == (1, "fail")
    assert wrong[0]["fix"]
    return wrong[0]


@contextmanager
def altered(host: Host, path: str, content: bytes | None) -> Iterator[None]:
    """A file of a host that holds something else meanwhile, or is not there."""
    file = host.path(path)
    before = file.read_bytes()
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    try:
        yield
    finally:
        file.write_bytes(before)
        file.chmod(0o600)
        host.sh(["chown", LOGIN, path])


def test_hosts_that_are_fit_pass(asked: Any, hosts: list[Host]) -> None:
    status, document = asked()
    assert (status, document["verdict"]) == (0, "pass"), document
    passed = {one["check"] for one in document["findings"] if one["status"] == "pass"}
    assert passed >= {"reach", "clock", "disk", "shm", "ports", "gpu_count", "gpu_kind", "gpu_idle"}
    assert passed >= {"driver_version", "interfaces", "hf_token", "data", "image", "kernel_log"}
    assert set(of(document, "reach")) == {host.address for host in hosts}
    assert "not-a-real-token" not in json.dumps(document)


def test_nothing_is_left_or_changed_on_a_host(asked: Any, hosts: list[Host]) -> None:
    before = [{path: path.stat().st_mtime_ns for path in host.path(FOLDER).rglob("*")} for host in hosts]
    asked()
    assert before == [{path: path.stat().st_mtime_ns for path in host.path(FOLDER).rglob("*")} for host in hosts]
    assert not any(host.files() for host in hosts)
    assert not any(host.processes() for host in hosts)


def test_a_host_that_is_down(asked: Any, hosts: list[Host]) -> None:
    hosts[2].cut()
    try:
        answer = asked()
    finally:
        hosts[2].mend()
    found = only_on(answer, hosts[2], "reach")
    assert (found["observed"], found["required"]) == ("not reached", True)
    assert {one["check"] for one in answer[1]["findings"] if one["host"] == hosts[2].address} == {"reach"}


def test_a_host_whose_key_is_not_the_one_on_record(asked: Any, hosts: list[Host]) -> None:
    hosts[1].new_host_key()
    try:
        answer = asked("--accept-new-host-keys")
    finally:
        hosts[1].restore_host_key()
    found = only_on(answer, hosts[1], "reach")
    assert "the host key has changed" in found["message"]
    assert "ssh-keygen -R" in found["fix"]


@pytest.mark.skipif(shutil.which("faketime") is None, reason="faketime is not installed (Debian: faketime)")
def test_a_clock_that_is_ahead(asked: Any, hosts: list[Host]) -> None:
    hosts[1].fake_tool("date", f'exec {shutil.which("faketime")} -f +90s /usr/bin/date "$@"')
    try:
        found = only_on(asked(), hosts[1], "clock")
    finally:
        hosts[1].remove_tool("date")
    assert float(found["observed"]) == pytest.approx(90, abs=2)
    assert "ahead of the other hosts" in found["message"]


def test_a_full_disk(asked: Any, hosts: list[Host]) -> None:
    hosts[0].fill_disk(CONTROL_DISK, leave_bytes=2**29)
    try:
        found = only_on(asked(), hosts[0], "disk")
    finally:
        hosts[0].free_disk()
    assert found["message"] == f"only 0.5 GiB free in {CONTROL}; needed: 1 GiB"


def test_little_shared_memory(asked: Any, hosts: list[Host]) -> None:
    hosts[1].sh(["mount", "-o", "remount,size=1g", "/dev/shm"])
    try:
        found = only_on(asked(), hosts[1], "shm")
    finally:
        hosts[1].sh(["mount", "-o", "remount,size=9g", "/dev/shm"])
    assert (found["observed"], found["expected"]) == (1.0, "8 GiB")


def test_a_port_that_is_taken_on_the_head(asked: Any, hosts: list[Host]) -> None:
    with joined_network(hosts[0].inside.pid):
        listener = socket.create_server(("0.0.0.0", PORT))
    with listener:
        found = only_on(asked(), hosts[0], "ports")
    assert f"port {PORT}" in found["message"]


def test_a_port_that_is_taken_elsewhere_is_no_matter(asked: Any, hosts: list[Host]) -> None:
    with joined_network(hosts[1].inside.pid):
        listener = socket.create_server(("0.0.0.0", PORT))
    with listener:
        status, _ = asked()
    assert status == 0


@pytest.mark.parametrize(("content", "state"), [(None, "missing"), (b"", "empty")])
def test_a_token_that_is_not_there(asked: Any, hosts: list[Host], content: bytes | None, state: str) -> None:
    with altered(hosts[2], TOKEN, content):
        found = only_on(asked(), hosts[2], "hf_token")
    assert found["message"] == f"{TOKEN} is {state}"


def test_an_image_that_differs(asked: Any, hosts: list[Host], tmp_path: Path) -> None:
    usual = hosts[1].image_id(IMAGE)
    hosts[1].load_image(images.busybox_tree(tmp_path / "tree", {"/etc/other": "another\n"}), IMAGE)
    try:
        found = only_on(asked(), hosts[1], "image")
    finally:
        hosts[1].sh(["docker", "rmi", "--force", IMAGE])
        hosts[1].sh(["docker", "tag", usual, IMAGE])
    assert usual.startswith(found["expected"])
    assert found["observed"] != found["expected"]


def test_an_image_that_is_missing(asked: Any, hosts: list[Host]) -> None:
    usual = hosts[2].image_id(IMAGE)
    hosts[2].sh(["docker", "tag", IMAGE, "kept:preflight"])
    hosts[2].sh(["docker", "rmi", IMAGE])
    try:
        found = only_on(asked(), hosts[2], "image")
    finally:
        hosts[2].sh(["docker", "tag", usual, IMAGE])
        hosts[2].sh(["docker", "rmi", "kept:preflight"])
    assert f"docker pull {IMAGE}" in found["fix"]


def test_data_that_differs_in_one_byte_of_its_end(asked: Any, hosts: list[Host]) -> None:
    path = f"{DATA}/corpus_text_document.bin"
    with altered(hosts[0], path, hosts[0].path(path).read_bytes()[:-1] + b"\0"):
        found = only_on(asked(), hosts[0], "data")
    assert "on 2 of 3 hosts" in found["message"]


def test_a_host_with_a_gpu_less(asked: Any, hosts: list[Host]) -> None:
    hosts[1].fake_tool("rocm-smi", idle_mi300x(7))
    try:
        found = only_on(asked(), hosts[1], "gpu_count")
    finally:
        hosts[1].fake_tool("rocm-smi", idle_mi300x(8))
    assert (found["observed"], found["expected"]) == (7, 8)


def test_gpus_that_no_tool_answers_for_are_unknown(asked: Any, hosts: list[Host]) -> None:
    hosts[1].fake_tool("rocm-smi", "echo 'cannot open the device' >&2; exit 1")
    try:
        status, document = asked()
    finally:
        hosts[1].fake_tool("rocm-smi", idle_mi300x(8))
    found = of(document, "gpu_count")[hosts[1].address]
    assert (status, document["verdict"], found["status"], found["required"]) == (5, "unknown", "unknown", True)
    assert "cannot open the device" in found["message"]
    assert found["fix"]


@contextmanager
def low_limit(host: Host, files: int) -> Iterator[None]:
    """Sessions of a host may open few files: they inherit what its ssh server may."""
    pid = host.path("/run/sshd.pid").read_text().strip()
    host.sh(["prlimit", "--pid", pid, f"--nofile={files}:"])
    try:
        yield
    finally:
        host.stop_sshd()
        host.start_sshd()


# Without a container: where the hosts have the data, and Megatron on them.
BARE = ("--set", f"data.path={DATA}/corpus_text_document")


def test_low_limits_of_a_host(asked: Any, hosts: list[Host]) -> None:
    with low_limit(hosts[1], 256):
        found = only_on(asked(*BARE, container=None), hosts[1], "nofile")
    assert (found["observed"], found["expected"]) == ("256", "at least 1,024")
    assert found["required"] is False


def test_low_limits_block_a_job_over_rdma(asked: Any, hosts: list[Host]) -> None:
    network = {"socket_interface": "eth0", "nic": "thor2", "hcas": ["bnxt_re0"], "gid_index": 3}
    with low_limit(hosts[1], 256):
        status, document = asked(*BARE, container=None, network=network)
    assert status == 1
    found = of(document, "nofile")[hosts[1].address]
    assert (found["status"], found["required"]) == ("fail", True)
    assert (found["observed"], found["expected"]) == ("256", "at least 65,536")
    assert "limits.conf" in found["fix"]
    assert of(document, "memlock")[hosts[1].address]["required"] is True
    assert of(document, "nics")[hosts[1].address]["status"] == "fail"  # no host of the lab has such a card
