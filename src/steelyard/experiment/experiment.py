"""What is trained, independent of the platform: the typed content of an experiment file."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from steelyard.experiment.model import Group, Model
from steelyard.experiment.policy import ALGORITHM, ARITHMETIC, FREE, JOB, LAYOUT, OVERHEAD, Before
from steelyard.experiment.problems import shown
from steelyard.experiment.thresholds import parse_threshold

SCHEMA_VERSION: Literal[1] = 1

Schedule = Literal["cosine", "linear", "constant"]
Recompute = Literal["none", "selective", "full"]
DType = Literal["fp32", "bf16", "fp16"]
LossScale = Literal["dynamic"]
Fp8 = Literal["e4m3", "hybrid"]
Fp8Recipe = Literal["delayed", "tensorwise", "blockwise", "mxfp8"]
TransformerImpl = Literal["transformer_engine", "local"]
Source = Literal["uniform", "counting", "markov", "tokens"]
Mode = Literal["best", "matched"]


class Training(Group):
    """The training algorithm."""

    seed: Annotated[int, FREE] = Field(default=42, ge=0, lt=2**63)
    """Seed of the initial weights."""
    micro_batch_size: Annotated[int, LAYOUT.counted_in("sequences")] = Field(gt=0)
    """Sequences per rank and forward pass."""
    global_batch_size: Annotated[int, JOB.counted_in("sequences")] = Field(gt=0)
    """Sequences per optimizer step, over all ranks."""
    gradient_accumulation_steps: Annotated[int | None, FREE.counted_in("micro batches")] = Field(default=None, gt=0)
    """Micro-batches per rank and optimizer step; computed from the batches, and must agree if given."""
    sequence_length: Annotated[int, JOB.counted_in("tokens")] = Field(gt=0)
    """Tokens per sequence."""
    steps: Annotated[int, ALGORITHM.counted_in("steps")] = Field(gt=0)
    """Optimizer steps to train."""
    learning_rate: Annotated[float, ALGORITHM] = Field(gt=0)
    """Peak learning rate."""
    min_learning_rate: Annotated[float, ALGORITHM] = Field(default=0.0, ge=0)
    """Learning rate at the end of the schedule."""
    schedule: Annotated[Schedule, ALGORITHM] = "cosine"
    """How the learning rate falls after warm-up: cosine, linear or constant."""
    decay_steps: Annotated[int | None, ALGORITHM.counted_in("steps")] = Field(default=None, gt=0)
    """The step at which the schedule reaches its minimum; null for the last step."""
    warmup_steps: Annotated[int, ALGORITHM.counted_in("steps")] = Field(default=0, ge=0)
    """Steps over which the learning rate rises linearly; step 1 has learning_rate / warmup_steps."""
    weight_decay: Annotated[float, ALGORITHM] = Field(default=0.1, ge=0)
    """Decoupled weight decay of matrices and embeddings, not of norms and biases."""
    adam_beta1: Annotated[float, ALGORITHM] = Field(default=0.9, ge=0, lt=1)
    """Decay of AdamW's first moment."""
    adam_beta2: Annotated[float, ALGORITHM] = Field(default=0.95, ge=0, lt=1)
    """Decay of AdamW's second moment."""
    adam_epsilon: Annotated[float, ALGORITHM] = Field(default=1e-8, gt=0)
    """Epsilon of AdamW."""
    clip_grad_norm: Annotated[float | None, ALGORITHM] = Field(default=1.0, gt=0)
    """Largest global gradient norm; larger gradients are scaled down. Null for no clipping."""
    init_method_std: Annotated[float, ALGORITHM] = Field(default=0.02, gt=0, le=10)
    """Standard deviation of initial weights; divided by sqrt(2 x layers) for projections into the residual stream."""
    recompute: Annotated[Recompute, ARITHMETIC] = "none"
    """Which activations are recomputed in the backward pass: none, selective or full."""
    checkpointing: Annotated[bool, OVERHEAD] = False
    """Whether checkpoints are saved during the run."""
    tracking: Annotated[bool, OVERHEAD] = False
    """Whether metrics are also sent to a tracker such as TensorBoard."""


