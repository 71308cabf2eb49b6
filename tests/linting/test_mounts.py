"""What of its host a container may be given, and what a platform may allow."""

import getpass
import json
from pathlib import Path
from typing import Any

import pytest

from seeds import filled, packaged_content
from steelyard.configs.choose import Asked
from steelyard.experiment.control import own_parents
from steelyard.hardware.machine import Machine
from steelyard.linting import lint_file
from steelyard.linting.mounts import normal

LAPTOP = Machine((), cpu_count=2)
MEGATRON = "mi3xx_megatron_llama_single.json"
ONE = ("--model", "llama3_1_8b", "--gpu", "mi300x")
GOOD = """
schema_version: 1
name: good
model: {preset: tiny-llama}
training: {micro_batch_size: 2, global_batch_size: 32, sequence_length: 64, steps: 10, learning_rate: 1e-3}
data: {source: counting}
"""
RULES = {"SY121", "SY122", "SY123", "SY124", "SY125"}


def experiment(allow: str = "", log_dir: str | None = None, cache_dir: str | None = None, **container: Any) -> Path:
    path = Path("experiment.yaml")
    platform = {"gpu": "a100", "gpus_per_node": 2, "framework": "megatron"}
    platform |= {"container": {"image": "i", **container}} | ({"cache_dir": cache_dir} if cache_dir else {})
    platform |= {"log_dir": log_dir} if log_dir else {}
    platform |= {"allow": allow.split()} if allow else {}
    path.write_text(f"{GOOD}\nplatforms: {json.dumps({'p': platform})}\n")
    return path


def codes(path: Path, user: str = "alice") -> set[str]:
    return {problem.code for problem in lint_file(path, Asked(user=user), LAPTOP) if problem.code in RULES}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", {"SY121", "SY123"}),
        ("//", {"SY121", "SY123"}),
        ("/./etc/", {"SY121"}),
        ("/home/alice/../../etc", {"SY121"}),
        ("/etc/ssh", {"SY121"}),
        ("/etc/sudoers.d/x", {"SY121"}),
        ("/proc/1/root", {"SY121"}),
        ("/sys", {"SY121"}),
        ("/dev", {"SY121"}),
        ("/var/run", {"SY121"}),
        ("/run/", {"SY121"}),
        ("/boot/grub", {"SY121"}),
        ("/usr", {"SY121"}),
        ("/home", {"SY121"}),
        ("/var/run/docker.sock", {"SY122"}),
        ("/run/docker.sock", {"SY122"}),
        ("/run/podman/podman.sock", {"SY122"}),
        ("/run/user/1000/podman/podman.sock", {"SY122"}),
        ("/run/containerd/containerd.sock", {"SY122"}),
        ("/var/lib/docker", {"SY122"}),
        ("/var", {"SY123"}),
        ("/var/tmp/", {"SY123"}),
        ("/var/tmp/steelyard-alice", {"SY123"}),
        ("/var/tmp/steelyard-alice/x", {"SY123"}),
        ("/dev/sda1", {"SY124"}),
        ("/dev/mapper/root", {"SY124"}),
        ("/home/bob", {"SY125"}),
        ("/home/alice/../bob/x", {"SY125"}),
        ("/root", {"SY125"}),
        ("/root/.ssh", {"SY125"}),
    ],
)
def test_a_mount_that_hands_over_the_host_is_an_error(path: str, expected: set[str]) -> None:
    assert codes(experiment(volumes={path: "/inside"})) == expected


@pytest.mark.parametrize(
    "path",
    [
        "/home/alice",
        "/home/alice/data",
        "/data",
        "/mnt/nfs",
        "/tmp/TRAINING_LOGS",
        "/lib/libibverbs.d",
        "/etc/libibverbs.d",
        "/usr/local/lib/libbnxt_re-rdmav34.so",
        "/dev/infiniband",
        "/dev/shm",
        "/var/lib/steelyard-data",
        "/var/tmp/steelyards",
        "/etcetera",
        "/sys/class/infiniband",
    ],
)
def test_a_mount_that_jobs_need_passes(path: str) -> None:
    assert codes(experiment(volumes={path: "/inside"})) == set()


@pytest.mark.parametrize(
    "device",
    ["/dev/sda", "/dev/nvme0n1", "/dev/mem", "/dev/kmsg", "/dev/dm-0", "/dev/../etc/shadow", "/dev/x/../kfd"],
)
def test_a_device_that_is_a_disk_memory_or_none_is_an_error(device: str) -> None:
    assert codes(experiment(devices=[device])) == {"SY124"}


@pytest.mark.parametrize("device", ["/dev/kfd", "/dev/dri", "/dev/infiniband/rdma_cm", "/dev/nvidia0", "/dev/fuse"])
def test_a_device_of_gpus_and_network_cards_passes(device: str) -> None:
    assert codes(experiment(devices=[device])) == set()


def test_another_log_dir_is_a_way_on() -> None:
    assert codes(experiment(volumes={"/var": "/v"}, log_dir="/home/alice/runs")) == set()
    assert codes(experiment(volumes={"/var": "/v"}, log_dir="/var/log/alice")) == {"SY123"}
    assert codes(experiment(volumes={"/var": "/v"}), user="root") == set()
    assert codes(experiment(volumes={"/var": "/v", "/root": "/r"}), user="root") == {"SY123"}


