"""What the frameworks that grew out of Megatron-LM share: launcher, attention, and what none of them does."""

from collections.abc import Iterator, Mapping
from typing import Any

from steelyard import accounting
from steelyard.experiment import Experiment, Kernels
from steelyard.experiment.case import Case
from steelyard.frameworks.planner import Node, Refusal

PORT = 6000

LARGEST_SEED = 2**32 - 1
"""numpy's."""

FIXED_ROPE_SCALING = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""What Megatron's rotary embedding takes for itself; only the factor is an argument."""


class MegatronKin:
    """What every framework that grew out of Megatron-LM answers alike."""

    def state_bytes(self, case: Case) -> accounting.StateBytes:
        return accounting.state_bytes(case.resolved.experiment.precision, master_bytes=4)

    def decides(self, case: Case) -> Mapping[str, Any]:
        return {}


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


def number(value: float) -> str:
    """Every digit that was given."""
    return repr(float(value))


def training_arguments(experiment: Experiment) -> Iterator[str]:
    """Batch, schedule and optimizer, as every Megatron's parser takes them."""
    training = experiment.training
    yield from ("--micro-batch-size", str(training.micro_batch_size))
    yield from ("--global-batch-size", str(training.global_batch_size))
    yield from ("--seq-length", str(training.sequence_length))
    yield from ("--train-iters", str(training.steps))
    yield from ("--optimizer", "adam")
    yield from ("--lr", number(training.learning_rate), "--min-lr", number(training.min_learning_rate))
    yield from ("--lr-decay-style", training.schedule)
    yield from ("--lr-decay-iters", str(training.decay_steps or training.steps))
    yield from ("--lr-warmup-iters", str(training.warmup_steps))
    yield from ("--weight-decay", number(training.weight_decay))
    yield from ("--adam-beta1", number(training.adam_beta1), "--adam-beta2", number(training.adam_beta2))
    yield from ("--adam-eps", number(training.adam_epsilon))
    yield from ("--clip-grad", number(training.clip_grad_norm or 0.0))  # 0 is off
    yield from ("--init-method-std", number(training.init_method_std))
    yield from ("--seed", str(training.seed))
    if training.recompute == "full":
        yield from ("--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "1")
    elif training.recompute == "selective":
        yield from ("--recompute-granularity", "selective")


def attention_env(experiment: Experiment) -> dict[str, str]:
    """Transformer Engine's own variables, where the experiment sets them."""
    kernels = experiment.kernels
    chosen = {"NVTE_FUSED_ATTN": kernels.nvte_fused_attn, "NVTE_FLASH_ATTN": kernels.nvte_flash_attn}
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
        yield Refusal(
            "kernels.use_flash_attn",
            on,
            f"kernels.use_flash_attn is {str(on).lower()}, and nvte_flash_attn and nvte_fused_attn say the opposite",
            "the variables to agree, or to be null",
            f"--set kernels.use_flash_attn={str(not on).lower()}",
        )


def tokenizer_type(case: Case) -> str:
    """Megatron's class of tokenizer; a table of the field spells the common one short."""
    asked = case.resolved.experiment.data.tokenizer_type
    return "HuggingFaceTokenizer" if asked in (None, "HFTokenizer") else asked


def family_refusals(experiment: Experiment, name: str) -> Iterator[Refusal]:
    """What no Megatron does."""
    parallelism, data = experiment.parallelism, experiment.data
    if data.source in ("uniform", "markov"):
        yield Refusal(
            "data.source",
            data.source,
            f"data.source is {data.source}, which {name} does not make",
            "counting (its mock data) or tokens",
            "--set data.source=counting",
        )
    if parallelism.sequence_parallel and parallelism.tensor_parallel_size == 1:
        yield Refusal(
            "parallelism.sequence_parallel",
            True,
            "parallelism.sequence_parallel is true without tensor parallelism, which turns it off",
            "false where tensor_parallel_size is 1",
            "--set parallelism.sequence_parallel=false",
        )
    if parallelism.overlap_param_gather and not (parallelism.overlap_grad_reduce and parallelism.distributed_optimizer):
        yield Refusal(
            "parallelism.overlap_param_gather",
            True,
            "parallelism.overlap_param_gather is true without overlap_grad_reduce and distributed_optimizer",
            "both of them true beside it",
            "--set parallelism.overlap_param_gather=false",
        )
    context = parallelism.context_parallel_size
    if context > 1 and experiment.training.sequence_length % (2 * context):
        yield Refusal(
            "training.sequence_length",
            experiment.training.sequence_length,
            f"training.sequence_length is {experiment.training.sequence_length} at context parallel {context}",
            f"a multiple of {2 * context}, since each rank takes two slices",
            f"--set training.sequence_length={-(-experiment.training.sequence_length // (2 * context)) * 2 * context}",
        )
    yield from _data_refusals(experiment, name)
    for key in ("compile", "deterministic"):
        if getattr(experiment.kernels, key) is not None:
            yield Refusal(
                f"kernels.{key}",
                getattr(experiment.kernels, key),
                f"kernels.{key} is set, which only the built-in trainer does",
                "null",
                f"--set kernels.{key}=null",
            )


def _data_refusals(experiment: Experiment, name: str) -> Iterator[Refusal]:
    data = experiment.data
    if data.tokenizer_type is not None and data.tokenizer_type not in TOKENIZERS:
        yield Refusal(
            "data.tokenizer_type",
            data.tokenizer_type,
            f"data.tokenizer_type is {data.tokenizer_type}, which {name} does not have",
            f"one of {', '.join(TOKENIZERS)}",
            "--set data.tokenizer_type=HuggingFaceTokenizer",
        )
    used = experiment.training.steps * experiment.training.global_batch_size
    if data.samples is not None and data.samples < used:
        yield Refusal(
            "data.samples",
            data.samples,
            f"data.samples is {data.samples}, and {name} cannot repeat so many for {used}",
            "null, or no fewer than the steps take",
            "--set data.samples=null",
        )


def rope_refusals(experiment: Experiment) -> Iterator[Refusal]:
    """A Megatron takes the factor of Llama 3.1's scaling and fixes the rest."""
    scaling = experiment.model.rope_scaling
    if scaling is None:
        return
    for key, fixed in FIXED_ROPE_SCALING.items():
        if getattr(scaling, key) != fixed:
            yield Refusal(
                f"model.rope_scaling.{key}",
                getattr(scaling, key),
                f"model.rope_scaling.{key} is {getattr(scaling, key)}, and Megatron takes {fixed} itself",
                f"{fixed}",
                f"--set model.rope_scaling.{key}={fixed}",
            )


def seed_refusals(experiment: Experiment, title: str) -> Iterator[Refusal]:
    """A Megatron takes no seed that is not positive, nor one that numpy does not take."""
    seed = experiment.training.seed
    if not 0 < seed <= LARGEST_SEED:
        yield Refusal(
            "training.seed",
            seed,
            f"training.seed is {seed}, which {title} does not take",
            f"1 to {LARGEST_SEED}",
            "--set training.seed=42",
        )


def one_seed(experiment: Experiment, title: str) -> Iterator[Refusal]:
    """A Megatron shuffles by the seed of its weights."""
    if experiment.data.seed != experiment.training.seed:
        yield Refusal(
            "data.seed",
            experiment.data.seed,
            f"data.seed is {experiment.data.seed}, and {title} has one seed, training.seed",
            f"{experiment.training.seed}",
            f"--set data.seed={experiment.training.seed}",
        )


def vendor_refusals(case: Case, vendor: str, title: str) -> Iterator[Refusal]:
    """Some come with the libraries of one vendor's GPUs alone."""
    gpu, whose = case.placement.gpu, {"nvidia": "NVIDIA", "amd": "AMD"}[vendor]
    if gpu is not None and gpu.vendor != vendor:
        yield Refusal(
            "platform.gpu",
            gpu.name,
            f"the platform's gpu is {gpu.name}, and {title} trains on {whose}'s alone",
            f"a GPU of {whose}",
            "another framework, or another GPU",
        )


def fsdp_refusals(experiment: Experiment) -> Iterator[Refusal]:
    """What Megatron's arguments do not take beside torch's FSDP."""
    sizes = experiment.parallelism
    if sizes.fsdp_size == 1:
        return
    for key, value, able in (
        ("parallelism.pipeline_parallel_size", sizes.pipeline_parallel_size, 1),
        ("parallelism.distributed_optimizer", sizes.distributed_optimizer, False),
        ("model.tied_embeddings", experiment.model.tied_embeddings, False),
        ("precision.dtype", experiment.precision.dtype, "bf16" if experiment.precision.dtype == "fp16" else None),
    ):
        if able is not None and value != able:
            word = str(able).lower()
            yield Refusal(
                key,
                value,
                f"{key} is {str(value).lower()}, which Megatron does not take beside fsdp_size {sizes.fsdp_size}",
                word,
                f"--set {key}={word}",
            )


TOKENIZERS = (
    "BertWordPieceLowerCase",
    "BertWordPieceCase",
    "GPT2BPETokenizer",
    "SentencePieceTokenizer",
    "GPTSentencePieceTokenizer",
    "HuggingFaceTokenizer",
    "HFTokenizer",
    "Llama2Tokenizer",
    "TikTokenizer",
    "NullTokenizer",
)
"""Classes of tokenizer that Megatron's arguments take; HFTokenizer is a table's short name of one."""


def turbo_refusals(kernels: Kernels) -> Iterator[Refusal]:
    """Kernels of Primus alone."""
    for key in ("enable_primus_turbo", "use_turbo_attention"):
        if getattr(kernels, key):
            yield Refusal(
                f"kernels.{key}",
                True,
                f"kernels.{key} is true, and only Primus has it",
                "null",
                f"--set kernels.{key}=null",
            )
