"""What is trained, free of any platform: the typed form of the experiment file."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from steelyard.experiment.model import Group, Model
from steelyard.experiment.policy import ALGORITHM, ARITHMETIC, FREE, JOB, LAYOUT, OVERHEAD
from steelyard.experiment.problems import shown
from steelyard.experiment.thresholds import parse_threshold

SCHEMA_VERSION: Literal[1] = 1

Schedule = Literal["cosine", "linear", "constant"]
Recompute = Literal["none", "selective", "full"]
DType = Literal["fp32", "bf16", "fp16"]
LossScale = Literal["dynamic"]
Fp8 = Literal["e4m3", "hybrid"]
Source = Literal["uniform", "counting", "markov", "tokens"]
Mode = Literal["best", "matched"]


class Training(Group):
    """The training algorithm."""

    seed: Annotated[int, FREE] = Field(default=42, ge=0, lt=2**63)
    """Seeds the initial weights."""
    micro_batch_size: Annotated[int, LAYOUT.counted_in("sequences")] = Field(gt=0)
    """Sequences a rank takes through the model at once."""
    global_batch_size: Annotated[int, JOB.counted_in("sequences")] = Field(gt=0)
    """Sequences of one optimizer step, over all ranks."""
    gradient_accumulation_steps: Annotated[int | None, FREE.counted_in("micro batches")] = Field(default=None, gt=0)
    """Micro-batches a rank adds up before it steps; derived, and if given it must agree."""
    sequence_length: Annotated[int, JOB.counted_in("tokens")] = Field(gt=0)
    """Tokens a sequence."""
    steps: Annotated[int, ALGORITHM.counted_in("steps")] = Field(gt=0)
    """Optimizer steps to train."""
    learning_rate: Annotated[float, ALGORITHM] = Field(gt=0)
    """The peak learning rate."""
    min_learning_rate: Annotated[float, ALGORITHM] = Field(default=0.0, ge=0)
    """What the schedule decays to."""
    schedule: Annotated[Schedule, ALGORITHM] = "cosine"
    """How the rate falls after warm-up: cosine, linear or constant."""
    decay_steps: Annotated[int | None, ALGORITHM.counted_in("steps")] = Field(default=None, gt=0)
    """Steps at which the schedule reaches its minimum; null for the last one."""
    warmup_steps: Annotated[int, ALGORITHM.counted_in("steps")] = Field(default=0, ge=0)
    """Steps over which the rate rises linearly; step 1 has learning_rate / warmup_steps."""
    weight_decay: Annotated[float, ALGORITHM] = Field(default=0.1, ge=0)
    """Decoupled decay of matrices and embeddings; norms and biases are not decayed."""
    adam_beta1: Annotated[float, ALGORITHM] = Field(default=0.9, ge=0, lt=1)
    """Decay of AdamW's first moment."""
    adam_beta2: Annotated[float, ALGORITHM] = Field(default=0.95, ge=0, lt=1)
    """Decay of AdamW's second moment."""
    adam_epsilon: Annotated[float, ALGORITHM] = Field(default=1e-8, gt=0)
    """Added to the root of AdamW's second moment."""
    clip_grad_norm: Annotated[float | None, ALGORITHM] = Field(default=1.0, gt=0)
    """The global gradient norm above which gradients are scaled down; null for none."""
    init_method_std: Annotated[float, ALGORITHM] = Field(default=0.02, gt=0, le=10)
    """Standard deviation of the initial weights; projections into the residual stream take it over sqrt(2 layers)."""
    recompute: Annotated[Recompute, ARITHMETIC] = "none"
    """Which activations are computed again in the backward pass: none, selective or full."""
    checkpointing: Annotated[bool, OVERHEAD] = False
    """Whether checkpoints are saved during the run."""
    tracking: Annotated[bool, OVERHEAD] = False
    """Whether metrics are also sent to a tracker such as TensorBoard."""


