"""The built-in PyTorch trainer: data parallel, one line per step."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from steelyard import accounting
from steelyard.experiment import Data, Kernels
from steelyard.experiment.case import Case
from steelyard.experiment.keys import defaults
from steelyard.frameworks.native.facts import FACTS
from steelyard.frameworks.planner import DEPENDENT, Command, Node, Planner, Refusal, unable
from steelyard.trainer.spec import ModelSpec, TrainingSpec
from steelyard.trainer.tokens import MADE, TokenFile

SPEC_FILE = "trainer.json"
TRAINER = "steelyard.trainer"
PORT = 29500
"""Port where ranks of several nodes meet, torchrun's default."""

_CHOSEN = ("compile", "deterministic", "use_flash_attn", "cross_entropy_loss_fusion")
_DOES: Mapping[str, tuple[Any, ...]] = {
    **{f"parallelism.{split}_parallel_size": (1,) for split in ("tensor", "pipeline", "context")},
    "parallelism.sequence_parallel": (False,),
    "parallelism.fsdp_size": (1,),
    "parallelism.overlap_grad_reduce": (False,),
    "parallelism.overlap_param_gather": (False,),
    "precision.dtype": ("fp32", "bf16"),
    "precision.fp8": (None,),
    "precision.fp32_residual_connection": (False,),
    "training.recompute": ("none", "full"),
    "training.checkpointing": (False,),
    "training.tracking": (False,),
    "kernels.use_flash_attn": (None, True),
    "kernels.cross_entropy_loss_fusion": (None, True),
    **{f"kernels.{key}": (None, False) for key in Kernels.model_fields if key not in _CHOSEN},
}
_READ = {
    *(f"model.{field.name}" for field in fields(ModelSpec)),
    *(f"training.{field.name}" for field in fields(TrainingSpec)),
    *("parallelism.distributed_optimizer", "precision.dtype", "precision.grad_reduce_in_fp32"),
    *(f"kernels.{key}" for key in _CHOSEN),
    *(f"data.{key}" for key in ("source", "seed", "path", "split", "samples")),
}
"""Keys that the trainer reads."""
_ABLE: Mapping[str, tuple[Any, ...]] = {
    **_DOES,
    **{
        key: (default,)
        for key, default in defaults().items()
        if key not in {*_READ, *_DOES, *(FACTS.unnamed or ()), *FACTS.ignores, *DEPENDENT}
    },
}
"""Supported values by key; all values of other keys are supported."""


class Native(Planner):
    def state_bytes(self, case: Case) -> accounting.StateBytes:
        # The bf16 weight is the upper half of the fp32 master weight.
        return accounting.state_bytes(case.resolved.experiment.precision, master_bytes=2)

    def refusals(self, case: Case) -> Iterator[Refusal]:
        placement, platform = case.placement, case.resolved.platform
        yield from unable(case.resolved.experiment, ", which native does not support", _ABLE)
        if placement.nodes > 1 and platform.container is None:
            message = f"platform.nodes is {placement.nodes}, and without a container native runs where Steelyard does"
            yield Refusal("platform.nodes", placement.nodes, message, "1, or a container", "give the platform an image")
        foreign = ("options", "script", "root", "hf_token_file", "secrets", "cache_dir")
        for name in foreign if platform.container else (*foreign, "log_dir"):
            if getattr(platform, name):
                message = f"platform.{name} is set, which native does not support"
                yield Refusal(f"platform.{name}", None, message, "no value", f"remove {name} from the platform")
        yield from _data_refusals(case)

    def variables(self, case: Case, node: Node) -> dict[str, str]:
        placement = case.placement
        env = {"PYTHONUNBUFFERED": "1"}
        if case.resolved.platform.container is None:
            env["STEELYARD_LIFELINE"] = "stdin"
        if placement.device == "cpu" and placement.cpu_count:
            env["OMP_NUM_THREADS"] = str(max(1, placement.cpu_count // placement.gpus_per_node))
        if placement.device == "gpu":
            env["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # otherwise matrix products may differ between runs
        if placement.device == "cpu" and case.resolved.experiment.precision.dtype == "bf16":
            # Some virtual machines advertise AMX but kill a process that uses it.
            env["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"
        return env

    def command(self, case: Case, node: Node) -> Command:
        ranks = case.placement.gpus_per_node
        python = sys.executable if case.resolved.platform.container is None else "python3"
        module = ["-m", TRAINER, f"{node.run_dir}/{SPEC_FILE}" if node.run_dir != "." else SPEC_FILE]
        where = ["--standalone"]
        if node.nodes > 1:
            where = [f"--nnodes={node.nodes}", f"--node-rank={node.rank}"]
            where += [f"--master-addr={node.head}", f"--master-port={node.port or PORT}"]
        if node.nodes > 1 or ranks > 1:
            module = ["-m", "torch.distributed.run", *where, f"--nproc-per-node={ranks}", *module]
        return Command([python, *module], self.variables(case, node), {SPEC_FILE: _spec(case)})


def _spec(case: Case) -> Mapping[str, Any]:
    """The keys of the trainer's `spec.Spec`."""
    experiment = case.resolved.experiment
    data, precision = experiment.data, experiment.precision
    return {
        "model": experiment.model.model_dump(include=_keys(ModelSpec)),
        "training": experiment.training.model_dump(include=_keys(TrainingSpec)),
        "data": {
            "source": data.source,
            "seed": data.seed,
            "path": str(_resolved(case, data.path)) if data.path else None,
            "train_share": _train_share(data),
            "samples": data.samples,
        },
        "device": "cpu" if case.placement.device == "cpu" else "cuda",
        "dtype": precision.dtype,
        "grad_reduce_in_fp32": precision.grad_reduce_in_fp32,
        "distributed_optimizer": experiment.parallelism.distributed_optimizer,
        "compile": bool(experiment.kernels.compile),
        "deterministic": experiment.kernels.deterministic is not False,
    }


def _data_refusals(case: Case) -> Iterator[Refusal]:
    """Refusals of data: generated data must fit the vocabulary, a token file must exist and have the right shape.

    Token ids are checked during training.
    """
    experiment, data = case.resolved.experiment, case.resolved.experiment.data
    vocabulary, length = experiment.model.vocab_size, experiment.training.sequence_length
    if data.source != "tokens":
        try:
            MADE[data.source](vocabulary, length, data.seed)
        except ValueError as reason:
            yield Refusal(
                "model.vocab_size", vocabulary, f"model.vocab_size: {reason}", None, "use a larger vocabulary"
            )
    elif data.path is not None:
        try:
            TokenFile(str(_resolved(case, data.path)), vocabulary, length, data.seed, _train_share(data))
        except OSError as missing:
            message = f"data.path is {data.path}, which cannot be read ({missing.strerror})"
            yield Refusal("data.path", data.path, message, "a .npy file of token ids", "correct the path")
        except ValueError as reason:
            yield Refusal("data.path", data.path, f"data.path: {reason}", None, "correct the file")


def _train_share(data: Data) -> float:
    shares = [float(share) for share in data.split.split(",")]
    return shares[0] / sum(shares)


def _keys(spec: type) -> set[str]:
    return {field.name for field in fields(spec)}


def _resolved(case: Case, path: str) -> Path:
    """A path in the file, relative to the file's folder."""
    return (case.resolved.file.parent / path).resolve()


PLANNER = Native()
