"""Shared planning of frameworks based on Megatron-LM: launcher, attention, common refusals."""

from collections.abc import Iterator, Mapping
from typing import Any

from steelyard.experiment import Experiment, Kernels
from steelyard.experiment.case import Case
from steelyard.frameworks.facts import Facts
from steelyard.frameworks.megatron_family.facts import ATTENTION_NAMES
from steelyard.frameworks.planner import Node, Refusal, refuse, unable, value_of

PORT = 6000

LARGEST_SEED = 2**32 - 1
"""Largest seed of numpy."""

FIXED_ROPE_SCALING = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""Fixed values of Megatron's rotary embedding; only the factor is an argument."""

TOKENIZERS = (
    *("BertWordPieceLowerCase", "BertWordPieceCase", "GPT2BPETokenizer", "SentencePieceTokenizer"),
    *("GPTSentencePieceTokenizer", "HuggingFaceTokenizer", "HFTokenizer", "Llama2Tokenizer", "TikTokenizer"),
    "NullTokenizer",
)
"""Tokenizer classes that Megatron's arguments accept; HFTokenizer is short for HuggingFaceTokenizer."""

DELAYED = {"fp8_margin": 0, "fp8_amax_history_len": 1024, "fp8_amax_compute_algo": "max"}
"""Transformer Engine's delayed scaling of fp8 products."""


def torchrun(case: Case, node: Node) -> list[str]:
    """The launcher of one node."""
    return [
        "torchrun",
        f"--nproc-per-node={case.placement.gpus_per_node}",
        f"--nnodes={node.nodes}",
        f"--node-rank={node.rank}",
        f"--master-addr={node.head}",
        f"--master-port={node.port or PORT}",
    ]


