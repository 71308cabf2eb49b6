"""The suite's own configs, filled in, through the lab: preflight, images of the configs' names, ranks that meet."""

import json
from pathlib import Path
from typing import Any

import pytest

from lab import Host, Lab, stand_in
from lab.rocm_smi import idle_mi300x
from lab.running import Ended
from lab.stand_in import Speed
from lab.suite import DISTRIBUTED, LLAMA_8B, LLAMA_70B, MEGATRON_IMAGE, NETWORK, SINGLE, written

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("hosts_as_configs_name_them")]

JAX = "mi300x_distributed_llama3_1_70b.json"
IMAGES = {
    SINGLE: MEGATRON_IMAGE,
    DISTRIBUTED: MEGATRON_IMAGE,
    JAX: "rocm/jax-training:maxtext-v25.9",
}


def said(ended: Ended, name: str) -> Any:
    """A document of the run's directory."""
    assert ended.run.directory is not None
    return json.loads((ended.run.directory / name).read_text())


def logs(ended: Ended) -> dict[str, str]:
    assert ended.run.directory is not None
    return {path.name: path.read_text() for path in (ended.run.directory / "logs").iterdir()}


def check_pass(ended: Ended, name: str, framework: str, hosts: list[Host]) -> dict[str, str]:
    """It ran to its end over those hosts, in that image, and kept its bounds; what each bound's finding says."""
    assert ended.status == 0, ended.out + ended.err
    found = ended.document
    assert (found["framework"], found["status"], found["steps"]) == (framework, "completed", 30)
    assert found["verdict"] == "pass"
    assert len(list(ended.run.out.glob("*/run.json"))) == 1
    image = next(one for one in ended.run.events() if one["kind"] == "image")["details"]
    assert image["image"] == IMAGES[name]
    assert image["ids"] == {host.address: host.image_id(IMAGES[name]) for host in hosts}
    kept = {one["check"]: one for one in said(ended, "verdict.json")["findings"] if one["check"].startswith("thresh")}
    assert set(kept) == {f"threshold {bound}" for bound in said(ended, "plan.json")["thresholds"]}
    assert {one["status"] for one in kept.values()} == {"pass"}
    return {check: one["message"] for check, one in kept.items()}


def check_met(ended: Ended, hosts: list[Host]) -> None:
    """Each node's log is kept, and in it its rank says how many met."""
    kept = logs(ended)
    assert set(kept) == {f"node{rank}.log" for rank in range(len(hosts))}
    for rank, host in enumerate(hosts):
        assert f"{host.name}: rank {rank} of {len(hosts)}\n" in kept[f"node{rank}.log"]


def test_megatron_on_one_node(start: Any, lab: Lab, tmp_path: Path) -> None:
    lab.build_image(IMAGES[SINGLE], stand_in.megatron(), Speed(7500.0, LLAMA_8B).env())
    config, cluster = written(tmp_path, SINGLE, 1), lab.cluster_file(tmp_path, 1)
    arguments = (config, "--model", "llama3_1_8b", "--gpu", "mi300x", "--cluster", cluster)
    ended = start(*arguments, cluster=False).end(300)
    bounds = check_pass(ended, SINGLE, "megatron", lab.hosts[:1])
    assert set(bounds) == {
        "threshold reported_tflops_per_gpu>=380",
        "threshold tokens_per_s_per_gpu>=6500",
        "threshold step_time_s<=20.165",
    }
    check_met(ended, lab.hosts[:1])


def test_megatron_over_three_nodes(start: Any, lab: Lab, tmp_path: Path) -> None:
    lab.build_image(IMAGES[DISTRIBUTED], stand_in.megatron(), Speed(12500.0, LLAMA_8B).env())
    config = written(tmp_path, DISTRIBUTED, 3, master_address=lab.hosts[0].address, **NETWORK)
    ended = start(config, "--model", "llama3_1_8b", "--gpu", "mi300x").end(300)
    bounds = check_pass(ended, DISTRIBUTED, "megatron", lab.hosts)
    assert set(bounds) == {"threshold reported_tflops_per_gpu>=610", "threshold tokens_per_s_per_gpu>=12000"}
    check_met(ended, lab.hosts)
    variables = [node["env"] for node in said(ended, "plan.json")["nodes"]]
    assert {one["GLOO_SOCKET_IFNAME"] for one in variables} == {"eth0"}
    assert {one["MASTER_ADDR"] for one in variables} == {lab.hosts[0].address}
    # The last rank speaks for all.
    assert {step["source"]["file"] for step in ended.run.steps()} == {"logs/node2.log"}
    assert {step["node"] for step in ended.run.steps()} == {lab.hosts[2].address}
    assert not (ended.run.directory / "nodes.jsonl").exists()


def test_maxtext_over_three_nodes_is_judged_on_each(start: Any, lab: Lab, tmp_path: Path) -> None:
    slow = lab.hosts[1]
    lab.build_image(IMAGES[JAX], stand_in.maxtext(), Speed(920.0, LLAMA_70B, slow.name).env())
    config = written(tmp_path, JAX, 3, coordinator_ip=lab.hosts[0].address, **NETWORK)
    ended = start(config, "--model", "llama3.1-70b", "--gpu", "mi300x").end(300)
    bounds = check_pass(ended, JAX, "maxtext", lab.hosts)
    assert set(bounds) == {"threshold reported_tflops_per_gpu>=380", "threshold tokens_per_s_per_gpu>=800"}
    assert all(" over 3 nodes," in message for message in bounds.values())
    check_met(ended, lab.hosts)
    losses: dict[str, list[float]] = {}
    for line in (ended.run.directory / "nodes.jsonl").read_text().splitlines():
        step = json.loads(line)
        losses.setdefault(step["series"], []).append(step["loss"])
    assert set(losses) == {host.address for host in lab.hosts}
    assert len({tuple(each) for each in losses.values()}) == 1  # one job, one loss
    assert all(len(each) == 30 for each in losses.values())
    stricter = start("--threshold", "tokens_per_s_per_gpu>=900", ended.run.directory, cluster=False, verb="check").end()
    (failed,) = (one for one in stricter.document["findings"] if one["status"] == "fail")
    assert (stricter.status, failed["code"]) == (1, "threshold_missed_on_node")
    assert f" on {slow.address}, threshold >= 900" in failed["message"]


def test_a_host_that_lacks_a_gpu_keeps_the_job_from_starting(start: Any, lab: Lab, tmp_path: Path) -> None:
    lab.build_image(IMAGES[DISTRIBUTED], python=False)
    lab.hosts[1].fake_tool("rocm-smi", idle_mi300x(7))
    config = written(tmp_path, DISTRIBUTED, 3, master_address=lab.hosts[0].address, **NETWORK)
    ended = start(config, "--model", "llama3_1_8b", "--gpu", "mi300x").end()
    assert (ended.status, ended.document["steps"]) == (3, 0), ended.err
    assert (ended.failure["phase"], ended.failure["node"]) == ("preflight", lab.hosts[1].address)
    assert "7 GPUs, but the config needs 8" in ended.failure["message"]
