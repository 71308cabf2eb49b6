"""Several jobs on one pair of platforms: the speedup over all, and what holds of each when all are asked at once."""

import math
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest
from scipy import stats

from steelyard.campaign.family import adjusted_outcomes, holm, mean
from steelyard.comparison.intervals import between, outcome_of

SPREAD = (1.0, 1.004, 0.997, 1.002)
Weigh = Callable[..., None]


@pytest.fixture
def weigh(cli: Any, recorded: Any) -> Weigh:
    """A comparison of a job of its own (so many layers), whose target takes so many times as long a step."""
    serial = count()

    def call(name: str, layers: int, factor: float, spread: Sequence[float] = SPREAD, **different: Any) -> None:
        for side, slower in (("target", factor), ("baseline", 1.0)):
            for at, one in enumerate(spread):
                own = 1 + 1e-6 * next(serial)  # a run of its own, and no copy
                run = recorded(to=f"{name}-{side}/repeat-{at}").slower(slower * one * own)
                run.set("experiment/model/num_layers", layers)
                for key, value in different.items() if side == "target" else ():
                    run.set(key.replace("__", "/"), value)
        done = cli("compare", f"{name}-target", f"{name}-baseline", "--name", name)
        assert done.status in (0, 4, 5), done.err

    return call


def test_holm_is_what_r_makes_of_it() -> None:
    # p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


def test_the_mean_of_independent_ratios_is_that_of_all_their_runs_together() -> None:
    draw = np.random.default_rng(3)
    sides = [(np.exp(draw.normal(0.1, 0.01, 5)), np.exp(draw.normal(0.0, 0.02, 5))) for _ in range(3)]
    several = [found for one in sides if (found := between(*map(list, one)))]
    found = mean(several)
    assert found.value == pytest.approx(stats.gmean([stats.gmean(one) / stats.gmean(other) for one, other in sides]))
    parts = [(np.log(side).var(ddof=1) / len(side) / 9, len(side) - 1) for pair in sides for side in pair]
    variance = sum(part for part, _ in parts)
    assert found.standard_error == pytest.approx(math.sqrt(variance))
    assert found.freedom == pytest.approx(variance**2 / sum(part**2 / degrees for part, degrees in parts))


def test_one_ratio_alone_has_the_outcome_it_had() -> None:
    draw = np.random.default_rng(8)
    seen = set()
    for _ in range(400):
        at = draw.choice([0.9, 0.97, 1.0, 1.04, 1.1])
        found = between(list(at * np.exp(draw.normal(0, 0.02, 3))), list(np.exp(draw.normal(0, 0.01, 4))))
        assert found is not None
        outcome = outcome_of(found, 0.05)
        assert adjusted_outcomes([found], 0.05) == [outcome]
        seen.add(outcome)
    assert len(seen) == 6


def test_a_family(cli: Any, weigh: Weigh) -> None:
    weigh("small", 8, 0.8)
    weigh("middle", 16, 0.9)
    weigh("large", 24, 1.0)
    done = cli("runs", "family", "small", "middle", "large", "--json")
    assert done.status == 0, done.out
    found = done.document
    values = [one["throughput_speedup"]["value"] for one in found["members"]]
    assert values == pytest.approx([1 / 0.8, 1 / 0.9, 1.0], rel=1e-3)
    assert found["speedup"]["value"] == pytest.approx(math.prod(values) ** (1 / 3))
    assert found["speedup"]["low"] < found["speedup"]["value"] < found["speedup"]["high"]
    assert found["speedup"]["words"] == "faster"
    assert [one["adjusted_words"] for one in found["members"]] == ["faster", "faster", "equivalent within 5%"]
    assert [one["words"] for one in found["members"]] == ["faster", "faster", "equivalent within 5%"]
    strict = cli("runs", "family", "small", "middle", "large", "--margin", "20%", "--json").document["members"]
    assert [one["adjusted_words"] for one in strict] == ["faster", *["equivalent within 20%"] * 2]
    assert [one["words"] for one in strict] == ["faster", *["equivalent within 20%"] * 2]
    told = cli("runs", "family", "small", "middle", "large").out
    assert "+11.6% throughput (geometric mean of 3 jobs" in told
    assert "other jobs may differ" in told


