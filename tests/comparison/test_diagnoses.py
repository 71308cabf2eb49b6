"""Causes are told from evidence, and only from evidence."""

import json
import math
import random
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from steelyard import records
from steelyard.accounting.vocabularies import Declared, fitting, mock_starts, own_starts, share_that_fits
from steelyard.comparison import Metric, weigh
from steelyard.comparison.contract import contract
from steelyard.comparison.diagnoses import Diagnosis
from steelyard.comparison.diagnoses.learning_rate import Pattern
from steelyard.comparison.diagnoses.parting import Look
from steelyard.comparison.diagnoses.silent_default import DefaultOfOne, LeftOpen, unstated_differences
from steelyard.comparison.side import side
from steelyard.comparison.tiers import Pair
from steelyard.experiment.presets import PRESETS
from steelyard.experiment.sources import Origin, Source
from steelyard.frameworks.facts import ShareOf
from steelyard.frameworks.registry import facts
from steelyard.verdict import read_subject

Diagnoses = dict[tuple[str, str], Diagnosis]
Told = Callable[..., Diagnoses]
SET = Source(Origin.SET)


def diagnoses(target: str, baseline: str) -> Diagnoses:
    """What explains the difference of two runs, by code and side."""
    sides = ([records.find(name, Path("runs"))] for name in (target, baseline))
    return {(one.code.name, one.side): one for one in weigh(*sides, [Metric.CONVERGENCE]).diagnoses}


def losses(first: float, last: float, count: int = 120) -> list[float]:
    """Down from one to the other, with a little noise that is always the same."""
    return [last + (first - last) * math.exp(-at / 15) + 1e-4 * math.sin(7.3 * at) * last for at in range(count)]


@pytest.fixture
def told(cli: Any, tmp_path: Path) -> Told:
    """What is said of two curves with what is stated of them."""

    def tell(
        target: Sequence[float],
        baseline: Sequence[float],
        ours: Sequence[str] = (),
        theirs: Sequence[str] = (),
        rates: Sequence[Sequence[float]] = ((), ()),
        every: int = 1,
    ) -> Any:
        sides = (("target", target, ours, rates[0]), ("baseline", baseline, theirs, rates[1]))
        for name, values, stated, rate in sides:
            rows = [
                f"{at + 1},{values[at]!r}" + (f",{rate[at]!r}" if rate else "") for at in range(0, len(values), every)
            ]
            head = "step,loss,learning_rate" if rate else "step,loss"
            (tmp_path / f"{name}.csv").write_text("\n".join([head, *rows]) + "\n")
            shutil.rmtree(tmp_path / "runs" / name, ignore_errors=True)
            made = cli("ingest", tmp_path / f"{name}.csv", "--name", name, *stated)
            assert made.status == 0, made.err
        return diagnoses("target", "baseline")

    return tell


