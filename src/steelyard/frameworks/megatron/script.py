"""train_llama3.sh of ROCm's Megatron-LM images: its variables, and the values that it fixes."""

from collections.abc import Iterator
from typing import Any

from steelyard.experiment import Experiment, Platform
from steelyard.experiment.case import Case
from steelyard.experiment.experiment import GROUPS
from steelyard.experiment.presets import PRESETS
from steelyard.experiment.problems import spelt
from steelyard.frameworks.megatron_family.plan import PORT
from steelyard.frameworks.planner import Node, Refusal, refuse

SCRIPT = "train_llama3.sh"

GPUS = 8
"""GPUs per node that the images are made for; the script uses all visible GPUs."""

FIXED = {
    "training.learning_rate": 1e-4,
    "training.min_learning_rate": 1e-5,
    "training.schedule": "cosine",
    "training.decay_steps": 320000,
    "training.warmup_steps": 0,
    "training.weight_decay": 0.1,
    "training.adam_beta1": 0.9,
    "training.adam_beta2": 0.95,
    "training.adam_epsilon": 1e-8,
    "training.clip_grad_norm": 1.0,
    "training.init_method_std": 0.02,
    "training.seed": 1234,
    "data.seed": 1234,
    "model.rope_theta": 10000.0,
    "model.rope_scaling": None,
    "precision.dtype": "bf16",
    "precision.grad_reduce_in_fp32": True,
    "parallelism.overlap_grad_reduce": True,
    "kernels.transformer_impl": "transformer_engine",
    "kernels.masked_softmax_fusion": False,
    "kernels.apply_rope_fusion": True,
    "kernels.gradient_accumulation_fusion": False,
    "kernels.use_flash_attn": True,
    "kernels.cross_entropy_loss_fusion": False,
}
"""Values that cannot be set: those of ROCm/Megatron-LM's examples/llama/train_llama3.sh, and Megatron-LM's defaults."""

_SETTABLE = {
    *("model.preset", "training.micro_batch_size", "training.global_batch_size", "training.sequence_length"),
    *("training.gradient_accumulation_steps", "training.steps", "training.recompute"),
    *("parallelism.tensor_parallel_size", "parallelism.pipeline_parallel_size", "parallelism.data_parallel_size"),
    *("parallelism.fsdp_size", "precision.fp8", "data.source", "data.path", "data.dataset", "data.samples"),
    "data.tokenizer",
}
"""Keys with a variable of the script, and keys without effect on it."""


def _fixed(experiment: Experiment) -> dict[str, Any]:
    """All other values: those of the script, and Megatron's defaults."""
    sizes = experiment.parallelism
    sharded = sizes.fsdp_size > 1
    needed = {"micro_batch_size", "global_batch_size", "sequence_length", "steps", "learning_rate"}
    least = {
        "name": experiment.name,
        "model": {**PRESETS[experiment.model.preset or ""], "rope_scaling": None},
        "training": experiment.training.model_dump(include=needed),
    }
    fixed = {
        **_flat(Experiment.model_validate(least)),
        **FIXED,
        "parallelism.sequence_parallel": sizes.tensor_parallel_size > 1 and not sharded,
        "parallelism.distributed_optimizer": not sharded,
        "parallelism.overlap_param_gather": not sharded,
        "data.tokenizer_type": "HuggingFaceTokenizer",
    }
    return {dotted: value for dotted, value in fixed.items() if dotted not in _SETTABLE}


def _flat(experiment: Experiment) -> dict[str, Any]:
    return {f"{group}.{key}": value for group in GROUPS for key, value in getattr(experiment, group)}


def refusals(experiment: Experiment, platform: Platform) -> Iterator[Refusal]:
    """Values that the script does not support."""
    if platform.script != SCRIPT:
        message = f"platform.script is {platform.script}, an unknown script"
        yield Refusal("platform.script", platform.script, message, SCRIPT, f"set platform.script to {SCRIPT}")
        return
    preset, known = experiment.model.preset, ("llama3.1-8b", "llama3.1-70b")
    if preset not in known:
        message = f"model.preset is {preset}, but {SCRIPT} supports two models"
        yield Refusal("model.preset", preset, message, " or ".join(known), f"--set model.preset={known[0]}")
        return
    if platform.options:
        message = f"platform.options is set, but {SCRIPT} takes no Megatron arguments"
        yield Refusal("platform.options", None, message, "no options", "remove options, or script")
    stated = _flat(experiment)
    choices: dict[str, tuple[Any, ...]] = {dotted: (value,) for dotted, value in _fixed(experiment).items()}
    choices |= {"training.recompute": ("none", "full"), "precision.fp8": (None, "hybrid")}
    choices["data.tokenizer_type"] = ("HuggingFaceTokenizer", None)
    for dotted, able in choices.items():
        value = stated.get(dotted)
        if value not in able and not (dotted.startswith("kernels.") and value is None):
            yield refuse(dotted, value, f", but {SCRIPT} uses {' or '.join(map(spelt, able))}", *able)


def variables(case: Case, node: Node) -> dict[str, str]:
    """Variables of the script: values of the experiment, and values that only some versions of the script set."""
    experiment, platform = case.resolved.experiment, case.resolved.platform
    training, sizes, kernels, data = experiment.training, experiment.parallelism, experiment.kernels, experiment.data
    switches = {
        "SEQ_PARALLEL": sizes.sequence_parallel,
        "FSDP": sizes.fsdp_size > 1,
        "RECOMPUTE": training.recompute == "full",
        "TE_FP8": experiment.precision.fp8 is not None,
        "GRAD_REDUCE_IN_BF16": not experiment.precision.grad_reduce_in_fp32,
        "CROSS_ENTROPY_LOSS_FUSION": bool(kernels.cross_entropy_loss_fusion),
        "ROPE_FUSION": kernels.apply_rope_fusion is not False,
        "USE_FLASH_ATTN": kernels.use_flash_attn is not False,
    }
    env = {
        "MODEL_SIZE": (experiment.model.preset or "").removeprefix("llama3.1-").removesuffix("b"),
        "TOTAL_ITERS": str(training.steps),
        "BS": str(training.global_batch_size),
        "MBS": str(training.micro_batch_size),
        "SEQ_LENGTH": str(training.sequence_length),
        "TP": str(sizes.tensor_parallel_size),
        "PP": str(sizes.pipeline_parallel_size),
        "CP": str(sizes.context_parallel_size),
        **{name: str(int(on)) for name, on in switches.items()},
        "OPTIMIZER": "adam",
        "TOKENIZER_MODEL": str(data.tokenizer),
        "MASTER_ADDR": node.head,
        "MASTER_PORT": str(node.port or PORT),
        "NNODES": str(node.nodes),
        "NODE_RANK": str(node.rank),
        "EXP_NAME": experiment.name,
        "LOG_DIR": f"{node.run_dir}/output",
        **({"MOCK_DATA": "0", "DATA_PATH": str(data.path)} if data.source == "tokens" else {"MOCK_DATA": "1"}),
    }
    if platform.cache_dir:
        env["DATA_CACHE_PATH"] = platform.cache_dir
    if case.placement.gpus_per_node != GPUS:  # the script uses all visible GPUs
        env["HIP_VISIBLE_DEVICES"] = ",".join(map(str, range(case.placement.gpus_per_node)))
    return env