class Parallelism(Group):
    """How the model and the batch are split over GPUs."""

    tensor_parallel_size: Annotated[int, LAYOUT.counted_in("GPUs")] = Field(default=1, gt=0)
    """GPUs that share each matrix."""
    pipeline_parallel_size: Annotated[int, LAYOUT.counted_in("GPUs")] = Field(default=1, gt=0)
    """GPUs that share the layers, in stages."""
    context_parallel_size: Annotated[int, LAYOUT.counted_in("GPUs")] = Field(default=1, gt=0)
    """GPUs that share each sequence."""
    data_parallel_size: Annotated[int | None, LAYOUT.counted_in("replicas")] = Field(default=None, gt=0)
    """Number of replicas; computed from the world size, and must agree if given."""
    sequence_parallel: Annotated[bool, LAYOUT] = False
    """Whether a tensor-parallel group splits norms and dropouts along the sequence."""
    distributed_optimizer: Annotated[bool, LAYOUT] = True
    """Whether optimizer state is sharded over the data-parallel ranks (ZeRO-1)."""
    fsdp_size: Annotated[int, LAYOUT.counted_in("ranks")] = Field(default=1, gt=0)
    """Data-parallel ranks over which weights and gradients are sharded (ZeRO-3, FSDP); 1 for no sharding."""
    overlap_grad_reduce: Annotated[bool, LAYOUT] = False
    """Whether gradients are reduced during the backward pass."""
    overlap_param_gather: Annotated[bool, LAYOUT] = False
    """Whether updated weights are gathered during the forward pass."""


class Precision(Group):
    """Number formats."""

    dtype: Annotated[DType, ARITHMETIC] = "bf16"
    """Format of weights and activations: fp32, bf16 or fp16."""
    loss_scale: Annotated[LossScale | None, ARITHMETIC] = None
    """`dynamic` is required for fp16; null otherwise."""
    fp8: Annotated[Fp8 | None, ARITHMETIC] = None
    """Format of FP8 matrix products: e4m3, or hybrid (e4m3 forward, e5m2 backward); null for none."""
    fp8_recipe: Annotated[Fp8Recipe, ARITHMETIC, Before("delayed")] = "delayed"
    """How FP8 matrix products are scaled: delayed, tensorwise, blockwise or mxfp8. No effect without fp8."""
    grad_reduce_in_fp32: Annotated[bool, ARITHMETIC] = False
    """Whether gradients are accumulated and reduced in fp32."""
    fp32_residual_connection: Annotated[bool, ARITHMETIC] = False
    """Whether the residual stream is kept in fp32."""

    @model_validator(mode="after")
    def _fp16_scales_its_loss(self) -> "Precision":
        if self.dtype == "fp16" and self.loss_scale is None:
            raise ValueError(
                "dtype is fp16 without loss scaling, expected loss_scale: dynamic, because gradients underflow"
            )
        if self.dtype != "fp16" and self.loss_scale is not None:
            raise ValueError(f"loss_scale is {self.loss_scale}, expected null with dtype {self.dtype}")
        return self


class Kernels(Group):
    """Fused operations and attention; each platform may use its best. Null leaves the choice to the framework."""

    transformer_impl: Annotated[TransformerImpl | None, FREE, Before(None)] = None
    """Megatron's layers: transformer_engine, or local, which needs neither Transformer Engine nor Apex."""
    bias_activation_fusion: Annotated[bool | None, FREE] = None
    """Whether bias and activation are one kernel."""
    bias_dropout_fusion: Annotated[bool | None, FREE] = None
    """Whether bias, dropout and residual addition are one kernel."""
    masked_softmax_fusion: Annotated[bool | None, FREE] = None
    """Whether scale, mask and softmax are one kernel."""
    persist_layer_norm: Annotated[bool | None, FREE] = None
    """Whether the persistent layer-norm kernel is used."""
    apply_rope_fusion: Annotated[bool | None, FREE] = None
    """Whether rotary positions are one kernel."""
    cross_entropy_loss_fusion: Annotated[bool | None, FREE] = None
    """Whether the loss is one kernel."""
    gradient_accumulation_fusion: Annotated[bool | None, FREE, Before(None)] = None
    """Whether weight gradients are computed and added to the accumulated ones in one kernel."""
    use_flash_attn: Annotated[bool | None, FREE] = None
    """Whether flash attention is used, which never stores the score matrix."""
    nvte_fused_attn: Annotated[Literal[0, 1] | None, FREE] = None
    """Value of NVTE_FUSED_ATTN, a variable of Transformer Engine."""
    nvte_flash_attn: Annotated[Literal[0, 1] | None, FREE] = None
    """Value of NVTE_FLASH_ATTN, a variable of Transformer Engine."""
    enable_primus_turbo: Annotated[bool | None, FREE] = None
    """Whether Primus-Turbo kernels are used."""
    use_turbo_attention: Annotated[bool | None, FREE] = None
    """Whether the attention of Primus-Turbo is used."""
    compile: Annotated[bool | None, FREE] = None
    """Whether the built-in trainer compiles each layer with torch.compile; null is false."""
    deterministic: Annotated[bool | None, FREE] = None
    """Whether the built-in trainer uses only deterministic kernels; null is true."""


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
        raise ValueError(f"{shown(text)} is not allowed, expected one line of text that does not start with '-'")
    return text


