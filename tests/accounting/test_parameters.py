"""Parameter counts, held to the published ones and to the model we train."""

import pytest

from steelyard.accounting import padded_vocab_size, parameters
from steelyard.experiment import Model
from steelyard.experiment.presets import PRESETS

PUBLISHED = {
    "llama3.1-8b": 8_030_261_248,
    "llama3.1-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
    "qwen2.5-7b": 7_615_616_512,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_have_the_published_number_of_parameters(name: str) -> None:
    assert parameters(Model.model_validate(PRESETS[name])).total == PUBLISHED[name]


@pytest.mark.torch
@pytest.mark.parametrize("name", PRESETS)
def test_the_trainer_builds_as_many_parameters_as_are_counted(name: str) -> None:
    from dataclasses import fields

    import torch

    from steelyard.trainer.model import Decoder
    from steelyard.trainer.spec import ModelSpec

    model = Model.model_validate(PRESETS[name])
    spec = ModelSpec(**model.model_dump(include={field.name for field in fields(ModelSpec)}))
    with torch.device("meta"):
        built = Decoder(spec, recompute=False)
    assert sum(parameter.numel() for parameter in built.parameters()) == parameters(model).total


@pytest.mark.parametrize(
    ("vocabulary", "tensor_parallel", "padded"),
    [(50257, 1, 50304), (50257, 4, 50688), (128256, 1, 128256), (128256, 4, 128512), (128256, 8, 129024)],
)
def test_megatron_pads_the_vocabulary_to_128_a_tensor_rank(vocabulary: int, tensor_parallel: int, padded: int) -> None:
    assert padded_vocab_size(vocabulary, 128 * tensor_parallel) == padded
