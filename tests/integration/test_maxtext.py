"""Real MaxText on CPUs of two hosts, from a packaged config made small: `make integration-maxtext`."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import Lab, maxtext
from lab.lab import at_once
from lab.suite import NETWORK, make_ready, unmake, written

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not maxtext.ENVIRONMENT, reason="`make integration-maxtext` makes the environment it needs"),
]

CONFIG = "mi300x_distributed_llama3_1_70b.json"
MODEL = "llama3.1-70b"
SMALL = {
    "model.num_layers": 4,
    "model.hidden_size": 256,
    "model.ffn_hidden_size": 768,
    "model.num_attention_heads": 8,
    "model.num_key_value_heads": 4,
    "model.head_dim": 32,
    "model.vocab_size": 2048,
    "training.sequence_length": 128,
    "training.learning_rate": 1e-3,
    "training.min_learning_rate": 1e-4,
    "kernels.use_flash_attn": "false",
}
RECORD = Path(os.environ["STEELYARD_RECORD"]).resolve() if "STEELYARD_RECORD" in os.environ else None
"""Where to keep the run: docs/cases/maxtext-two-hosts was made so."""


@pytest.fixture(autouse=True)
def ready(lab: Lab, hosts_are_left_as_they_were: None) -> Iterator[None]:
    at_once([lambda host=host: make_ready(host, gpus=False) for host in lab.hosts[:2]])
    yield
    at_once([lambda host=host: unmake(host, gpus=False) for host in lab.hosts[:2]])


@pytest.fixture
def config(lab: Lab, tmp_path: Path) -> Path:
    """The packaged config for MaxText's image of now, asked for what two CPUs can give."""
    path = written(tmp_path, CONFIG, 2, coordinator_ip=lab.hosts[0].address, **NETWORK)
    content = json.loads(path.read_text())
    content["config"]["container_image"] = maxtext.IMAGE
    results = content["model_params"]["multi_node"][MODEL]["mi300x"]["result_dict"]
    results["tokens_per_sec_per_gpu"] = "10"
    del results["tflops_per_sec_per_gpu"]
    path.write_text(json.dumps(content))
    return path


def test_maxtext_trains_over_two_hosts_and_is_judged(start: Any, lab: Lab, config: Path, tmp_path: Path) -> None:
    lab.build_image(maxtext.IMAGE, env=maxtext.image_env())
    hosts = lab.hosts[:2]
    settings = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    cluster = lab.cluster_file(tmp_path, 2)
    arguments = (config, "--model", MODEL, "--gpu", "cpu", "--gpus", "8", *settings, "--cluster", cluster)
    ended = start(*arguments, cluster=False).end(600)
    assert ended.status == 0, ended.out + ended.err
    found = ended.document
    assert (found["framework"], found["status"], found["steps"]) == ("maxtext", "completed", 30)
    assert found["verdict"] == "pass"
    assert ended.run.directory is not None
    plan = json.loads((ended.run.directory / "plan.json").read_text())
    steps = ended.run.steps()
    first = plan["expected"]["first_loss"]
    assert math.isclose(steps[0]["loss"], first, rel_tol=0.05), (steps[0], first)
    assert steps[-1]["loss"] < first - 1.0
    losses: dict[str, list[float]] = {}
    for line in (ended.run.directory / "nodes.jsonl").read_text().splitlines():
        step = json.loads(line)
        losses.setdefault(step["series"], []).append(step["loss"])
    assert set(losses) == {host.address for host in hosts}
    assert len({tuple(each) for each in losses.values()}) == 1  # one job, one loss
    if RECORD is not None:
        environment, python = maxtext.shared_paths()
        maxtext.keep(
            ended.run.directory, RECORD, {f"{tmp_path}/": "", environment: "/opt/maxtext", python: "/opt/python"}
        )
