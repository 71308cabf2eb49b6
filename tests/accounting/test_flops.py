"""FLOPs per token, held to figures worked out from each framework's own source."""

import pytest

from steelyard.accounting import Convention, flops_by_convention, flops_per_token
from steelyard.experiment import Model
from steelyard.experiment.presets import PRESETS

COLUMNS = (
    ("causal", "none"),
    ("noncausal", "none"),
    ("torchtitan", "none"),
    ("megatron_deepspeed", "none"),
    ("megatron_deepspeed", "selective"),
    ("megatron_deepspeed", "full"),
    ("six_n", "none"),
)
TABLE = {
    ("llama3.1-8b", 2048): ("46.639", "48.249", "48.251", "46.639", "47.712", "62.185", "48.182"),
    ("llama3.1-8b", 8192): ("51.470", "57.913", "57.914", "56.302", "60.597", "75.070", "48.182"),
    ("llama3.1-70b", 8192): ("449.223", "481.435", "481.443", "473.382", "494.857", "631.176", "423.322"),
    ("llama3.1-405b", 8192): ("2523.956", "2625.425", "2625.449", "2600.057", "2667.703", "3466.743", "2435.120"),
    # torchtitan has no GPT-3: its cell would be hypothetical
    ("gpt3-6.7b", 2048): ("41.502", "43.112", None, "43.112", "44.186", "57.483", "39.952"),
}


def model(name: str) -> Model:
    return Model.model_validate(PRESETS[name])


@pytest.mark.parametrize(("name", "sequence"), TABLE)
def test_every_convention_gives_the_published_digits(name: str, sequence: int) -> None:
    for (convention, recompute), printed in zip(COLUMNS, TABLE[name, sequence], strict=True):
        if printed is not None:
            flops = flops_by_convention(convention, model(name), sequence, recompute=recompute)
            assert f"{flops / 1e9:.3f}" == printed, convention


def test_nemo_hard_codes_the_vocabulary_of_gpt3() -> None:
    assert f"{flops_by_convention('nemo_causal', model('gpt3-6.7b'), 2048) / 1e9:.3f}" == "41.524"
    assert f"{flops_by_convention('nemo_noncausal', model('gpt3-6.7b'), 2048) / 1e9:.3f}" == "43.134"


def test_nemo_over_reports_a_gpt2_vocabulary_by_its_hard_coded_one() -> None:
    narrow = model("llama3.1-8b").model_copy(update={"vocab_size": 50688})
    over = flops_by_convention("nemo_causal", narrow, 8192) - flops_per_token(narrow, 8192)
    assert f"{over / 1e9:.3f}" == "1.906"


def test_recomputation_is_work_in_one_convention_only() -> None:
    for convention in Convention:
        plain = flops_by_convention(convention, model("llama3.1-8b"), 2048)
        recomputed = flops_by_convention(convention, model("llama3.1-8b"), 2048, recompute="full")
        assert (recomputed > plain) == (convention == "megatron_deepspeed")


def test_padding_the_vocabulary_adds_its_logits() -> None:
    assert flops_per_token(model("llama3.1-8b"), 2048, 128512) - flops_per_token(model("llama3.1-8b"), 2048) == (
        6 * 4096 * 256
    )
