"""MaxText's own loader takes the planned YAML; `make integration-maxtext` runs these tests too."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab import maxtext
from seeds import SEEDS, filled, packaged_content

pytestmark = pytest.mark.skipif(not maxtext.ENVIRONMENT, reason="`make integration-maxtext` makes what it needs")

PROGRAM = """
import json, sys
from maxtext.configs import pyconfig
loaded = pyconfig.initialize(["", *sys.argv[1:]])
names = ("model_name", "emb_dim", "num_decoder_layers", "global_batch_size_to_train_on", "max_target_length", "steps")
print(json.dumps({name: getattr(loaded, name) for name in names}))
"""
JAX = [name for name in SEEDS if "megatron" not in name]


@pytest.mark.parametrize("data", ["synthetic", "c4"])
@pytest.mark.parametrize("nodes", [1, 4])
@pytest.mark.parametrize("name", JAX)
@pytest.mark.processes
def test_maxtext_loads_the_planned_file(cli: Any, tmp_path: Path, name: str, nodes: int, data: str) -> None:
    if "405b" in name and nodes == 1:
        pytest.skip("405B do not fit one node, so there is no plan")
    content = filled(packaged_content(name), nodes)
    if data == "c4":
        content["config"] |= {"mock_data": "False", "container_image": "rocm/jax-training:maxtext-v26.5"}
        for models in content["model_params"].values():
            for gpus in models.values():
                for params in gpus.values():
                    params["dataset_type"] = "hf"
                    params |= {key: params.pop(f"_{key}") for key in ("hf_path", "hf_train_files")}
    config = tmp_path / name
    config.write_text(json.dumps(content))
    planned = cli("plan", config, "--json").document
    node = planned["nodes"][0]
    yaml = tmp_path / "maxtext.yml"
    yaml.write_text(next(file["content"] for file in node["files"] if file["path"] == "maxtext.yml"))
    job_nodes = nodes if "distributed" in name else 1
    env = {
        "DECOUPLE_GCLOUD": "TRUE",
        "JAX_PLATFORMS": "cpu",
        "HF_HUB_OFFLINE": "1",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={8 * job_nodes}",
    }
    settings = [word for word in node["argv"] if "=" in word and not word.startswith("base_output")]
    done = subprocess.run(
        [
            f"{maxtext.ENVIRONMENT}/bin/python",
            "-c",
            PROGRAM,
            str(yaml),
            *settings,
            "skip_jax_distributed_system=true",
            f"num_slices={job_nodes}",
        ],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert loaded["emb_dim"] == (16384 if "405b" in name else 8192)
    assert loaded["num_decoder_layers"] == (126 if "405b" in name else 80)
    assert (
        loaded["global_batch_size_to_train_on"] * loaded["max_target_length"] == planned["expected"]["tokens_per_step"]
    )
    assert loaded["steps"] == 30
