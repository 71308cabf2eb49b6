"""How a batch is spread over GPUs, and what one of them must hold, by component.

Activations follow the layer's own list of tensors kept for the backward pass, in the manner of Korthikanti et al.,
"Reducing Activation Recomputation in Large Transformer Models" (2022), section 4, for attention that never stores
its score matrix. Workspace, fragmentation and the communication library's buffers are not in it.
"""

from dataclasses import asdict, dataclass

from steelyard.accounting.flops import parameters
from steelyard.experiment.experiment import Experiment, Parallelism, Precision, Training
from steelyard.experiment.model import Model

GIB = 1024**3
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True, slots=True)
class Layout:
    """How a batch is spread over ranks."""

    world_size: int
    data_parallel_size: int
    gradient_accumulation_steps: int
    tokens_per_step: int


def model_parallel_size(parallelism: Parallelism) -> int:
    """GPUs that hold one replica: tensor x pipeline x context."""
    return parallelism.tensor_parallel_size * parallelism.pipeline_parallel_size * parallelism.context_parallel_size


def data_parallel_size(parallelism: Parallelism, world_size: int) -> int | None:
    """world = TP x PP x CP x DP solved for DP, or None where it does not divide."""
    replicas, left_over = divmod(world_size, model_parallel_size(parallelism))
    return replicas if replicas and not left_over else None


def sequences_per_wave(training: Training, replicas: int) -> int:
    """Sequences in flight at once: one micro-batch a replica."""
    return training.micro_batch_size * replicas


def holds(experiment: Experiment, world_size: int) -> bool:
    """Whether both identities hold: world = replicas x GPUs a replica, batch = waves x sequences a wave."""
    training, replicas = experiment.training, data_parallel_size(experiment.parallelism, world_size)
    return replicas is not None and training.global_batch_size % sequences_per_wave(training, replicas) == 0


def layout(training: Training, parallelism: Parallelism, world_size: int) -> Layout:
    """The layout of an experiment whose identities hold; lint has said so before."""
    replicas = data_parallel_size(parallelism, world_size)
    assert replicas is not None, "world size checked by lint"
    accumulation, left_over = divmod(training.global_batch_size, sequences_per_wave(training, replicas))
    assert not left_over, "batch checked by lint"
    return Layout(world_size, replicas, accumulation, training.global_batch_size * training.sequence_length)


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes a framework keeps per parameter."""

    weights: int
    gradients: int
    optimizer: int
    """Adam's two moments, and a master weight where updates to half-precision weights are exact in fp32."""


def state_bytes(precision: Precision, master_bytes: int) -> StateBytes:
    """What most frameworks keep: moments in fp32, and beside half-precision weights `master_bytes` more."""
    width = BYTES[precision.dtype]
    return StateBytes(width, 4 if precision.grad_reduce_in_fp32 else width, 8 + (master_bytes if width < 4 else 0))


@dataclass(frozen=True, slots=True)
class Memory:
    """GiB on the fullest GPU: one of the first or of the last pipeline stage."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float

    @property
    def total(self) -> float:
        return self.weights + self.gradients + self.optimizer + self.activations + self.logits

    def components(self) -> dict[str, float]:
        return asdict(self)


def memory_gib(experiment: Experiment, layout: Layout, padded_vocab_size: int, state: StateBytes) -> Memory:
    """Memory per GPU; `state` is what the framework keeps per parameter."""
    is_whole = experiment.parallelism.pipeline_parallel_size == 1
    ends = ((True, True),) if is_whole else ((True, False), (False, True))
    stages = (_stage(experiment, layout, padded_vocab_size, state, *end) for end in ends)
    return max(stages, key=lambda memory: memory.total)


def _stage(
    experiment: Experiment, layout: Layout, padded_vocab_size: int, state: StateBytes, first: bool, last: bool
) -> Memory:
    """A pipeline stage: the first embeds tokens and has most micro-batches in flight, the last makes the logits."""
    model, training, parallel = experiment.model, experiment.training, experiment.parallelism
    tp, pp, cp = parallel.tensor_parallel_size, parallel.pipeline_parallel_size, parallel.context_parallel_size
    held = _stage_parameters(model, padded_vocab_size, tp, pp, first, last)
    width = BYTES[experiment.precision.dtype]
    sharded = parallel.fsdp_size
    shards = max(sharded, layout.data_parallel_size * cp if parallel.distributed_optimizer else 1)

    tokens = training.micro_batch_size * training.sequence_length / cp
    layers = model.num_layers / pp
    in_flight = min(pp, layout.gradient_accumulation_steps) if first else 1
    kept = _activation_bytes(model, width, tp, parallel.sequence_parallel)
    if training.recompute == "full":  # a layer's input is all that is kept of it, but for the one being recomputed
        boundary = model.hidden_size * width / (tp if parallel.sequence_parallel else 1)
        activations = tokens * (boundary * layers * in_flight + kept)
    else:  # selective recomputes scores only, and those are not stored here to begin with
        activations = tokens * kept * layers * in_flight
    # The logits in the compute width, an fp32 copy for the loss, and the gradients of both.
    logits = tokens * padded_vocab_size / tp * (2 * width + 8 if width < 4 else 8) if last else 0.0
    return Memory(
        weights=held * state.weights / sharded / GIB,
        gradients=held * state.gradients / sharded / GIB,
        optimizer=held * state.optimizer / shards / GIB,
        activations=activations / GIB,
        logits=logits / GIB,
    )


def _stage_parameters(model: Model, padded_vocab_size: int, tp: int, pp: int, first: bool, last: bool) -> float:
    counted = parameters(model, padded_vocab_size)
    split = counted.attention_per_layer + counted.ffn_per_layer
    held = model.num_layers / pp * (split / tp + counted.norms_per_layer)
    if first:
        held += counted.embedding / tp + counted.positions
    if last:  # a tied embedding is held again where the logits are made
        tied = 0 if first or counted.output else counted.embedding
        held += (counted.output + tied) / tp + counted.final_norm
    return held


def _activation_bytes(model: Model, width: int, tensor_parallel: int, sequence_parallel: bool) -> float:
    """Bytes one token leaves behind in one layer.

    Both norms keep their input and give an input to a projection (4 h). Attention keeps q, k, v and its output
    (2 q + 2 kv). The feed-forward keeps gate, up and their product (3 f) or the values around its GELU (2 f).
    """
    h, f = model.hidden_size, model.ffn_hidden_size
    q, kv = model.num_attention_heads * model.head_dim, model.num_key_value_heads * model.head_dim
    whole = 4 * h / (tensor_parallel if sequence_parallel else 1)
    split = 2 * q + 2 * kv + (3 if model.architecture == "llama" else 2) * f
    return width * (whole + split / tensor_parallel)
