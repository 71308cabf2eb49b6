"""What the frameworks that grew out of Megatron-LM share: launcher, attention, and what none of them does."""

from collections.abc import Iterator, Mapping
from typing import Any

from steelyard.experiment import Experiment, Kernels
from steelyard.experiment.case import Case
from steelyard.frameworks.facts import Facts
from steelyard.frameworks.megatron_family.facts import ATTENTION_NAMES
from steelyard.frameworks.planner import Node, Refusal, refuse, value_of

PORT = 6000

LARGEST_SEED = 2**32 - 1
"""numpy's."""

FIXED_ROPE_SCALING = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""What Megatron's rotary embedding takes for itself; only the factor is an argument."""

TOKENIZERS = (
    *("BertWordPieceLowerCase", "BertWordPieceCase", "GPT2BPETokenizer", "SentencePieceTokenizer"),
    *("GPTSentencePieceTokenizer", "HuggingFaceTokenizer", "HFTokenizer", "Llama2Tokenizer", "TikTokenizer"),
    "NullTokenizer",
)
"""Classes of tokenizer that Megatron's arguments take; HFTokenizer is a table's short name of one."""

FP8 = {"fp8_recipe": "delayed", "fp8_margin": 0, "fp8_amax_history_len": 1024, "fp8_amax_compute_algo": "max"}
"""How Transformer Engine scales fp8 products."""


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
    """A command line: a switch that is on stands alone, one that is off or null is left out."""
    for name, value in arguments.items():
        if value is True:
            yield name
        elif value is not False and value is not None:
            yield from (name, str(value))


def training_arguments(experiment: Experiment, facts: Facts) -> dict[str, Any]:
    """Batch, schedule and optimizer, as every Megatron's parser takes them."""
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
    """Megatron's arguments for what is computed again."""
    granularity = experiment.training.recompute
    full = granularity == "full"
    return {
        "recompute_granularity": None if granularity == "none" else granularity,
        "recompute_method": "uniform" if full else None,
        "recompute_num_layers": 1 if full else None,
    }


def output_arguments(experiment: Experiment, node: Node) -> dict[str, Any]:
    """Where checkpoints and metrics go."""
    training, output = experiment.training, f"{node.run_dir}/output"
    return {
        "--save": f"{output}/checkpoints" if training.checkpointing else None,
        "--save-interval": training.steps if training.checkpointing else None,
        "--tensorboard-dir": f"{output}/tensorboard" if training.tracking else None,
    }


def attention_env(experiment: Experiment) -> dict[str, str]:
    """Transformer Engine's own variables, where the experiment sets them."""
    chosen = {name: value_of(experiment, key) for key, name in ATTENTION_NAMES.items()}
    return {name: str(value) for name, value in chosen.items() if value is not None}


def attention_backend(kernels: Kernels, unset: str) -> str:
    """Megatron-Core's attention backend; one that Transformer Engine's variables contradict stops the job."""
    if kernels.use_flash_attn is False:
        return "unfused"
    if kernels.nvte_flash_attn is None and kernels.nvte_fused_attn is None:
        return unset
    flash, fused = kernels.nvte_flash_attn != 0, kernels.nvte_fused_attn != 0
    return "auto" if flash and fused else "flash" if flash else "fused" if fused else "unfused"


def attention_refusals(kernels: Kernels) -> Iterator[Refusal]:
    """Where use_flash_attn and Transformer Engine's variables say opposite things."""
    asked = (kernels.nvte_flash_attn, kernels.nvte_fused_attn)
    if (kernels.use_flash_attn is False and 1 in asked) or (kernels.use_flash_attn and asked == (0, 0)):
        on = bool(kernels.use_flash_attn)
        reason = ", and nvte_flash_attn and nvte_fused_attn say the opposite"
        expected = "the variables to agree, or to be null"
        yield refuse("kernels.use_flash_attn", on, reason, not on, expected=expected)


def tokenizer_type(case: Case) -> str:
    """Megatron's class of tokenizer; a table of the field spells the common one short."""
    asked = case.resolved.experiment.data.tokenizer_type
    return "HuggingFaceTokenizer" if asked in (None, "HFTokenizer") else asked