class Parallelism(Group):
    """How the model and the batch are laid out over GPUs."""

    tensor_parallel_size: Annotated[int, LAYOUT.counted_in("GPUs")] = Field(default=1, gt=0)
    """GPUs that share each matrix."""
    pipeline_parallel_size: Annotated[int, LAYOUT.counted_in("GPUs")] = Field(default=1, gt=0)
    """GPUs that share the layers, in stages."""
    context_parallel_size: Annotated[int, LAYOUT.counted_in("GPUs")] = Field(default=1, gt=0)
    """GPUs that share each sequence."""
    data_parallel_size: Annotated[int | None, LAYOUT.counted_in("replicas")] = Field(default=None, gt=0)
    """Replicas; derived from the world size, and if given it must agree."""
    sequence_parallel: Annotated[bool, LAYOUT] = False
    """Whether norms and dropouts are split along the sequence inside a tensor-parallel group."""
    distributed_optimizer: Annotated[bool, LAYOUT] = True
    """Whether optimizer state is sharded over the data-parallel ranks (ZeRO-1)."""
    fsdp_size: Annotated[int, LAYOUT.counted_in("ranks")] = Field(default=1, gt=0)
    """Data-parallel ranks that share the weights and gradients of one replica too (ZeRO-3, FSDP); 1 for none."""
    overlap_grad_reduce: Annotated[bool, LAYOUT] = False
    """Whether gradients are reduced while the backward pass still runs."""
    overlap_param_gather: Annotated[bool, LAYOUT] = False
    """Whether updated weights are gathered while the forward pass already runs."""


class Precision(Group):
    """The number formats of the arithmetic."""

    dtype: Annotated[DType, ARITHMETIC] = "bf16"
    """Format of weights and activations: fp32, bf16 or fp16."""
    loss_scale: Annotated[LossScale | None, ARITHMETIC] = None
    """`dynamic` for fp16, which needs it; null otherwise."""
    fp8: Annotated[Fp8 | None, ARITHMETIC] = None
    """Format of fp8 matrix products: e4m3, or hybrid (e4m3 forward, e5m2 backward); null for none."""
    grad_reduce_in_fp32: Annotated[bool, ARITHMETIC] = False
    """Whether gradients are accumulated and reduced in fp32."""
    fp32_residual_connection: Annotated[bool, ARITHMETIC] = False
    """Whether the residual stream is kept in fp32."""

    @model_validator(mode="after")
    def _fp16_scales_its_loss(self) -> "Precision":
        if self.dtype == "fp16" and self.loss_scale is None:
            raise ValueError(
                "dtype is fp16 without loss scaling, expected loss_scale: dynamic beside it, since gradients underflow"
            )
        if self.dtype != "fp16" and self.loss_scale is not None:
            raise ValueError(f"loss_scale is {self.loss_scale}, expected null where dtype is {self.dtype}")
        return self


class Kernels(Group):
    """Fused operations and attention: each platform's best. Null is the framework's own choice."""

    bias_activation_fusion: Annotated[bool | None, FREE] = None
    """Bias and activation in one kernel."""
    bias_dropout_fusion: Annotated[bool | None, FREE] = None
    """Bias, dropout and residual addition in one kernel."""
    masked_softmax_fusion: Annotated[bool | None, FREE] = None
    """Scale, mask and softmax in one kernel."""
    persist_layer_norm: Annotated[bool | None, FREE] = None
    """The persistent layer-norm kernel."""
    apply_rope_fusion: Annotated[bool | None, FREE] = None
    """Rotary positions in one kernel."""
    cross_entropy_loss_fusion: Annotated[bool | None, FREE] = None
    """The loss in one kernel."""
    use_flash_attn: Annotated[bool | None, FREE] = None
    """Attention that never writes the score matrix."""
    nvte_fused_attn: Annotated[Literal[0, 1] | None, FREE] = None
    """Transformer Engine's NVTE_FUSED_ATTN variable."""
    nvte_flash_attn: Annotated[Literal[0, 1] | None, FREE] = None
    """Transformer Engine's NVTE_FLASH_ATTN variable."""
    enable_primus_turbo: Annotated[bool | None, FREE] = None
    """Primus-Turbo kernels."""
    use_turbo_attention: Annotated[bool | None, FREE] = None
    """Primus-Turbo's attention."""
    compile: Annotated[bool | None, FREE] = None
    """Whether the built-in trainer compiles each layer with torch.compile; null is false."""
    deterministic: Annotated[bool | None, FREE] = None
    """Whether the built-in trainer takes only kernels that give the same bits every time; null is true."""


