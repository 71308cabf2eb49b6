"""The training loop of a data-parallel group; prints one line per optimizer step."""

import contextlib
import math
import os
import resource
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from steelyard.trainer.adamw import AdamW
from steelyard.trainer.model import Decoder, scaled_loss
from steelyard.trainer.spec import Spec, TrainingSpec
from steelyard.trainer.store import Store
from steelyard.trainer.tokens import Source, batch

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}

# torch 2.13 renames both; 2.11 has only the old names.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class Ranks:
    """The ranks that torchrun started, or a single process."""

    def __init__(self, device: str) -> None:
        # Only with torchrun: the shell of a job may have rank variables too.
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
        if self.gloo:  # its reduce-scatter is not faster than the whole sum
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


def train(spec: Spec) -> None:
    """Train by the spec; rank 0 prints."""
    torch.use_deterministic_algorithms(spec.deterministic)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # it is never read
    ranks = Ranks(spec.device)
    with torch.device(ranks.device), _attention(spec):
        _run(spec, ranks)
    ranks.close()


def _run(spec: Spec, ranks: Ranks) -> None:
    training = spec.training
    device = torch.cuda.get_device_name() if spec.device == "cuda" else "cpu"
    started = {"torch": torch.__version__, "device": device, "ranks": ranks.size}
    _say(ranks, "steelyard trainer", **started, dtype=spec.dtype, steps=training.steps)
    source = spec.token_source()
    model, store, optimizer = _build(spec, ranks)
    if spec.compile:
        for layer in model.layers:
            layer.compile()
    _say(ranks, "initialized", parameters=store.size)
    tokens = training.global_batch_size * training.sequence_length
    before = time.perf_counter()
    for step in range(1, training.steps + 1):
        loss = torch.zeros((), dtype=torch.float64)
        for inputs, labels in _micro_batches(spec, source, ranks, step):
            part = scaled_loss(model(inputs), model.output_weight, labels, 1 / tokens)
            part.backward()  # type: ignore[no-untyped-call]
            loss += part.detach()
        rate = learning_rate(training, step)
        norm = _optimizer_step(spec, ranks, store, optimizer, rate)
        loss_value, norm_value = ranks.sum(loss).item(), norm.item()
        after = time.perf_counter()
        seconds, before = after - before, after
        memory, kind = _memory(spec)
        learned = {"loss": loss_value, "grad_norm": norm_value, "learning_rate": rate}
        speed = {"step_time_s": seconds, "tokens": tokens, "tokens_per_s_per_gpu": tokens / seconds / ranks.size}
        memory_fields = {"memory_gib": ranks.maximum(memory), "memory_kind": kind}
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        _say(ranks, f"step: {step}/{training.steps}", **learned, **speed, **memory_fields, time=now)
    _say(ranks, "training finished", steps=training.steps)


def _build(spec: Spec, ranks: Ranks) -> tuple[Decoder, Store, AdamW]:
    dtype = _DTYPES[spec.dtype]
    with torch.device("meta"):
        model = Decoder(spec.model, recompute=spec.training.recompute == "full")
    store = Store(model, dtype, torch.float32 if spec.grad_reduce_in_fp32 else dtype, ranks.size)
    low, high = ranks.shard(store.weights.numel()) if spec.distributed_optimizer else (0, store.weights.numel())
    optimizer = AdamW(store, low, high, spec.training, compiled=spec.compile)
    store.initialize(model, spec.training.seed, spec.training.init_method_std, optimizer.remainder, low)
    return model, store, optimizer


def _micro_batches(spec: Spec, source: Source, ranks: Ranks, step: int) -> Iterator[tuple[Tensor, Tensor]]:
    """This rank's micro batches of a step; the samples of a step do not depend on the number of ranks."""
    training = spec.training
    size = training.micro_batch_size
    first = (step - 1) * training.global_batch_size
    for at in range(first + ranks.rank * size, first + training.global_batch_size, ranks.size * size):
        tokens = torch.from_numpy(batch(source, range(at, at + size))).to(ranks.device)
        yield tokens[:, :-1], tokens[:, 1:]


def _optimizer_step(spec: Spec, ranks: Ranks, store: Store, optimizer: AdamW, rate: float) -> Tensor:
    """Reduce, clip, update, gather; return the gradient norm before clipping."""
    sharded = spec.distributed_optimizer
    if sharded:
        ranks.sum_to_shards(store.gradients)
    else:
        ranks.sum(store.gradients)
    squared = optimizer.squared_norm()
    norm = (ranks.sum(squared) if sharded else squared).sqrt()
    limit = spec.training.clip_grad_norm
    clip = torch.ones(()) if limit is None else (limit / (norm + 1e-6)).clamp(max=1.0).float()
    optimizer.step(rate, clip)
    store.gradients.zero_()
    if sharded:
        ranks.gather_shards(store.weights)
    return norm


def learning_rate(training: TrainingSpec, step: int) -> float:
    """Rate of `step` (from 1): linear to the peak at `warmup_steps`, then down to the minimum at `decay_steps`.

    `decay_steps` defaults to all steps; later steps have the minimum.
    """
    peak, low, warmup = training.learning_rate, training.min_learning_rate, training.warmup_steps
    if step <= warmup:
        return peak * step / warmup
    if training.schedule == "constant":
        return peak
    done = min(1.0, (step - warmup) / max(1, (training.decay_steps or training.steps) - warmup))
    left = (1 + math.cos(math.pi * done)) / 2 if training.schedule == "cosine" else 1 - done
    return low + (peak - low) * left


def _attention(spec: Spec) -> contextlib.AbstractContextManager[None]:
    """Prefer cuDNN's attention, the fastest on an H200, unless deterministic kernels are requested."""
    if spec.device == "cpu" or spec.dtype == "fp32" or spec.deterministic or torch.version.hip:
        return contextlib.nullcontext()
    order = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    kernels: contextlib.AbstractContextManager[None] = sdpa_kernel(order, set_priority=True)
    return kernels


def _memory(spec: Spec) -> tuple[float, str]:
    """Peak memory of this rank in GiB, and its kind."""
    if spec.device == "cuda":
        return torch.cuda.max_memory_reserved() / 1024**3, "torch_reserved_peak"
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1024**3, "process_rss_peak"


def _say(ranks: Ranks, head: str, /, **fields: object) -> None:
    """Print a line on rank 0; floats are printed exactly (shortest round trip)."""
    if ranks.rank == 0:
        print(" | ".join([head, *(f"{name}: {value}" for name, value in fields.items())]), flush=True)