def family_refusals(experiment: Experiment, name: str) -> Iterator[Refusal]:
    """What no Megatron does."""
    sizes, data, training = experiment.parallelism, experiment.data, experiment.training
    if data.source in ("uniform", "markov"):
        expected = "counting (its mock data) or tokens"
        yield refuse("data.source", data.source, f", which {name} does not make", "counting", expected=expected)
    if sizes.sequence_parallel and sizes.tensor_parallel_size == 1:
        reason, expected = " without tensor parallelism, which turns it off", "false where tensor_parallel_size is 1"
        yield refuse("parallelism.sequence_parallel", True, reason, False, expected=expected)
    if sizes.overlap_param_gather and not (sizes.overlap_grad_reduce and sizes.distributed_optimizer):
        reason = " without overlap_grad_reduce and distributed_optimizer"
        expected = "both of them true beside it"
        yield refuse("parallelism.overlap_param_gather", True, reason, False, expected=expected)
    context, length = sizes.context_parallel_size, training.sequence_length
    if context > 1 and length % (2 * context):
        reason, longer = f" at context parallel {context}", -(-length // (2 * context)) * 2 * context
        expected = f"a multiple of {2 * context}, since each rank takes two slices"
        yield refuse("training.sequence_length", length, reason, longer, expected=expected)
    if data.tokenizer_type is not None and data.tokenizer_type not in TOKENIZERS:
        reason, expected = f", which {name} does not have", f"one of {', '.join(TOKENIZERS)}"
        yield refuse("data.tokenizer_type", data.tokenizer_type, reason, "HuggingFaceTokenizer", expected=expected)
    used = training.steps * training.global_batch_size
    if data.samples is not None and data.samples < used:
        reason, expected = f", and {name} cannot repeat so many for {used}", "null, or no fewer than the steps take"
        yield refuse("data.samples", data.samples, reason, None, expected=expected)
    for key in ("compile", "deterministic"):
        value = getattr(experiment.kernels, key)
        if value is not None:
            message = f"kernels.{key} is set, which only the built-in trainer does"
            yield Refusal(f"kernels.{key}", value, message, "null", f"--set kernels.{key}=null")


def rope_refusals(experiment: Experiment) -> Iterator[Refusal]:
    """A Megatron takes the factor of Llama 3.1's scaling and fixes the rest."""
    scaling = experiment.model.rope_scaling
    for key, fixed in FIXED_ROPE_SCALING.items() if scaling is not None else ():
        if getattr(scaling, key) != fixed:
            reason = f", and Megatron takes {fixed} itself"
            yield refuse(f"model.rope_scaling.{key}", getattr(scaling, key), reason, fixed)


def seed_refusals(experiment: Experiment, title: str) -> Iterator[Refusal]:
    """A Megatron takes no seed that is not positive, nor one that numpy does not take."""
    seed = experiment.training.seed
    if not 0 < seed <= LARGEST_SEED:
        yield refuse("training.seed", seed, f", which {title} does not take", 42, expected=f"1 to {LARGEST_SEED}")


def data_seed_refusals(experiment: Experiment, title: str) -> Iterator[Refusal]:
    """A Megatron shuffles by the seed of its weights."""
    seed = experiment.training.seed
    if experiment.data.seed != seed:
        yield refuse("data.seed", experiment.data.seed, f", and {title} has one seed, training.seed", seed)


def vendor_refusals(case: Case, vendor: str, title: str) -> Iterator[Refusal]:
    """Some come with the libraries of one vendor's GPUs alone."""
    gpu, whose = case.placement.gpu, {"nvidia": "NVIDIA", "amd": "AMD"}[vendor]
    if gpu is not None and gpu.vendor != vendor:
        message = f"the platform's gpu is {gpu.name}, and {title} trains on {whose}'s alone"
        yield Refusal("platform.gpu", gpu.name, message, f"a GPU of {whose}", "another framework, or another GPU")


def fsdp_refusals(experiment: Experiment) -> Iterator[Refusal]:
    """What Megatron's arguments do not take beside torch's FSDP."""
    size = experiment.parallelism.fsdp_size
    able: dict[str, Any] = {
        "parallelism.pipeline_parallel_size": 1,
        "parallelism.distributed_optimizer": False,
        "model.tied_embeddings": False,
    }
    if experiment.precision.dtype == "fp16":
        able["precision.dtype"] = "bf16"
    for key, value in able.items() if size > 1 else ():
        asked = value_of(experiment, key)
        if asked != value:
            yield refuse(key, asked, f", which Megatron does not take beside fsdp_size {size}", value)


def turbo_refusals(kernels: Kernels) -> Iterator[Refusal]:
    """Kernels of Primus alone."""
    for key in ("enable_primus_turbo", "use_turbo_attention"):
        if getattr(kernels, key):
            yield refuse(f"kernels.{key}", True, ", and only Primus has it", None)
