"""Memory per GPU: the identities it must keep, and one card it was measured on."""

from typing import Any

import pytest

from steelyard.accounting import Memory, layout, memory_gib, state_bytes
from steelyard.experiment import Experiment

GIB = 1024**3


def memory(world: int = 1, master_bytes: int = 4, preset: str = "llama3.1-8b", **groups: dict[str, Any]) -> Memory:
    from steelyard.experiment.presets import PRESETS

    training = {
        "micro_batch_size": 2,
        "global_batch_size": 64,
        "sequence_length": 2048,
        "steps": 1,
        "learning_rate": 3e-4,
        **groups.pop("training", {}),
    }
    experiment = Experiment.model_validate(
        {"name": "m", "model": PRESETS[preset], "training": training, "precision": {"dtype": "bf16"}, **groups}
    )
    laid_out = layout(experiment.training, experiment.parallelism, world)
    state = state_bytes(experiment.precision, master_bytes)
    return memory_gib(experiment, laid_out, experiment.model.vocab_size, state)


def test_the_split_master_weight_costs_fourteen_bytes_a_parameter() -> None:
    """14 bytes x 8.03e9 = 104.7 GiB, which is how an 8B model fits an H200."""
    found = memory(master_bytes=2)
    assert found.weights + found.gradients + found.optimizer == pytest.approx(104.7, abs=0.05)


def test_a_whole_master_weight_costs_sixteen() -> None:
    found = memory(master_bytes=4)
    assert found.weights + found.gradients + found.optimizer == pytest.approx(16 * 8_030_261_248 / GIB)


def test_sharding_the_optimizer_divides_it_by_the_replicas_and_nothing_else() -> None:
    whole = memory(world=8, parallelism={"distributed_optimizer": False})
    shared = memory(world=8, parallelism={"distributed_optimizer": True})
    assert shared.optimizer == pytest.approx(whole.optimizer / 8)
    assert (shared.weights, shared.gradients, shared.activations) == (whole.weights, whole.gradients, whole.activations)


def test_full_recomputation_keeps_one_layer_and_the_inputs_of_the_rest() -> None:
    none, full = memory(), memory(training={"recompute": "full"})
    inputs = 2 * 2048 * 4096 * 2 * 32 / GIB
    assert full.activations == pytest.approx(none.activations / 32 + inputs)


def test_fp32_gradients_and_weights_double() -> None:
    half, reduced = memory(), memory(precision={"dtype": "bf16", "grad_reduce_in_fp32": True})
    single = memory(precision={"dtype": "fp32"})
    assert reduced.gradients == pytest.approx(2 * half.gradients)
    assert single.weights == pytest.approx(2 * half.weights)
    assert single.optimizer == pytest.approx(8 * 8_030_261_248 / GIB)  # the weight is its own master


def test_tensor_and_pipeline_parallel_share_the_weights() -> None:
    whole = memory(world=8, preset="llama3.1-70b")
    split = memory(world=8, preset="llama3.1-70b", parallelism={"tensor_parallel_size": 4, "pipeline_parallel_size": 2})
    assert 1 / 8 <= split.weights / whole.weights < 1 / 7


def test_the_last_stage_holds_the_logits_and_is_counted_where_it_is_the_fullest() -> None:
    found = memory(
        world=8,
        training={"micro_batch_size": 1, "sequence_length": 8192, "recompute": "full"},
        parallelism={"pipeline_parallel_size": 2},
    )
    assert found.logits == pytest.approx(8192 * 128256 * 12 / GIB)
    layer = 8192 * 2 * (4 * 4096 + 2 * 4096 + 2 * 1024 + 3 * 14336)
    assert found.activations == pytest.approx((8192 * 4096 * 2 * 16 + layer) / GIB)


def test_the_first_stage_holds_most_micro_batches_and_is_counted_where_that_is_more() -> None:
    found = memory(world=4, preset="llama3.1-70b", parallelism={"pipeline_parallel_size": 4})
    assert found.logits == 0.0
    assert found.activations == pytest.approx(memory(preset="llama3.1-70b").activations)  # 20 layers, 4 in flight