def flags(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Command-line words: true gives a flag alone, false and null give nothing."""
    for name, value in arguments.items():
        if value is True:
            yield name
        elif value is not False and value is not None:
            yield from (name, str(value))


def training_arguments(experiment: Experiment, facts: Facts) -> dict[str, Any]:
    """Batch, schedule and optimizer, in the format of all Megatron parsers."""
    training = experiment.training
    sizes = ("micro_batch_size", "global_batch_size", "sequence_length", "steps")
    rates = ("learning_rate", "min_learning_rate", "schedule", "decay_steps", "warmup_steps", "weight_decay")
    adam = ("adam_beta1", "adam_beta2", "adam_epsilon", "clip_grad_norm", "init_method_std", "seed")
    return {
        **facts.stated(experiment, "training", *sizes),
        "--optimizer": "adam",
        **facts.stated(experiment, "training", *rates, *adam),
        "--lr-decay-iters": training.decay_steps or training.steps,
        "--clip-grad": training.clip_grad_norm or 0.0,  # 0 is off
        **{f"--{name.replace('_', '-')}": value for name, value in recomputation(experiment).items()},
    }


def recomputation(experiment: Experiment) -> dict[str, Any]:
    """Megatron's arguments for recomputation."""
    granularity = experiment.training.recompute
    full = granularity == "full"
    return {
        "recompute_granularity": None if granularity == "none" else granularity,
        "recompute_method": "uniform" if full else None,
        "recompute_num_layers": 1 if full else None,
    }


def output_arguments(experiment: Experiment, node: Node) -> dict[str, Any]:
    """Directories for checkpoints and metrics."""
    training, output = experiment.training, f"{node.run_dir}/output"
    return {
        "--save": f"{output}/checkpoints" if training.checkpointing else None,
        "--save-interval": training.steps if training.checkpointing else None,
        "--tensorboard-dir": f"{output}/tensorboard" if training.tracking else None,
    }


def attention_env(experiment: Experiment) -> dict[str, str]:
    """Transformer Engine's variables, if the experiment sets them."""
    chosen = {name: value_of(experiment, key) for key, name in ATTENTION_NAMES.items()}
    return {name: str(value) for name, value in chosen.items() if value is not None}


def attention_backend(kernels: Kernels, unset: str) -> str:
    """Megatron-Core's attention backend; it must not contradict Transformer Engine's variables."""
    if kernels.use_flash_attn is False:
        return "unfused"
    if kernels.nvte_flash_attn is None and kernels.nvte_fused_attn is None:
        return unset
    flash, fused = kernels.nvte_flash_attn != 0, kernels.nvte_fused_attn != 0
    return "auto" if flash and fused else "flash" if flash else "fused" if fused else "unfused"


def attention_refusals(kernels: Kernels) -> Iterator[Refusal]:
    """Refusals of a use_flash_attn that contradicts Transformer Engine's variables."""
    requested = (kernels.nvte_flash_attn, kernels.nvte_fused_attn)
    if (kernels.use_flash_attn is False and 1 in requested) or (kernels.use_flash_attn and requested == (0, 0)):
        on = bool(kernels.use_flash_attn)
        reason = ", but nvte_flash_attn and nvte_fused_attn contradict it"
        expected = "variables that agree, or null"
        yield refuse("kernels.use_flash_attn", on, reason, not on, expected=expected)


def local_refusals(experiment: Experiment, title: str) -> Iterator[Refusal]:
    """Refusals of values that Megatron-Core's layers without Transformer Engine do not support."""
    if experiment.kernels.transformer_impl != "local":
        return
    able: dict[str, tuple[Any, ...]] = {
        "precision.fp8": (None,),
        "parallelism.context_parallel_size": (1,),
        **dict.fromkeys(("kernels.use_flash_attn", "kernels.enable_primus_turbo"), (False, None)),
        **dict.fromkeys(ATTENTION_NAMES, (None,)),
    }
    if experiment.model.architecture == "llama":  # torch's RMSNorm
        able |= {"parallelism.sequence_parallel": (False,), "kernels.persist_layer_norm": (False, None)}
    yield from unable(experiment, f", which {title} does not support with kernels.transformer_impl local", able)


def tokenizer_type(case: Case) -> str:
    """Megatron's tokenizer class; HFTokenizer is a short form."""
    requested = case.resolved.experiment.data.tokenizer_type
    return "HuggingFaceTokenizer" if requested in (None, "HFTokenizer") else requested


def family_refusals(experiment: Experiment, name: str) -> Iterator[Refusal]:
    """Values that no Megatron-based framework supports."""
    sizes, data, training = experiment.parallelism, experiment.data, experiment.training
    if data.source in ("uniform", "markov"):
        expected = "counting (its mock data) or tokens"
        yield refuse("data.source", data.source, f", which {name} cannot generate", "counting", expected=expected)
    if sizes.sequence_parallel and sizes.tensor_parallel_size == 1:
        reason, expected = " without tensor parallelism, which disables it", "false if tensor_parallel_size is 1"
        yield refuse("parallelism.sequence_parallel", True, reason, False, expected=expected)
    if sizes.overlap_param_gather and not (sizes.overlap_grad_reduce and sizes.distributed_optimizer):
        reason = " without overlap_grad_reduce and distributed_optimizer"
        expected = "both of them true"
        yield refuse("parallelism.overlap_param_gather", True, reason, False, expected=expected)
    context, length = sizes.context_parallel_size, training.sequence_length
    if context > 1 and length % (2 * context):
        reason, longer = f" at context parallel {context}", -(-length // (2 * context)) * 2 * context
        expected = f"a multiple of {2 * context}, since each rank takes two slices"
        yield refuse("training.sequence_length", length, reason, longer, expected=expected)
    if data.tokenizer_type is not None and data.tokenizer_type not in TOKENIZERS:
        reason, expected = f", which {name} does not have", f"one of {', '.join(TOKENIZERS)}"
        yield refuse("data.tokenizer_type", data.tokenizer_type, reason, "HuggingFaceTokenizer", expected=expected)
    if (recipe := experiment.precision.fp8_recipe) != "delayed" and experiment.precision.fp8 is None:
        yield refuse("precision.fp8_recipe", recipe, ", but precision.fp8 is null", "delayed")
    used = training.steps * training.global_batch_size
    if data.samples is not None and data.samples < used:
        reason, expected = f", but the steps use {used} and {name} cannot repeat samples", f"null, or {used} or more"
        yield refuse("data.samples", data.samples, reason, None, expected=expected)
    for key in ("compile", "deterministic"):
        value = getattr(experiment.kernels, key)
        if value is not None:
            message = f"kernels.{key} is set, which only the built-in trainer supports"
            yield Refusal(f"kernels.{key}", value, message, "null", f"--set kernels.{key}=null")


def rope_refusals(experiment: Experiment) -> Iterator[Refusal]:
    """Refusals of rope scaling: Megatron supports Llama 3.1's with any factor."""
    scaling = experiment.model.rope_scaling
    for key, fixed in FIXED_ROPE_SCALING.items() if scaling is not None else ():
        if getattr(scaling, key) != fixed:
            reason = f", but Megatron always uses {fixed}"
            yield refuse(f"model.rope_scaling.{key}", getattr(scaling, key), reason, fixed)


def seed_refusals(experiment: Experiment, title: str) -> Iterator[Refusal]:
    """Refusals of seeds: Megatron needs a positive seed that numpy accepts."""
    seed = experiment.training.seed
    if not 0 < seed <= LARGEST_SEED:
        yield refuse("training.seed", seed, f", which {title} does not accept", 42, expected=f"1 to {LARGEST_SEED}")


def data_seed_refusals(experiment: Experiment, title: str) -> Iterator[Refusal]:
    """Refusals of data seeds: Megatron shuffles with training.seed."""
    seed = experiment.training.seed
    if experiment.data.seed != seed:
        yield refuse("data.seed", experiment.data.seed, f", but {title} has a single seed, training.seed", seed)


def vendor_refusals(case: Case, vendor: str, title: str) -> Iterator[Refusal]:
    """Refusals of GPUs: some frameworks support only one vendor."""
    gpu, supported = case.placement.gpu, {"nvidia": "NVIDIA", "amd": "AMD"}[vendor]
    if gpu is not None and gpu.vendor != vendor:
        message = f"platform.gpu is {gpu.name}, but {title} supports only {supported} GPUs"
        yield Refusal("platform.gpu", gpu.name, message, f"an {supported} GPU", "use another framework or GPU")


def fsdp_refusals(experiment: Experiment) -> Iterator[Refusal]:
    """Refusals of values that Megatron does not support with torch's FSDP."""
    size = experiment.parallelism.fsdp_size
    able: dict[str, Any] = {
        "parallelism.pipeline_parallel_size": 1,
        "parallelism.distributed_optimizer": False,
        "model.tied_embeddings": False,
    }
    if experiment.precision.dtype == "fp16":
        able["precision.dtype"] = "bf16"
    for key, value in able.items() if size > 1 else ():
        requested = value_of(experiment, key)
        if requested != value:
            yield refuse(key, requested, f", which Megatron does not support with fsdp_size {size}", value)


def turbo_refusals(kernels: Kernels) -> Iterator[Refusal]:
    """Refusals of kernels that only Primus has."""
    for key in ("enable_primus_turbo", "use_turbo_attention"):
        if getattr(kernels, key):
            yield refuse(f"kernels.{key}", True, ", which only Primus supports", None)