OneLine = Annotated[str, AfterValidator(_is_one_line)]


class Data(Group):
    """The training data."""

    source: Annotated[Source, ALGORITHM] = "markov"
    """Generated tokens (uniform, counting or markov), or `tokens` from a file. Megatron's mock data is `counting`."""
    seed: Annotated[int, ALGORITHM] = Field(default=42, ge=0, lt=2**63)
    """Seed of generated tokens, or of the order of a token file."""
    path: Annotated[OneLine | None, ALGORITHM] = None
    """Path of a .npy file of token ids, relative to the experiment file; for source `tokens`."""
    dataset: Annotated[OneLine | None, ALGORITHM] = None
    """Name of the corpus."""
    fingerprint: Annotated[OneLine | None, ALGORITHM, Before(None)] = None
    """Hash of the corpus by `steelyard data fingerprint`: two paths with one fingerprint are one corpus."""
    tokenizer: Annotated[OneLine | None, ALGORITHM] = None
    """Name or path of the tokenizer."""
    tokenizer_fingerprint: Annotated[OneLine | None, ALGORITHM, Before(None)] = None
    """Hash of the tokenizer's files by `steelyard data fingerprint`."""
    tokenizer_type: Annotated[OneLine | None, FREE] = None
    """Tokenizer class of the framework."""
    split: Annotated[str, AfterValidator(_is_a_split), ALGORITHM] = "100,0,0"
    """Shares of the corpus for training, validation and test."""
    samples: Annotated[int | None, ALGORITHM.counted_in("sequences")] = Field(default=None, gt=0)
    """Number of distinct sequences before they repeat; null for all."""


def _is_a_threshold(text: str) -> str:
    parse_threshold(text)
    return text


def check_name(text: Any) -> str:
    """Check that the text can be part of the name of a run directory."""
    if not isinstance(text, str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}", text):
        raise ValueError(
            f"{shown(text)} cannot name a directory, expected at most 80 letters, digits, '_', '-' and '.'"
        )
    return text


class ComparePolicy(Group):
    """How runs of this experiment are compared."""

    mode: Mode = "best"
    """best: each platform uses its best settings, and differences are caveats; matched: they block the comparison."""
    warmup_steps: int = Field(default=0, ge=0)
    """Fewest steps at the start that rates leave out; more if a longer warm-up is detected."""
    margin: float = Field(default=0.05, gt=0, lt=1)
    """Smallest difference that matters, as a share: ratios closer to 1 count as equivalent."""


class Experiment(Group):
    """One experiment on one platform, with all values resolved."""

    schema_version: Literal[1] = SCHEMA_VERSION
    """The version of this format."""
    name: Annotated[str, AfterValidator(check_name)]
    """Name of the experiment; part of the name of a run directory."""
    model: Model
    training: Training
    parallelism: Parallelism = Parallelism()
    precision: Precision = Precision()
    kernels: Kernels = Kernels()
    data: Data = Data()
    thresholds: list[Annotated[str, AfterValidator(_is_a_threshold)]] = Field(default_factory=list)
    """Limits that a run must meet, such as "tokens_per_s_per_gpu>=6500"."""
    compare: ComparePolicy = ComparePolicy()


GROUPS = ("model", "training", "parallelism", "precision", "kernels", "data")
"""The groups that overrides of a platform and --set may change."""
