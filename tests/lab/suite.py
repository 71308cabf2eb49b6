"""The suite's own configs with their places filled by what the lab has, and hosts that have what they name."""

import json
from pathlib import Path

from lab.host import Host
from lab.lab import LOGIN
from lab.rocm_smi import idle_mi300x
from seeds import filled, packaged_content

SINGLE = "mi3xx_megatron_llama_single.json"
DISTRIBUTED = "mi3xx_megatron_llama_distributed.json"
MEGATRON_IMAGE = "rocm/megatron-lm:v25.5_py310"
LLAMA_8B, LLAMA_70B = 57.913, 481.435
"""GFLOP per token without the causal mask, as images of 2025 count them."""
HOME = f"/home/{LOGIN}"
"""What /home/{user-id} is: the lab's cluster file names that login."""
LOGS = "/tmp/TRAINING_LOGS"
NETWORK = {
    "nic_type": "cx7",
    "nccl_ib_hca_list": ",".join(f"mlx5_{number}" for number in range(8)),
    "nccl_socket_ifname": "eth0",
    "gloo_socket_ifname": "eth0",
    "nccl_ib_gid_index": "3",
}


def make_ready(host: Host, gpus: bool = True) -> None:
    """What the configs name and preflight asks for: GPUs that answer, a home with a token, room."""
    if gpus:
        host.fake_tool("rocm-smi", idle_mi300x())
    host.sh(["mount", "-o", "remount,size=16g", "/home"])
    host.sh(["mkdir", "-p", HOME, LOGS])
    host.sh(["sh", "-c", f"umask 077 && echo not-a-real-token > {HOME}/.hf_token && chown {LOGIN} {HOME}/.hf_token"])


def unmake(host: Host, gpus: bool = True) -> None:
    host.sh(["rm", "-r", f"{HOME}/.hf_token", LOGS])
    if LOGIN == "root":
        host.sh(["rmdir", HOME])
    host.sh(["mount", "-o", "remount,size=64m", "/home"])
    if gpus:
        host.remove_tool("rocm-smi")


def written(folder: Path, name: str, nodes: int, **others: str) -> Path:
    """A config of the suite with its places filled by what the lab has."""
    content = filled(packaged_content(name), nodes, **others)
    # The lab's hosts have no library of Broadcom's cards, which nic_type thor2 would want there too: hence cx7.
    volumes = content["config"]["container_config"]["volume_dict"]
    for library in ("/usr/local/lib/libbnxt_re-rdmav34.so", "/lib/libibverbs.d"):
        volumes.pop(library, None)
    for models in content["model_params"].values():
        for params in (one for gpus in models.values() for one in gpus.values()):
            if nodes == 3:  # no whole number of micro-batches on 24 GPUs
                size = params.get("batch_size")
                params["batch_size"] = {"128": "144", "256": "264"}.get(size, size)
    path = folder / name
    path.write_text(json.dumps(content))
    return path
