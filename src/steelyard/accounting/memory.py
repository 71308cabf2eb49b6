"""How a batch is distributed over GPUs, and the memory per GPU by component.

Activations are the tensors that a layer keeps for the backward pass, as in Korthikanti et al., "Reducing Activation
Recomputation in Large Transformer Models" (2022), section 4, for attention that does not store its score matrix.
Workspace, fragmentation and buffers of the communication library are not included.
"""

from dataclasses import asdict, dataclass

from steelyard.accounting.flops import parameters
from steelyard.experiment.experiment import Experiment, Parallelism, Precision, Training
from steelyard.experiment.model import Model

GIB = 1024**3
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True, slots=True)
class Layout:
    """How a batch is distributed over ranks."""

    world_size: int
    data_parallel_size: int
    gradient_accumulation_steps: int
    tokens_per_step: int


def model_parallel_size(parallelism: Parallelism) -> int:
    """GPUs per replica: tensor x pipeline x context."""
    return parallelism.tensor_parallel_size * parallelism.pipeline_parallel_size * parallelism.context_parallel_size


def data_parallel_size(parallelism: Parallelism, world_size: int) -> int | None:
    """world = TP x PP x CP x DP solved for DP; None if it does not divide."""
    replicas, left_over = divmod(world_size, model_parallel_size(parallelism))
    return replicas if replicas and not left_over else None


def sequences_per_wave(training: Training, replicas: int) -> int:
    """Sequences processed at once: one micro batch per replica."""
    return training.micro_batch_size * replicas


def holds(experiment: Experiment, world_size: int) -> bool:
    """Whether world = replicas x GPUs per replica, and batch = waves x sequences per wave."""
    training, replicas = experiment.training, data_parallel_size(experiment.parallelism, world_size)
    return replicas is not None and training.global_batch_size % sequences_per_wave(training, replicas) == 0


def layout(training: Training, parallelism: Parallelism, world_size: int) -> Layout:
    """The layout of an experiment that passed lint."""
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
    """Adam's two moments, and an fp32 master weight if weights are in half precision."""


def state_bytes(precision: Precision, master_bytes: int) -> StateBytes:
    """The state of most frameworks: moments in fp32, and `master_bytes` more for half-precision weights."""
    width = BYTES[precision.dtype]
    return StateBytes(width, 4 if precision.grad_reduce_in_fp32 else width, 8 + (master_bytes if width < 4 else 0))


@dataclass(frozen=True, slots=True)
class Memory:
    """GiB on the GPU with the most memory, in the first or last pipeline stage."""

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
    """Memory per GPU; `state` is the state per parameter."""
    is_whole = experiment.parallelism.pipeline_parallel_size == 1
    ends = ((True, True),) if is_whole else ((True, False), (False, True))
    stages = (_stage(experiment, layout, padded_vocab_size, state, *end) for end in ends)
    return max(stages, key=lambda memory: memory.total)


def _stage(
    experiment: Experiment, layout: Layout, padded_vocab_size: int, state: StateBytes, first: bool, last: bool
) -> Memory:
    """A pipeline stage: the first has the embeddings and most micro batches in flight, the last has the logits."""
    model, training, parallel = experiment.model, experiment.training, experiment.parallelism
    tp, pp, cp = parallel.tensor_parallel_size, parallel.pipeline_parallel_size, parallel.context_parallel_size
    local_parameters = _stage_parameters(model, padded_vocab_size, tp, pp, first, last)
    width = BYTES[experiment.precision.dtype]
    sharded = parallel.fsdp_size
    shards = max(sharded, layout.data_parallel_size * cp if parallel.distributed_optimizer else 1)

    tokens = training.micro_batch_size * training.sequence_length / cp
    layers = model.num_layers / pp
    in_flight = min(pp, layout.gradient_accumulation_steps) if first else 1
    kept = _activation_bytes(model, width, tp, parallel.sequence_parallel)
    if training.recompute == "full":  # only the input of each layer is kept, and all of the layer being recomputed
        boundary = model.hidden_size * width / (tp if parallel.sequence_parallel else 1)
        activations = tokens * (boundary * layers * in_flight + kept)
    else:  # selective recomputes only scores, which are never stored here
        activations = tokens * kept * layers * in_flight
    # Logits in the compute precision, an fp32 copy for the loss, and the gradients of both.
    logits = tokens * padded_vocab_size / tp * (2 * width + 8 if width < 4 else 8) if last else 0.0
    return Memory(
        weights=local_parameters * state.weights / sharded / GIB,
        gradients=local_parameters * state.gradients / sharded / GIB,
        optimizer=local_parameters * state.optimizer / shards / GIB,
        activations=activations / GIB,
        logits=logits / GIB,
    )


def _stage_parameters(model: Model, padded_vocab_size: int, tp: int, pp: int, first: bool, last: bool) -> float:
    counted = parameters(model, padded_vocab_size)
    split = counted.attention_per_layer + counted.ffn_per_layer
    local_parameters = model.num_layers / pp * (split / tp + counted.norms_per_layer)
    if first:
        local_parameters += counted.embedding / tp + counted.positions
    if last:  # the stage with the logits has its own copy of a tied embedding
        tied = 0 if first or counted.output else counted.embedding
        local_parameters += (counted.output + tied) / tp + counted.final_norm
    return local_parameters


def _activation_bytes(model: Model, width: int, tensor_parallel: int, sequence_parallel: bool) -> float:
    """Bytes kept per token and layer.

    Both norms keep their input and the input of the next projection (4 h). Attention keeps q, k, v and its output
    (2 q + 2 kv). The feed-forward keeps gate, up and their product (3 f), or the values around its GELU (2 f).
    """
    h, f = model.hidden_size, model.ffn_hidden_size
    q, kv = model.num_attention_heads * model.head_dim, model.num_key_value_heads * model.head_dim
    whole = 4 * h / (tensor_parallel if sequence_parallel else 1)
    split = 2 * q + 2 * kv + (3 if model.architecture == "llama" else 2) * f
    return width * (whole + split / tensor_parallel)
