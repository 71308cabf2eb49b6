"""Stands in for MaxText.train: the same file and variables, one rank on the CPU for the GPUs of a node."""

import os
import sys
from pathlib import Path

from ruamel.yaml import YAML

GPUS_PER_NODE = 8


def main() -> None:
    """Become torchrun with what the YAML declares."""
    config = YAML(typ="safe", pure=True).load(Path(sys.argv[1]))
    gpus = GPUS_PER_NODE * int(os.environ["NNODES"])
    batch = config["per_device_batch_size"] * gpus * config.get("gradient_accumulation_steps", 1)
    # fmt: off
    argv = [
        "torchrun", "--nproc-per-node=1",
        f"--nnodes={os.environ['NNODES']}", f"--node-rank={os.environ['NODE_RANK']}",
        f"--master-addr={os.environ['JAX_COORDINATOR_IP']}", f"--master-port={os.environ['JAX_COORDINATOR_PORT']}",
        "/opt/stand_in/stand_in.py", "maxtext", "--steps", str(config["steps"]), "--batch", str(int(batch)),
        "--sequence", str(config["max_target_length"]), "--gpus", str(gpus),
    ]
    # fmt: on
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main()
