"""First losses and floors, held to runs of real frameworks."""

import math

import pytest

from steelyard.accounting import first_loss, loss_floor
from steelyard.experiment import Data, Model
from steelyard.experiment.presets import PRESETS

# padded vocabulary, init std, observed first loss of a public run
OBSERVED = [
    ("llama3.1-8b", 128256, 0.008, 11.8955),
    ("llama3.1-8b", 50688, 0.02, 11.654),
    ("llama3.1-8b", 128256, 0.02, 12.5787),
    ("llama3.1-8b", 128256, 0.02, 12.58695),
    ("llama3.1-8b", 50304, 0.01, 11.03),
    ("qwen2.5-7b", 152064, 0.008, 12.049),
    ("qwen2.5-7b", 152064, 0.02, 12.664),
]


@pytest.mark.parametrize(("name", "padded", "std", "observed"), OBSERVED)
def test_first_loss_is_within_a_twentieth_of_what_was_observed(
    name: str, padded: int, std: float, observed: float
) -> None:
    assert first_loss(Model.model_validate(PRESETS[name]), std, padded) == pytest.approx(observed, abs=0.05)


def test_uniform_data_leave_the_whole_vocabulary_to_chance() -> None:
    assert loss_floor(Data(source="uniform"), 50257, 1000) == pytest.approx(10.8249, abs=5e-5)


def test_counting_data_are_unknown_only_in_where_a_document_ends() -> None:
    assert loss_floor(Data(source="counting"), 128256, 1000) == pytest.approx(math.log(4095) / 2048)


def test_a_corpus_has_no_known_floor() -> None:
    assert loss_floor(Data(source="tokens", path="corpus.npy"), 128256, 1000) is None


def test_samples_that_repeat_can_be_learned_by_heart() -> None:
    assert loss_floor(Data(source="uniform", samples=999), 128, 1000) is None
    assert loss_floor(Data(source="uniform", samples=1000), 128, 1000) == pytest.approx(math.log(128))
