"""World and batch identities."""

from steelyard.accounting import data_parallel_size, layout
from steelyard.experiment import Parallelism, Training


def training(**values: int) -> Training:
    return Training.model_validate(
        {"micro_batch_size": 2, "global_batch_size": 64, "sequence_length": 2048, "steps": 1, "learning_rate": 1e-4}
        | values
    )


def test_the_apples_to_apples_table_accumulates_four_times() -> None:
    found = layout(training(), Parallelism(), 8)
    assert (found.data_parallel_size, found.gradient_accumulation_steps) == (8, 4)
    assert found.tokens_per_step == 64 * 2048


def test_tensor_pipeline_and_context_parallel_make_a_replica() -> None:
    sizes = Parallelism(tensor_parallel_size=4, pipeline_parallel_size=2, context_parallel_size=2)
    assert data_parallel_size(sizes, 64) == 4


def test_gpus_that_make_no_whole_replica_have_no_layout() -> None:
    assert data_parallel_size(Parallelism(tensor_parallel_size=3), 8) is None
    assert data_parallel_size(Parallelism(tensor_parallel_size=16), 8) is None
