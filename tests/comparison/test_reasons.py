"""Reasons of a comparison are data: codes with effects, from which the sentence is made last."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from steelyard import records
from steelyard.comparison import Comparability, Ruling, codes, find
from steelyard.comparison.codes import sentence
from steelyard.comparison.contract import effect_in
from steelyard.comparison.files import fingerprints, weigh_again
from steelyard.experiment.policy import Effect as Governs
from steelyard.reasons import Effect, Reason, codes_in
from steelyard.verdict import read_subject

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


def test_only_a_caveat_is_marked_as_one() -> None:
    assert sentence(CAVEAT) == f"caveat: {CAVEAT.message}"
    assert (sentence(BLOCKS), sentence(UNKNOWN)) == (BLOCKS.message, UNKNOWN.message)


def test_matched_mode_refuses_what_would_qualify() -> None:
    assert [effect_in("best", one) for one in Governs] == [Effect.BLOCKS, Effect.CAVEAT, Effect.UNKNOWN]
    assert [effect_in("matched", one) for one in Governs] == [Effect.BLOCKS, Effect.BLOCKS, Effect.UNKNOWN]


def test_many_settings_that_are_not_known_are_counted_on_the_terminal(cli: Any, recorded: Any) -> None:
    target = recorded("again")
    for key in ("num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "vocab_size"):
        target.set(f"experiment/model/{key}", ...)
    asked = ("compare", target, recorded("baseline"), "--for", "convergence")
    (unknown,) = cli(*asked, "--json").reasons("convergence", "settings_unknown")
    assert (unknown["effect"], unknown["side"], len(unknown["keys"])) == ("unknown", "target", 5)
    short = "model.num_layers and 4 more settings are not recorded for again"
    assert cli(*asked).out.startswith(f"Comparability unknown: {short}\n")
    assert "model.{num_layers, hidden_size," in cli(*asked, "-v").out


def test_a_comparison_whose_reasons_are_strings_is_still_taken(cli: Any, recorded: Any, tmp_path: Path) -> None:
    recorded("half-batch"), recorded("baseline")
    place = tmp_path / "runs" / "comparisons" / "refused"
    place.mkdir(parents=True)
    shutil.copy(AS_STRINGS, place / "comparison.json")
    assert find("refused", tmp_path / "runs") == place
    assert cli("report", "refused", "--to", "md").status == 0
    reasons = weigh_again(place).comparable["throughput"].reasons
    assert len(reasons) == len(json.loads(AS_STRINGS.read_text())["comparable"]["throughput"]["reasons"])
    assert all(reason.message in (place / "report.md").read_text().replace("\\", "") for reason in reasons)
    assert cli("runs", "family", "refused", "refused").status == 2  # it is read, and one job twice is no family


def test_a_run_has_the_digest_it_had_when_that_comparison_was_made(recorded: Any) -> None:
    saved = json.loads(AS_STRINGS.read_text())["digests"]
    runs = [records.load(recorded(name).directory) for name in ("half-batch", "baseline")]
    assert fingerprints([read_subject(run) for run in runs]) == [*saved["target"], *saved["baseline"]]
