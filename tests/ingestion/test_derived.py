"""Values that follow from the known ones."""

from typing import Any

import pytest

from steelyard.ingestion.derived import following

KNOWN: dict[str, Any] = {
    "training.global_batch_size": 32,
    "training.gradient_accumulation_steps": 4,
    "parallelism.tensor_parallel_size": 2,
    "parallelism.pipeline_parallel_size": 1,
    "parallelism.context_parallel_size": 1,
}


def test_the_micro_batch_is_the_share_of_one_replica_and_one_pass() -> None:
    values = dict(following(KNOWN, world=4))
    assert values["parallelism.data_parallel_size"] == 2
    assert values["training.micro_batch_size"] == 4


@pytest.mark.parametrize("missing", KNOWN)
def test_it_needs_every_factor(missing: str) -> None:
    known = {key: value for key, value in KNOWN.items() if key != missing}
    assert "training.micro_batch_size" not in dict(following(known, world=4))


@pytest.mark.parametrize("batch", [0, -32, 30, "32", True])
def test_a_batch_that_cannot_be_shared_has_none(batch: Any) -> None:
    assert "training.micro_batch_size" not in dict(following(KNOWN | {"training.global_batch_size": batch}, world=4))