def test_what_one_job_shows_alone_many_may_not(cli: Any, weigh: Weigh) -> None:
    wide = (0.94, 1.0, 1.06, 0.99)
    weigh("first", 8, 0.89, wide)
    for at in range(4):
        weigh(f"other{at}", 16 + 8 * at, 1.0, wide)
    alone = cli("runs", "family", "first", "other0", "--json").document["members"][0]
    among = cli("runs", "family", "first", *(f"other{at}" for at in range(4)), "--json").document["members"][0]
    assert alone["throughput_speedup"]["words"] == "faster, maybe by less than 5%"
    assert alone["adjusted_words"] == "faster, maybe by less than 5%"
    assert among["adjusted_words"] == "inconclusive"


def test_one_that_is_refused_refuses_all(cli: Any, weigh: Weigh) -> None:
    weigh("small", 8, 0.8)
    weigh("other", 16, 0.8, experiment__training__sequence_length=1024)
    done = cli("runs", "family", "small", "other", "--json")
    assert done.status == 4
    assert done.document["speedup"] is None
    assert "training.sequence_length" in done.document["reasons"][0]
    assert done.document["reason_codes"] == ["family_not_compared"]
    assert "no common speedup of 2 jobs" in cli("runs", "family", "small", "other").out


def test_too_few_runs_of_one_are_an_observation(cli: Any, weigh: Weigh) -> None:
    weigh("small", 8, 0.8)
    weigh("large", 16, 0.8, SPREAD[:2])
    done = cli("runs", "family", "small", "large", "--json")
    assert done.status == 5
    assert done.document["speedup"]["low"] is None
    assert done.document["speedup"]["outcome"] == "too_few_runs"


@pytest.mark.parametrize(
    ("second", "why"), [({"layers": 8}, "compare the same job"), ({"platform__gpu": "h100"}, "platform.gpu")]
)
def test_what_is_no_family(cli: Any, weigh: Weigh, second: dict[str, Any], why: str) -> None:
    weigh("small", 8, 0.8)
    weigh("large", **{"layers": 16, "factor": 0.81, **second})
    done = cli("runs", "family", "small", "large", "--json")
    assert done.status == 2
    assert done.document["error"]["key"] == "COMPARISONS"
    assert why in done.document["error"]["message"]


def test_sides_the_other_way_round(cli: Any, weigh: Weigh) -> None:
    weigh("small", 8, 0.8, experiment__kernels__deterministic=False)
    weigh("large", 16, 1.25, experiment__kernels__deterministic=False)
    assert cli("runs", "family", "small", "large").status == 0
    assert cli("compare", "large-baseline", "large-target", "--name", "turned").status == 0
    done = cli("runs", "family", "small", "turned", "--json")
    assert done.status == 2
    assert "swapped (kernels.deterministic)" in done.document["error"]["message"]


def test_one_comparison_twice_or_alone(cli: Any, weigh: Weigh) -> None:
    weigh("small", 8, 0.8)
    assert cli("runs", "family", "small", "small").status == 2
    assert cli("runs", "family", "small", "--json").document["error"]["expected"] == "2 or more"
    assert "Comparison 'none' not found" in cli("runs", "family", "small", "none").err


def test_a_family_names_what_its_comparisons_declare(cli: Any, weigh: Weigh) -> None:
    weigh("small", 8, 0.8, experiment__training__recompute="full")
    weigh("large", 16, 0.8)
    accept = ("--accept", "training.recompute=tuned")
    assert cli("compare", "small-target", "small-baseline", *accept, "--name", "accepted").status == 0
    done = cli("runs", "family", "accepted", "large", "--json")
    assert [bool(member["banner"]) for member in done.document["members"]] == [True, False]
    shown = cli("runs", "family", "accepted", "large").out.splitlines()[1].strip()
    assert shown.startswith("accepted: Declared by the user: accepted training.recompute (tuned)")