def of(framework: str, **settings: Any) -> list[str]:
    words = [word for key, value in settings.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
    return ["--framework", framework, *words]


@pytest.mark.parametrize(
    ("size", "padded", "tensor"),
    [(128256, 128256, 1), (128256, 128512, 4), (32000, 32000, 1)],
)
def test_a_plateau_at_a_vocabulary_is_uniform_data(told: Told, size: int, padded: int, tensor: int) -> None:
    end = math.log(padded)
    stated = of("megatron", parallelism__tensor_parallel_size=tensor)
    found = told(losses(end + 0.8, end), losses(end + 0.8, 3.0), stated, of("nemo"))
    vocabulary = found["uniform_data", "target"].values["vocabularies"][0]
    assert (vocabulary.size, vocabulary.padded) == (size, padded)
    assert ("uniform_data", "baseline") not in found


def test_text_that_stops_at_such_a_loss_is_not_called_uniform(told: Told) -> None:
    end = math.log(32000)
    found = told(losses(end + 0.8, end), losses(11.0, 3.0), of("megatron", data__source="tokens", data__path="corpus"))
    assert not any(code == "uniform_data" for code, _ in found)


def test_a_curve_that_learnt_much_is_not_uniform_wherever_it_ends(told: Told) -> None:
    found = told(losses(16.0, math.log(32000)), losses(11.0, 3.0))
    assert not any(code == "uniform_data" for code, _ in found)


def test_a_run_that_learnt_and_diverged_had_no_uniform_tokens(told: Told) -> None:
    learnt, end = losses(11.65, 4.9), math.log(50304)
    found = told([*learnt, *losses(end, end, 300)], losses(11.65, 3.0, 420))
    assert not any(code == "uniform_data" for code, _ in found)


LLAMA = {"model__preset": "llama3.1-8b"}
CORPUS = {"data__path": "/data/c4", "data__tokenizer": "llama3"}


def falling(last: float, count: int = 80) -> list[float]:
    """Healthy and steep: the last ten losses lie about the one asked, and fall by 0.03 a step."""
    bent = [-1.88 * (at / (count - 1)) ** 1.2 + 0.001 * math.sin(5.1 * at) for at in range(count)]
    shift = last - statistics.median(bent[-10:])
    return [loss + shift for loss in bent]


@pytest.mark.parametrize("stated", [{}, LLAMA, {**LLAMA, **CORPUS}])
def test_a_loss_that_falls_through_a_vocabulary_is_not_uniform(told: Told, stated: dict[str, str]) -> None:
    curve = falling(10.833)
    found = told(curve, losses(12.58, 3.0), of("megatron", **stated), of("megatron", **LLAMA))
    assert not any(code == "uniform_data" for code, _ in found)


@pytest.mark.parametrize(("first", "said"), [(12.58, False), (math.log(50304) + 4096 * 0.02**2 / 2, True)])
def test_a_plateau_at_another_vocabulary_than_declared_needs_its_first_loss(
    told: Told, first: float, said: bool
) -> None:
    end = math.log(50304)
    stated = of("nemo", **LLAMA, **CORPUS, parallelism__tensor_parallel_size=1)
    found = told(losses(first, end), losses(12.58, 3.0), stated)
    assert (("uniform_data", "target") in found) is said
    if said:
        assert found["uniform_data", "target"].values["vocabularies"][0].padded == 50304


def test_an_untrained_model_is_not_called_uniform_data(told: Told) -> None:
    curve = losses(math.log(50304) + 0.02, math.log(50304))
    assert not any(code == "uniform_data" for code, _ in told(curve, losses(11.0, 3.0), of("megatron"), of("nemo")))


def test_below_the_counting_floor_data_is_degenerate(told: Told) -> None:
    found = told(losses(11.9, 0.0042, 400), losses(11.9, 0.0009, 400), of("primus"), of("megatron"))
    assert ("counting_data", "target") in found
    assert found["degenerate_data", "baseline"].values["below_counting"]


def test_maxtext_s_synthetic_batch_is_learnt_by_heart(told: Told) -> None:
    found = told(losses(12.2, 0.02), losses(12.2, 3.0), of("maxtext"), of("megatron"))
    assert ("fixed_batch", "target") in found
    assert ("counting_data", "target") not in found


def test_a_healthy_run_of_maxtext_learns_no_batch_by_heart(told: Told) -> None:
    found = told(losses(12.27, 3.24), losses(12.27, 3.2), of("maxtext", **LLAMA), of("torchtitan", **LLAMA))
    assert not any(code == "fixed_batch" for code, _ in found)
    declared = told(
        losses(12.27, 3.24), losses(12.27, 3.2), of("maxtext", data__samples=8, training__global_batch_size=8)
    )
    assert ("fixed_batch", "target") in declared


@pytest.mark.parametrize(
    ("stated", "first"),
    [
        (of("torchtitan"), 2.4),
        (of("torchtitan"), 12.2),
        (of("nemo", **CORPUS), 2.4),
        (of("megatron", **CORPUS), 11.9),
        (of("megatron"), 2.4),
    ],
)
def test_what_cannot_count_is_degenerate_or_learnt_by_heart(told: Told, stated: list[str], first: float) -> None:
    found = told(losses(first, 0.03, 200), losses(first, 2.0, 200), stated)
    assert ("counting_data", "target") not in found
    assert not found["degenerate_data", "target"].values["below_counting"]


def test_a_loss_that_rests_above_the_counting_floor_is_not_said_to_count(told: Told) -> None:
    found = told(losses(11.9, 0.03, 200), losses(11.9, 2.0, 200), of("primus"))
    assert ("counting_data", "target") not in found
    curve = [11.9 * 0.96**at + 0.004 for at in range(160)]
    (ending,) = told(curve, losses(11.9, 2.0), of("primus"))["counting_data", "target"].values["endings"]
    assert ending.course.still_falls


def test_the_first_loss_has_several_solutions_until_something_is_declared(told: Told) -> None:
    first = math.log(50304) + 4096 * 0.02**2 / 2
    open_, declared = (
        told(losses(first, 3.0), losses(12.581, 3.0), stated, of("nemo", model__preset="llama3.1-8b"))[
            "untrained_loss", "target"
        ].values["model"]
        for stated in (
            of("megatron", model__hidden_size=4096),
            of("nemo", model__hidden_size=4096, parallelism__tensor_parallel_size=1, training__init_method_std=0.02),
        )
    )
    assert (len(open_.starts), len(declared.starts)) == (2, 1)
    assert (open_.vocabularies, declared.vocabularies) == (2, 1)  # only the second is named
    start = declared.starts[0]
    assert (start.vocabulary.size, start.vocabulary.padded, start.std) == (50257, 50304, 0.02)


def test_what_is_declared_binds_and_another_vocabulary_is_only_consistent(told: Told) -> None:
    def solved(first: float, tensor: int) -> Any:
        stated = of("nemo", **LLAMA, parallelism__tensor_parallel_size=tensor)
        found = told(losses(first, 3.0), losses(12.4, 3.0), stated).get(("untrained_loss", "target"))
        return None if found is None else found.values["model"]

    padded = math.log(50688) + 4096 * 0.02**2 / 2  # of tensor-parallel size 4
    assert solved(padded, 1) is None
    model = solved(padded, 4)
    assert not model.as_declared
    assert [(start.vocabulary.size, start.vocabulary.padded, start.std) for start in model.starts] == [
        (50257, 50688, 0.02)
    ]


def test_how_telling_a_first_loss_is_stands_beside_it(told: Told) -> None:
    first = math.log(128256) + 4096 * 0.008**2 / 2
    stated = of("primus", **LLAMA, parallelism__tensor_parallel_size=1)
    found = told(losses(first, 3.0), losses(12.4, 3.0), stated)["untrained_loss", "target"]
    assert found.values["model"].share == pytest.approx(0.009, abs=5e-4)
    assert "0.9% of all first losses between ln 32,000 and 13 would fit by chance" in found.evidence


@pytest.mark.parametrize(
    ("declared", "own", "doubted"),
    [
        (Declared(facts("unknown"), 128256, 4096, 1, None), 0.03, 0.1),
        (Declared(facts("nemo"), 128256, 4096, 4, None), 0.02, 0.03),
        (Declared(facts("primus"), 128256, 4096, 1, None), 0.02, 0.02),
        (Declared(facts("megatron"), None, 4096, None, None), 0.05, 0.05),
    ],
)
def test_a_first_loss_of_chance_is_seldom_explained(declared: Declared, own: float, doubted: float) -> None:
    chance = random.Random(1)
    drawn = [chance.uniform(10.3, 13.0) for _ in range(4000)]
    starts, mock = own_starts(declared), mock_starts(declared)
    assert sum(bool(fitting(starts, loss)) for loss in drawn) / len(drawn) <= own
    assert sum(bool(fitting([*starts, *mock], loss)) for loss in drawn) / len(drawn) <= doubted
    assert share_that_fits([*starts, *mock]) <= 1.1 * doubted


def test_with_nothing_declared_a_first_loss_tells_nothing(told: Told) -> None:
    found = told(losses(11.2, 3.0), losses(11.9, 3.0))
    assert not any(code == "untrained_loss" for code, _ in found)


def test_a_seed_that_nemo_overwrites_is_said(told: Told) -> None:
    curve = losses(12.0, 3.0)
    found = told(curve, curve, of("nemo", training__seed=42), of("megatron", training__seed=42))
    assert found["seed", "target"].values["taken"] == 1234
    assert ("seed", "baseline") not in found


def test_what_nobody_set_is_told_with_both_defaults(told: Told) -> None:
    curve = losses(12.0, 3.0)
    found = told(curve, curve, of("megatron"), of("nemo"))["silent_default", "both"]
    assert LeftOpen("training.adam_beta2", (0.999, 0.95), ("megatron", "nemo")) in found.values["unset"]
    assert LeftOpen("training.hidden_dropout", (0.1, 0.0), ("megatron", "nemo")) in found.values["unset"]
    assert "training.adam_beta2: 0.999 in megatron, 0.95 in nemo" in found.evidence


def test_what_one_side_set_is_held_against_the_other_s_default(told: Told) -> None:
    curve = losses(12.0, 3.0)
    stated = of("nemo", training__adam_beta2=0.95, training__weight_decay=0.01, training__clip_grad_norm=1.0)
    found = told(curve, curve, stated, of("megatron"))["silent_default", "both"]
    sources = (SET, Source(Origin.FRAMEWORK, "megatron"))
    assert DefaultOfOne("training.adam_beta2", (0.95, 0.999), sources) in found.values["one_sided"]
    assert not {"training.weight_decay", "training.clip_grad_norm"} & set(found.keys)
    words = "training.adam_beta2: 0.95 on target (set), 0.999 on baseline (default of megatron)"
    assert words in found.evidence


def test_a_default_that_follows_from_another_key_is_reckoned(told: Told) -> None:
    curve = losses(12.0, 3.0)
    stated = of("megatron", training__learning_rate=3e-4, training__min_learning_rate=3e-5)
    assert "training.min_learning_rate" not in told(curve, curve, stated, of("nemo"))["silent_default", "both"].keys
    other = of("megatron", training__learning_rate=3e-4, training__min_learning_rate=0.0)
    found = told(curve, curve, other, of("nemo"))["silent_default", "both"]
    rate = (0.0, ShareOf("training.learning_rate", 0.1))
    by_nemo = DefaultOfOne("training.min_learning_rate", rate, (SET, Source(Origin.FRAMEWORK, "nemo")))
    assert by_nemo in found.values["one_sided"]


def test_a_default_that_is_another_share_is_reckoned_too(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share is a number of the facts, which nothing looks up by its wording."""
    defaults: Any = facts("nemo").silent_defaults
    monkeypatch.setitem(defaults, "training.min_learning_rate", ShareOf("training.learning_rate", 0.2))
    curve = losses(12.0, 3.0)
    stated = of("megatron", training__learning_rate=3e-4, training__min_learning_rate=6e-5)
    assert "training.min_learning_rate" not in told(curve, curve, stated, of("nemo"))["silent_default", "both"].keys
    other = of("megatron", training__learning_rate=3e-4, training__min_learning_rate=3e-5)
    assert "training.min_learning_rate" in told(curve, curve, other, of("nemo"))["silent_default", "both"].keys


@pytest.mark.parametrize(
    ("ours", "theirs", "key", "values"),
    [
        ("torchtitan", "megatron", "training.adam_beta2", (0.95, 0.999)),
        ("torchtitan", "megatron", "model.tied_embeddings", (False, True)),
        ("torchtitan", "megatron", "the position encoding", ("rotary", "learned")),
        ("megatron-bridge", "nemo", "training.weight_decay", (0.033, 0.1)),
        ("megatron-bridge", "nemo", "data.source", ("counting", "uniform")),
        ("primus", "nemo", "model.norm_epsilon", (1e-6, 1e-5)),
        ("primus", "nemo", "data.eod_mask_loss", ("masked in its examples", "counted")),
        ("maxtext", "torchtitan", "model.rope_theta", (10000, 500000)),
        ("maxtext", "torchtitan", "model.rope_scaling", (None, PRESETS["llama3.1-8b"]["rope_scaling"])),
    ],
)
def test_every_framework_has_its_defaults(
    told: Told, ours: str, theirs: str, key: str, values: tuple[Any, Any]
) -> None:
    curve = losses(12.0, 3.0)
    found = told(curve, curve, of(ours), of(theirs))["silent_default", "both"]
    assert LeftOpen(key, values, (ours, theirs)) in found.values["unset"]


def test_what_has_no_key_and_differs_by_default_is_listed_for_the_contract(told: Told) -> None:
    def unstated(ours: str, theirs: str) -> list[LeftOpen]:
        curve = losses(12.0, 3.0)
        told(curve, curve, of(ours, **LLAMA), of(theirs, **LLAMA))
        runs = [read_subject(records.find(name, Path("runs"))) for name in ("target", "baseline")]
        sides = side("target", (runs[0],)), side("baseline", (runs[1],))
        return unstated_differences(Pair(*sides, contract(*sides)))

    assert unstated("megatron", "primus") == [
        LeftOpen("training.hidden_dropout", (0.1, 0.0), ("megatron", "primus")),
        LeftOpen("data.eod_mask_loss", ("counted", "masked in its examples"), ("megatron", "primus")),
    ]
    assert unstated("nemo", "torchtitan") == []
    assert unstated("megatron", "megatron") == []


@pytest.mark.parametrize(
    ("planned", "expected"),
    [
        (("target", "baseline"), []),
        (
            ("target",),
            [LeftOpen("data.eod_mask_loss", ("counted", "masked in its examples"), ("megatron", "primus"))],
        ),
    ],
)
def test_what_every_plan_sets_is_no_framework_default(
    told: Told, planned: Sequence[str], expected: list[LeftOpen]
) -> None:
    curve = losses(12.0, 3.0)
    told(curve, curve, of("megatron", **LLAMA), of("primus", **LLAMA))
    for name in planned:  # as a run of our own plan records it
        manifest = Path("runs") / name / "run.json"
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "ingested": None}))
    runs = [read_subject(records.find(name, Path("runs"))) for name in ("target", "baseline")]
    sides = side("target", (runs[0],)), side("baseline", (runs[1],))
    assert unstated_differences(Pair(*sides, contract(*sides))) == expected


def test_a_declared_model_is_left_to_no_default(told: Told) -> None:
    curve = losses(12.0, 3.0)
    found = told(curve, curve, of("megatron", **LLAMA), of("nemo", **LLAMA))["silent_default", "both"]
    assert all(key.startswith(("training.", "data.")) for key in found.keys)


def rated(warmup: int, shift: int, factor: float = 1.0) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def edit(step: dict[str, Any]) -> dict[str, Any]:
        return {**step, "learning_rate": factor * 1e-3 * min(1.0, max(0, step["step"] - shift) / warmup)}

    return edit


def test_a_warm_up_off_by_one_is_recognised(recorded: Any) -> None:
    recorded("again").edit_steps(rated(20, 1)), recorded("baseline").edit_steps(rated(20, 0))
    found = diagnoses("again", "baseline")["learning_rate", "both"]
    assert holds(found.values, Pattern.SHIFTED_WARM_UP, early="baseline", late="again")
    assert "learning rates of again follow those of baseline one step later" in found.message


def test_a_constant_factor_of_the_rate_is_told(recorded: Any) -> None:
    recorded("again").edit_steps(rated(20, 0, 1.5)), recorded("baseline").edit_steps(rated(20, 0))
    found = diagnoses("again", "baseline")["learning_rate", "both"]
    assert holds(found.values, Pattern.FACTOR, ratio=pytest.approx(1.5))


@pytest.mark.parametrize("decays", [False, True])
def test_nemo_s_warm_up_is_one_step_ahead_of_megatron_s(told: Told, decays: bool) -> None:
    def later(at: int) -> float:
        return 3e-4 * (0.55 + 0.45 * math.cos(math.pi * (at - 50) / 250) if decays and at > 50 else 1.0)

    nemo = [later(at) * min(1.0, (at + 1) / 51) for at in range(300)]
    megatron = [later(at) * min(1.0, at / 50) for at in range(300)]
    curve = losses(12.0, 3.0, 300)
    found = told(curve, curve, of("nemo"), of("megatron"), (nemo, megatron))["learning_rate", "both"]
    assert holds(found.values, Pattern.WARM_UP, early="target", late="baseline", first=1, other=0)


def test_a_longer_warm_up_is_not_called_off_by_one(told: Told) -> None:
    ours, theirs = ([3e-4 * min(1.0, (at + 1) / warmup) for at in range(120)] for warmup in (20, 21))
    assert holds(differ(told, ours, theirs), Pattern.OTHER, step=1)


def differ(told: Told, target: list[float], baseline: list[float]) -> Mapping[str, Any]:
    """What is told of two schedules that differ."""
    curve = losses(12.0, 3.0, len(target))
    return told(curve, curve, rates=(target, baseline))["learning_rate", "both"].values


def holds(values: Mapping[str, Any], pattern: Pattern, **details: Any) -> bool:
    return values["pattern"] == pattern and all(values[name] == detail for name, detail in details.items())


def test_a_drop_one_step_later_is_no_warm_up(told: Told) -> None:
    ours, theirs = ([3e-4] * drop + [3e-5] * (120 - drop) for drop in (60, 61))
    assert holds(differ(told, ours, theirs), Pattern.SHIFTED, early="target")
    low, lower = ([3e-5] * rise + [3e-4] * (120 - rise) for rise in (60, 61))
    assert holds(differ(told, low, lower), Pattern.SHIFTED, early="target")


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(("row", "rate", "step"), [(-1, 0.0, 120), (0, 1.5e-4, 1)])
def test_one_odd_rate_at_an_end_is_no_shift(told: Told, row: int, rate: float, step: int, swap: bool) -> None:
    odd, even = [3e-4] * 120, [3e-4] * 120
    odd[row] = rate
    assert holds(differ(told, *((even, odd) if swap else (odd, even))), Pattern.OTHER, step=step)


def test_a_shift_hides_no_end_that_differs(told: Told) -> None:
    early, late = ([3e-4 * min(1.0, max(0, at - shift) / 20) for at in range(120)] for shift in (0, 1))
    assert holds(differ(told, late, early), Pattern.SHIFTED_WARM_UP, early="baseline")
    early[-1] = 0.0
    assert holds(differ(told, late, early), Pattern.OTHER)
    early[-1], late[0] = early[-2], 3e-4
    assert holds(differ(told, late, early), Pattern.OTHER)


def test_a_warm_up_off_by_one_hides_no_other_decay(told: Told) -> None:
    nemo = [3e-4 * min(1.0, (at + 1) / 51) for at in range(300)]
    megatron = [3e-4 * min(1.0, at / 50) * min(1.0, math.exp((200 - at) / 40)) for at in range(300)]
    warm_up = {"early": "target", "late": "baseline", "first": 1, "other": 0}
    assert holds(differ(told, nemo, megatron), Pattern.WARM_UP_AND_DECAY, **warm_up, parted=203)


def test_decays_a_step_apart_are_no_second_difference(told: Told) -> None:
    nemo = [3e-4 * min((at + 1) / 51, (301 - at) / 251, 1.0) for at in range(300)]
    megatron = [3e-4 * min(at / 50, (300 - at) / 250, 1.0) for at in range(300)]
    assert holds(differ(told, nemo, megatron), Pattern.WARM_UP, early="target", first=1, other=0)


def test_rates_of_every_tenth_step_are_compared_at_the_steps_both_tell(told: Told) -> None:
    rate, curve = [3e-4 * 0.99**at for at in range(300)], losses(12.0, 3.0, 300)
    found = told(curve, curve, rates=([2 * one for one in rate], rate), every=10)
    assert holds(found["learning_rate", "both"].values, Pattern.FACTOR, ratio=pytest.approx(2))


def test_schedules_that_part_late_are_told(told: Told) -> None:
    ours, theirs = ([3e-4 * math.exp(-max(0, at - 250) / tau) for at in range(400)] for tau in (100, 400))
    assert holds(differ(told, ours, theirs), Pattern.OTHER, step=252)


def scattered(curve: Sequence[float], share: float, seed: int = 3) -> list[float]:
    """Off by chance, more and more over the first hundred steps."""
    chance = random.Random(seed)
    return [loss * (1 + share * min(1.0, at / 100) * chance.gauss(0, 1)) for at, loss in enumerate(curve)]


def look(found: Diagnoses) -> Look:
    """What two curves that part look like."""
    return found["parting", "both"].values["look"]


def test_where_curves_part_is_told_by_how_they_do(told: Told) -> None:
    curve = losses(5.0, 3.0, 300)
    drift = [loss * (1 + 0.013 * math.sin(math.pi * max(0, at - 30) / 330)) for at, loss in enumerate(curve)]
    assert look(told(drift, curve)) == Look.DRIFT
    crossing = [loss * (1 + 0.01 * (max(0, at - 10) / 290 - 0.2) * (at > 10)) for at, loss in enumerate(curve)]
    assert look(told(crossing, curve)) == Look.DRIFT
    spike = [*drift[:150], 900.0, *drift[151:]]
    assert look(told(spike, curve)) == Look.DRIFT
    assert look(told(scattered(curve, 0.002), curve)) == Look.ROUNDING
    assert look(told(scattered(curve, 0.03), curve)) == Look.UNEXPLAINED
    assert look(told([loss * 1.01 for loss in scattered(curve, 0.01)], curve)) == Look.OTHER_START


def test_digits_that_were_not_printed_are_no_difference(told: Told) -> None:
    curve = losses(9.0, 3.0, 300)
    for few in ([round(loss, 2) for loss in curve], [float(f"{loss:.3g}") for loss in curve]):
        assert ("parting", "both") not in told(few, [round(loss, 4) for loss in curve])


def test_equal_runs_have_nothing_to_explain(cli: Any, recorded: Any) -> None:
    recorded("baseline"), recorded("baseline", "same")
    assert cli("compare", "same", "baseline", "--json").document["diagnoses"] == []


@pytest.mark.parametrize(
    ("size", "other"),
    [(32768, ("Llama 2's", 32768)), (129280, ("Llama 3's", 129024))],
)
def test_vocabularies_that_a_plateau_does_not_tell_apart_are_both_named(
    told: Told, size: int, other: tuple[str, int]
) -> None:
    end = math.log(size)
    found = told(losses(end + 0.8, end), losses(end + 0.8, 3.0))["uniform_data", "target"]
    first, second = found.values["vocabularies"]
    assert (first.size, (second.owner, second.padded)) == (size, other)
    assert any(f"(or over {second.words}, which have almost the same loss)" in text for text in found.evidence)
    declared = of("megatron", parallelism__tensor_parallel_size=1)
    found = told(losses(end + 0.8, end), losses(end + 0.8, 3.0), declared)["uniform_data", "target"]
    assert [vocabulary.size for vocabulary in found.values["vocabularies"]] == [size]


def test_padding_by_a_size_that_nobody_declared_is_no_fact(told: Told) -> None:
    end = math.log(50688)
    for stated, words in (([], "would pad"), (of("nemo", parallelism__tensor_parallel_size=4), "pads")):
        found = told(losses(end + 0.8, end), losses(end + 0.8, 3.0), stated)["uniform_data", "target"]
        assert any(f"tensor-parallel size 4 {words} it to a multiple of 512" in one for one in found.evidence)


def test_what_falls_as_counting_does_may_be_a_batch_by_heart_where_the_framework_is_not_known(told: Told) -> None:
    falls = [11.2 * math.exp(-at / 7) for at in range(45)]
    unknown = told(falls, losses(11.2, 3.0, 45))["counting_data", "target"].message
    assert "trained on one memorized batch or Megatron's counting mock data" in unknown
    known = told(falls, losses(11.2, 3.0, 45), of("primus"))["counting_data", "target"].message
    assert "target trained on Megatron's counting mock data" in known


def test_a_first_loss_of_a_declared_model_is_solved_for_its_init_std(told: Told) -> None:
    first = math.log(102400) + 5120 * 0.006**2 / 2
    known = {"model__vocab_size": 102400, "model__hidden_size": 5120, "parallelism__tensor_parallel_size": 1}
    found = told(losses(first, 3.0), losses(12.4, 3.0), of("megatron", **known))["untrained_loss", "target"]
    assert found.values["model"].std == pytest.approx(0.006, abs=5e-5)
    stated = of("megatron", **known, training__init_method_std=0.02)
    assert ("untrained_loss", "target") not in told(losses(first, 3.0), losses(12.4, 3.0), stated)


def test_primus_vocabulary_without_a_tokenizer_is_no_mistral_s(told: Told) -> None:
    first = math.log(131072) + 4096 * 0.008**2 / 2
    stated = of("primus", **LLAMA, parallelism__tensor_parallel_size=1)
    found = told(losses(first, 3.0), losses(12.4, 3.0), stated)["untrained_loss", "target"]
    vocabulary = found.values["model"].starts[0].vocabulary
    assert (vocabulary.owner, vocabulary.size) == ("NullTokenizer's", 131072)


@pytest.mark.parametrize("warm", [40, 49, 50, 51])
def test_a_warm_up_off_by_one_is_found_however_long_it_is(told: Told, warm: int) -> None:
    def later(at: int) -> float:
        return 3e-4 * (0.5 + 0.5 * math.cos(math.pi * max(at - warm, 0) / (300 - warm)))

    ahead = [3e-4 * (at + 1) / warm if at < warm else later(at) for at in range(300)]
    behind = [3e-4 * at / warm if at < warm else later(at) for at in range(300)]
    values = differ(told, ahead, behind)
    assert values["pattern"] in (Pattern.WARM_UP, Pattern.WARM_UP_AND_DECAY)
    assert (values["early"], values["first"], values["other"]) == ("target", 1, 0)
