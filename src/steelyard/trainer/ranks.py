"""The data-parallel group: who this rank is, and the few collectives the trainer needs."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

# torch 2.13 renames both; 2.11 knows the old names only.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class Ranks:
    """The ranks torchrun started, or this process alone."""

    def __init__(self, device: str) -> None:
        # Only torchrun's own variables: a shell of a job may have ranks of its own.
        launched = os.environ if "TORCHELASTIC_RUN_ID" in os.environ else {}
        self.size = int(launched.get("WORLD_SIZE", "1"))
        self.rank = int(launched.get("RANK", "0"))
        local = int(launched.get("LOCAL_RANK", "0"))
        self.device = torch.device("cuda", local) if device == "cuda" else torch.device("cpu")
        self.gloo = device == "cpu"
        if device == "cuda":
            torch.cuda.set_device(self.device)
        if self.size > 1:
            backend = "gloo" if self.gloo else "nccl"  # on AMD GPUs the name nccl is RCCL
            dist.init_process_group(backend, timeout=timedelta(minutes=10))

    def shard(self, size: int) -> tuple[int, int]:
        """This rank's equal share of `size` elements."""
        share = size // self.size
        return self.rank * share, (self.rank + 1) * share

    def sum(self, tensor: Tensor) -> Tensor:
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def maximum(self, value: float) -> float:
        if self.size == 1:
            return value
        tensor = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return float(tensor)

    def sum_to_shards(self, flat: Tensor) -> None:
        """Leave each rank the sum of its own share of `flat`; the rest is undefined."""
        if self.size == 1:
            return
        if self.gloo:  # it has no reduce-scatter worth the name: the whole sum costs a CPU nothing extra
            dist.all_reduce(flat)
            return
        low, high = self.shard(flat.numel())
        _reduce_scatter(flat[low:high], flat)

    def gather_shards(self, flat: Tensor) -> None:
        """Fill `flat` with every rank's share."""
        if self.size > 1:
            low, high = self.shard(flat.numel())
            _all_gather(flat, flat[low:high].clone() if self.gloo else flat[low:high])

    def close(self) -> None:
        if self.size > 1:
            dist.destroy_process_group()