def _is_a_split(text: str) -> str:
    shares = text.split(",")
    try:
        numbers = [float(share) for share in shares]
    except ValueError:
        numbers = []
    if len(numbers) != 3 or any(not 0 <= number < float("inf") for number in numbers) or numbers[0] == 0:
        raise ValueError(f'split is {text!r}, expected three shares for train, validation and test such as "100,0,0"')
    return text


def _is_one_line(text: str) -> str:
    if not text or not text.isprintable() or text.startswith("-"):
        raise ValueError(f"{shown(text)} does not do, expected text of one line that does not begin with '-'")
    return text


OneLine = Annotated[str, AfterValidator(_is_one_line)]


class Data(Group):
    """What it is trained on."""

    source: Annotated[Source, ALGORITHM] = "markov"
    """uniform, counting (Megatron's mock) or markov tokens, made as they are needed; or a file of tokens."""
    seed: Annotated[int, ALGORITHM] = Field(default=42, ge=0, lt=2**63)
    """Seeds the tokens of a made source and the order of a token file."""
    path: Annotated[OneLine | None, ALGORITHM] = None
    """A .npy file of token ids, relative to the experiment file; for source tokens."""
    dataset: Annotated[OneLine | None, ALGORITHM] = None
    """The corpus a person would name."""
    tokenizer: Annotated[OneLine | None, ALGORITHM] = None
    """The tokenizer's name or path."""
    tokenizer_type: Annotated[OneLine | None, FREE] = None
    """The framework's class of tokenizer."""
    split: Annotated[str, AfterValidator(_is_a_split), ALGORITHM] = "100,0,0"
    """Shares of the corpus for training, validation and test."""
    samples: Annotated[int | None, ALGORITHM.counted_in("sequences")] = Field(default=None, gt=0)
    """Distinct sequences before they repeat; null for as many as there are."""


def _is_a_threshold(text: str) -> str:
    parse_threshold(text)
    return text


def check_name(text: Any) -> str:
    """What may be part of a run directory's name."""
    if not isinstance(text, str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}", text):
        raise ValueError(
            f"{shown(text)} cannot name a directory, expected at most 80 letters, digits, '_' and inner '-' and '.'"
        )
    return text


class ComparePolicy(Group):
    """How runs of this experiment are weighed."""

    mode: Mode = "best"
    """best: each platform's best settings, differences said beside the ratio; matched: those differences refuse it."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps at the start that no rate counts, beside the warm-up that is detected."""
    margin: float = Field(default=0.05, gt=0, lt=1)
    """What is too little to matter: a share by which a ratio may differ from 1 and be called equivalent."""


class Experiment(Group):
    """One experiment on one platform, every value resolved."""

    schema_version: Literal[1] = SCHEMA_VERSION
    """The version of this format."""
    name: Annotated[str, AfterValidator(check_name)]
    """What the experiment is called; part of the run directory's name."""
    model: Model
    training: Training
    parallelism: Parallelism = Parallelism()
    precision: Precision = Precision()
    kernels: Kernels = Kernels()
    data: Data = Data()
    thresholds: list[Annotated[str, AfterValidator(_is_a_threshold)]] = Field(default_factory=list)
    """Bounds the run must keep, such as "tokens_per_s_per_gpu>=6500"."""
    compare: ComparePolicy = ComparePolicy()


GROUPS = ("model", "training", "parallelism", "precision", "kernels", "data")
"""What a platform's overrides and --set may change."""
