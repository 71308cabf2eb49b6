"""FLOPs per token, held to figures worked out from each framework's own source."""

import pytest

from steelyard.accounting import flops_per_token
from steelyard.accounting.flops import countable, parameters
from steelyard.experiment import Model
from steelyard.experiment.presets import PRESETS
from steelyard.frameworks.registry import flop_conventions

CONVENTIONS = {convention.name: convention for convention in flop_conventions("unknown")}
"""The formulas that frameworks use, by the names that verdicts print."""

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
            flops = CONVENTIONS[convention].flops_per_token(model(name), sequence, recompute=recompute)
            assert f"{flops / 1e9:.3f}" == printed, convention


def test_nemo_hard_codes_the_vocabulary_of_gpt3() -> None:
    assert f"{CONVENTIONS['nemo_causal'].flops_per_token(model('gpt3-6.7b'), 2048) / 1e9:.3f}" == "41.524"
    assert f"{CONVENTIONS['nemo_noncausal'].flops_per_token(model('gpt3-6.7b'), 2048) / 1e9:.3f}" == "43.134"


def test_nemo_over_reports_a_gpt2_vocabulary_by_its_hard_coded_one() -> None:
    narrow = model("llama3.1-8b").model_copy(update={"vocab_size": 50688})
    over = CONVENTIONS["nemo_causal"].flops_per_token(narrow, 8192) - flops_per_token(narrow, 8192)
    assert f"{over / 1e9:.3f}" == "1.906"


def test_recomputation_is_work_in_the_conventions_of_deepspeed_only() -> None:
    counting = ("megatron_deepspeed", "gpt_neox", "gpt_neox_without_logits")
    for name, convention in CONVENTIONS.items():
        plain = convention.flops_per_token(model("llama3.1-8b"), 2048)
        recomputed = convention.flops_per_token(model("llama3.1-8b"), 2048, recompute="full")
        assert (recomputed > plain) == (name in counting) == convention.counts_recomputation


def test_gpt_neox_counts_as_its_versions_do() -> None:
    """gpt3-6.7b at 2048 by hand: 72 L h^2 + 12 L h s + 4.5 h V; 6 N + 60 L h s."""
    gpt, layers, width, length, vocabulary = model("gpt3-6.7b"), 32, 4096, 2048, 50304
    blocks = 72 * layers * width**2 + 12 * layers * width * length
    assert CONVENTIONS["gpt_neox"].flops_per_token(gpt, length) == blocks + 4.5 * width * vocabulary
    assert CONVENTIONS["gpt_neox_without_logits"].flops_per_token(gpt, length, recompute="full") == blocks * 4 / 3
    by_parameters = 6 * parameters(gpt).total + 60 * layers * width * length
    assert CONVENTIONS["gpt_neox_by_parameters"].flops_per_token(gpt, length) == by_parameters


def test_a_gpt_with_rotary_positions_is_counted() -> None:
    given = {**PRESETS["gpt3-6.7b"], "rope_theta": 1e4, "rope_scaling": None}
    counted = countable(given)
    assert counted is not None
    assert flops_per_token(counted, 2048) == flops_per_token(model("gpt3-6.7b"), 2048)
    assert parameters(model("gpt3-6.7b")).total - parameters(counted).total == (2048 - 1) * 4096


def test_padding_the_vocabulary_adds_its_logits() -> None:
    assert flops_per_token(model("llama3.1-8b"), 2048, 128512) - flops_per_token(model("llama3.1-8b"), 2048) == (
        6 * 4096 * 256
    )