def test_cache_and_corpus_are_mounts_too() -> None:
    assert codes(experiment(cache_dir="/etc")) == {"SY121"}
    path = experiment()
    path.write_text(path.read_text().replace("source: counting", "source: tokens, path: /etc/corpus, tokenizer: x"))
    assert codes(path) == {"SY121"}


def test_a_secret_is_no_way_to_the_host_s_passwords() -> None:
    path = experiment()
    path.write_text(
        path.read_text().replace(
            '"framework": "megatron"', '"framework": "megatron", "hf_token_file": "/x/../etc/shadow"'
        )
    )
    assert codes(path) == {"SY121"}
    path.write_text(path.read_text().replace("/x/../etc/shadow", "/home/bob/.hf_token"))
    assert codes(path) == set()


def test_root_s_own_home_is_root_s() -> None:
    assert codes(experiment(volumes={"/root": "/r"}), user="root") == set()
    assert codes(experiment(volumes={"/home/alice": "/r"}), user="root") == {"SY125"}


def test_no_allowed_code_opens_the_control_directory(cli: Any) -> None:
    parents = {path: f"/x{at}" for at, path in enumerate(own_parents(getpass.getuser()))}
    told = cli("plan", experiment(allow="SY121 SY122", volumes=parents), "--json")
    assert told.status == 2
    assert "control files" in told.document["error"]["message"]
    assert "log_dir" in told.document["error"]["next"]
    assert cli("plan", experiment(allow="SY121", volumes={"/": "/x"})).status == 2


def test_what_is_allowed_is_planned_shown_and_recorded(cli: Any) -> None:
    path = experiment(allow="SY121 SY124", volumes={"/etc": "/e"}, devices=["/dev/sda"])
    problems = cli("lint", path, "--json").document["problems"]
    assert {problem["code"]: problem["allowed"] for problem in problems if problem["code"] in RULES} == {
        "SY121": True,
        "SY124": True,
    }
    assert all(problem["allowed"] is False for problem in problems if problem["code"] not in RULES)
    assert "0 errors" in cli("lint", path).out
    assert "2 allowed" in cli("lint", path).out
    told = cli("plan", path, "--json")
    assert told.status == 0
    assert [(one["code"], one["pointer"]) for one in told.document["allowed"]] == [
        ("SY121", "/platforms/p/container/volumes/~1etc"),
        ("SY124", "/platforms/p/container/devices/0"),
    ]
    (line,) = [line for line in told.err.splitlines() if line.startswith("allowed: ")]
    assert "SY121" in line
    assert "SY124" in line
    assert cli("plan", experiment(volumes={"/data": "/d"}), "--json").document["allowed"] == []


@pytest.mark.parametrize("code", ["SY119", "SY123", "SY203", "SY999"])
def test_a_code_that_cannot_be_allowed_is_an_error(cli: Any, code: str) -> None:
    problems = cli("lint", experiment(allow=code), "--json").document["problems"]
    assert [(one["code"], one["pointer"]) for one in problems if one["severity"] == "error"] == [
        ("SY103", "/platforms/p/allow")
    ]


def test_a_suite_s_config_is_allowed_by_an_option(cli: Any) -> None:
    content = filled(packaged_content(MEGATRON), 1)
    content["config"]["container_config"]["volume_dict"] = {"/etc": "/e", "/home/nobody-here": "/h"}
    path = Path("config.json")
    path.write_text(json.dumps(content))
    refused = cli("plan", path, *ONE, "--json")
    assert refused.document["error"]["key"] == "config.container_config.volume_dict./etc"
    assert "--allow SY121" in refused.document["error"]["next"]
    told = cli("plan", path, *ONE, "--allow", "SY121,SY125", "--json")
    assert told.status == 0
    assert [(one["code"], one["by"]) for one in told.document["allowed"]] == [
        ("SY121", "--allow"),
        ("SY125", "--allow"),
    ]
    wrong = cli("plan", path, *ONE, "--set", "platform.allow=SY121", "--json")
    assert wrong.status == 2
    assert wrong.document["error"]["next"] == "--allow SY121"


def test_set_reaches_the_platform_s_other_keys_and_names_the_options_of_the_rest(cli: Any) -> None:
    told = cli("plan", experiment(), "--set", "platform.container.image=j", "--set", "platform.env.A=b", "--json")
    node = told.document["nodes"][0]
    assert (node["container"]["image"], node["env"]["A"]) == ("j", "b")
    refused = cli("plan", experiment(), "--set", "platform.nodes=2", "--json")
    assert refused.document["error"]["next"] == "--nodes 2"
    unknown = cli("plan", experiment(), "--set", "platform.imagee=j", "--json")
    assert unknown.status == 2
    assert "--set platform.imagee" in unknown.document["error"]["message"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("//a//b/./c/../d/", "/a/b/d"),
        ("/..", "/"),
        ("/", "/"),
        ("/var/run/x", "/run/x"),
        ("/var/running", "/var/running"),
    ],
)
def test_paths_are_spelt_one_way(path: str, expected: str) -> None:
    assert normal(path) == expected
