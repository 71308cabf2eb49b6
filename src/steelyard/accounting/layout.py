"""The identities that tie world size, parallelism and batch together."""

from dataclasses import dataclass

from steelyard.experiment.experiment import Experiment, Parallelism, Training


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
