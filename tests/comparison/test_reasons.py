"""Reasons of a comparison are data: codes with effects, from which the sentence is made last."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from steelyard.comparison import Comparability, Ruling, codes, find
from steelyard.comparison.codes import sentence
from steelyard.comparison.contract import effect_in
from steelyard.experiment.policy import Effect as Governs
from steelyard.reasons import Effect, Reason, codes_in

AS_STRINGS = Path(__file__).parent / "fixtures" / "reasons_as_strings.json"
"""A comparison of half-batch with baseline, as it was written while reasons were strings."""

BLOCKS = Reason(codes.TOO_FEW_STEADY_STEPS, {"run": "a", "steps": 3, "least": 20}, Effect.BLOCKS)
UNKNOWN = Reason(codes.TIMES_MISSING, {"run": "a"}, Effect.UNKNOWN)
CAVEAT = Reason(codes.RUN_ON_BOTH_SIDES, {"runs": ("a",)}, Effect.CAVEAT)


def test_every_code_has_a_name_of_its_own_and_a_meaning() -> None:
    declared = codes_in(codes)
    assert len({code.name for code in declared}) == len(declared) > 30
    assert all(meaning.endswith(".") for meaning in declared.values())


@pytest.mark.parametrize(
    ("reasons", "status", "decisive"),
    [
        ((), Comparability.COMPARABLE, ()),
        ((CAVEAT,), Comparability.QUALIFIED, (CAVEAT,)),
        ((CAVEAT, UNKNOWN), Comparability.UNKNOWN, (UNKNOWN,)),
        ((UNKNOWN, CAVEAT, BLOCKS), Comparability.NOT_COMPARABLE, (BLOCKS,)),
    ],
)
def test_the_worst_effect_decides_and_stands_first(
    reasons: tuple[Reason, ...], status: Comparability, decisive: tuple[Reason, ...]
) -> None:
    ruling = Ruling().worsened(*reasons)
    assert (ruling.status, ruling.decisive) == (status, decisive)
    assert ruling.reasons[: len(decisive)] == decisive
    assert ruling.holds == (status in (Comparability.COMPARABLE, Comparability.QUALIFIED))


def test_only_a_caveat_says_that_it_qualifies() -> None:
    assert sentence(CAVEAT) == f"qualified: {CAVEAT.message}"
    assert (sentence(BLOCKS), sentence(UNKNOWN)) == (BLOCKS.message, UNKNOWN.message)


def test_matched_mode_refuses_what_would_qualify() -> None:
    assert [effect_in("best", one) for one in Governs] == [Effect.BLOCKS, Effect.CAVEAT]
    assert [effect_in("matched", one) for one in Governs] == [Effect.BLOCKS, Effect.BLOCKS]


def test_many_settings_that_are_not_known_are_counted_on_the_terminal(cli: Any, recorded: Any) -> None:
    target = recorded("again")
    for key in ("num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "vocab_size"):
        target.set(f"experiment/model/{key}", ...)
    asked = ("compare", target, recorded("baseline"), "--for", "convergence")
    (unknown,) = cli(*asked, "--json").reasons("convergence", "settings_unknown")
    assert (unknown["effect"], unknown["side"], len(unknown["keys"])) == ("unknown", "target", 5)
    out = " ".join(cli(*asked).out.split())
    assert "5 keys are not known of the target, model.num_layers among them" in out
    assert "unknown contract 5 keys are not known of the target" in out


def test_a_comparison_whose_reasons_are_strings_is_still_taken(cli: Any, recorded: Any, tmp_path: Path) -> None:
    recorded("half-batch"), recorded("baseline")
    place = tmp_path / "runs" / "comparisons" / "refused"
    place.mkdir(parents=True)
    shutil.copy(AS_STRINGS, place / "comparison.json")
    kept = json.loads(AS_STRINGS.read_text())["comparable"]["throughput"]["reasons"]
    assert find("refused", tmp_path / "runs") == place
    assert cli("report", "refused", "--to", "md").status == 0
    assert all(reason in (place / "report.md").read_text().replace("\\", "") for reason in kept)
    assert cli("runs", "family", "refused", "refused").status == 2  # it is read, and one job twice is no family
