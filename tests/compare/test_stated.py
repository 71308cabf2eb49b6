"""What a log states beside the keys of an experiment: experts, dropout, masks, optimizers, seeds and rates."""

import gzip
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard import records
from steelyard.compare.contract import contract
from steelyard.compare.curve import loss_curves
from steelyard.compare.diagnoses.silent_default import unstated_differences
from steelyard.compare.side import side
from steelyard.compare.tiers import Pair
from steelyard.verdict import read_subject

REAL = Path(__file__).parents[1] / "frameworks/logs/real/megatron_clean_int1.log.gz"
STEPS = 120
BOTH = ("--for", "throughput,convergence")
Make = Callable[..., None]


def dump() -> list[str]:
    """The arguments of a real run."""
    lines = gzip.decompress(REAL.read_bytes()).decode().splitlines()
    return lines[: next(at for at, line in enumerate(lines) if "end of arguments" in line) + 1]


def told(lines: Sequence[str], arguments: dict[str, str]) -> list[str]:
    """The same, with other values."""
    left = dict(arguments)
    changed = []
    for line in lines:
        found = re.match(r"^  ([a-z_0-9]+) \.{2,} ", line)
        changed.append(line[: found.end()] + left.pop(found[1]) if found and found[1] in left else line)
    assert not left, "every argument is in the dump"
    return changed


@pytest.fixture
def make(cli: Any, tmp_path: Path) -> Make:
    """runs/NAME: a run of each seed, by a Megatron whose dump says these things."""

    def call(name: str, seeds: Sequence[int] = (1, 2, 3), faster: float = 1.0, rate: float = 3e-4, **said: str) -> None:
        for seed in seeds:
            chance = np.random.default_rng(seed)
            loss = 10.575 * (1 + np.arange(1, STEPS + 1) / 8) ** -0.28 * np.exp(chance.normal(0, 0.001, STEPS))
            loss[0] = 10.575
            own = np.random.default_rng([seed, *map(ord, name)])
            seconds = 400 / faster * (1 + 0.005 * own.normal()) * np.exp(own.normal(0, 0.01, STEPS))
            arguments = {"seed": str(seed), "train_iters": str(STEPS), "mock_data": "False", "data_path": "['/d/c4']"}
            lines = told(dump(), {**arguments, "log_interval": "1", "global_batch_size": "16", **said})
            lines += [
                f" iteration {at + 1:8d}/{STEPS:8d} | consumed samples: {(at + 1) * 16:12d} | elapsed time per"
                f" iteration (ms): {seconds[at]:.1f} | learning rate: {rate:.6E} | global batch size:    16 | lm loss:"
                f" {loss[at]:.6E} | loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations:   0 |"
                " number of nan iterations:   0 |"
                for at in range(STEPS)
            ]
            log = tmp_path / f"{name}-{seed}.log"
            log.write_text("\n".join([*lines, "[after training is done]"]) + "\n")
            place = ("--out", f"runs/{name}", "--name", f"s{seed}", "--gpu", "h200", "--gpus", "1")
            known = ("data.path=/d/c4", "data.dataset=c4", "data.samples=null")
            done = cli("ingest", log, *place, *(word for one in known for word in ("--set", one)))
            assert done.status == 0, done.err

    return call


def test_a_campaign_over_seeds_of_a_framework_that_has_one_seed(cli: Any, make: Make) -> None:
    make("a")
    make("b", faster=1.3)
    done = cli("compare", "b", "a", *BOTH, "--json")
    assert done.document.get("error") is None
    assert done.document["throughput_speedup"]["words"] == "faster"
    assert done.document["convergence"]["status"] == "equivalent"
    assert done.status == 0
    apart = cli("compare", "runs/a/s1", "runs/b/s2", *BOTH, "--json").document
    assert [one["status"] for one in apart["contract"] if one["key"] == "seed" and one["group"] == "data"] == ["equal"]
    assert apart["convergence"]["status"] != "not_comparable"


@pytest.mark.parametrize(
    ("said", "key", "throughput"),
    [
        ({"num_experts": "8"}, "model.num_experts", "not_comparable"),
        ({"mtp_num_layers": "1"}, "model.mtp_num_layers", "not_comparable"),
        ({"qk_layernorm": "True"}, "model.qk_layernorm", "not_comparable"),
        ({"hidden_dropout": "0.1"}, "training.hidden_dropout", "qualified"),
        ({"attention_dropout": "0.1"}, "training.attention_dropout", "qualified"),
        ({"optimizer": "sgd"}, "training.optimizer", "qualified"),
        ({"eod_mask_loss": "True"}, "data.eod_mask_loss", "comparable"),
        ({"padded_vocab_size": "129024"}, "model.padded_vocab_size", "comparable"),
        ({"lr_decay_style": "WSD"}, "training.schedule", "comparable"),
        ({"use_rope_scaling": "True"}, "model.rope_scaling", "comparable"),
    ],
)
def test_what_logs_state_and_differ_in(cli: Any, make: Make, said: dict[str, str], key: str, throughput: str) -> None:
    plain = {"hidden_dropout": "0.0", "attention_dropout": "0.0", "padded_vocab_size": "128256"}
    make("a", **{**plain, **said})
    make("b", **plain)
    found = cli("compare", "a", "b", *BOTH, "--json").document
    assert found["comparable"]["throughput"]["status"] == throughput
    assert found["comparable"]["convergence"]["status"] == "not_comparable"
    assert any(f"{key} differs" in reason for reason in found["comparable"]["convergence"]["reasons"])
    assert (found["convergence"]["first_failing_tier"], found["convergence"]["status"]) == (
        "contract",
        "not_comparable",
    )


def test_routers_of_equal_experts_that_differ(cli: Any, make: Make) -> None:
    make("a", num_experts="8", moe_router_topk="2")
    make("b", num_experts="8", moe_router_topk="1")
    found = cli("compare", "a", "b", "--json")
    assert found.status == 4
    assert (
        "model.moe_router_topk differs: 2 on the target, 1 on the baseline"
        in found.document["comparable"]["throughput"]["reasons"]
    )


def test_experts_against_a_log_that_says_nothing_of_them_are_not_known(cli: Any, make: Make, tmp_path: Path) -> None:
    make("a", seeds=(1,), num_experts="8")
    make("b", seeds=(2,))
    silent = tmp_path / "runs/b/s2/run.json"
    silent.write_text(re.sub(r'"num_experts": \{[^}]*\},?', "", silent.read_text()))
    found = cli("compare", "runs/a/s1", "runs/b/s2", "--json").document["comparable"]["throughput"]
    assert found["status"] == "unknown"
    assert "model.{num_experts, moe_router_topk} are not known of the baseline" in found["reasons"]


def test_a_schedule_that_ends_with_the_run_said_or_not(cli: Any, make: Make) -> None:
    make("a", lr_decay_iters=str(STEPS))
    make("b", lr_decay_iters="None")
    assert cli("compare", "a", "b", "--for", "convergence", "--json").document["convergence"]["status"] == "equivalent"


def test_rates_that_were_recorded_belie_what_is_declared(cli: Any, make: Make) -> None:
    make("a", rate=3e-4)
    make("b", rate=1.5e-4)
    found = cli("compare", "a", "b", "--for", "convergence", "--json")
    assert found.status == 4
    reasons = found.document["comparable"]["convergence"]["reasons"]
    assert "the learning rate at step 1 is 0.0003 on the target and 0.00015 on the baseline and at 119 more" in reasons


def test_what_a_log_states_is_no_default(cli: Any, make: Make) -> None:
    make("a", seeds=(1,), lr_decay_style="WSD")
    make("b", seeds=(1,))
    told = [one["message"] for one in cli("compare", "a", "b", "--json").document["diagnoses"]]
    assert not any("training.schedule is linear" in message for message in told)
    assert any("training.schedule" in message and "WSD" in message for message in told)


def real(name: str) -> str:
    return gzip.decompress((REAL.parent / f"{name}.log.gz").read_bytes()).decode()


def test_what_maxtext_states(cli: Any, tmp_path: Path) -> None:
    def stated(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
        (tmp_path / "train.log").write_text(text)
        made = json.loads((Path(cli("ingest", "train.log", "--json").document["run"]) / "run.json").read_text())
        return {key: one["value"] for key, one in made["ingested"]["said"].items()}, made["experiment"]

    dense, experiment = stated(real("maxtext_clean"))
    assert (dense["num_experts"], dense["hidden_dropout"], dense["optimizer"]) == (0, 0.0, "adam")
    assert experiment["precision"]["fp8"] is None
    assert "max_position_embeddings" not in experiment["model"]
    text = real("maxtext_moe")
    moe, _ = stated(text)
    assert (moe["num_experts"], moe["moe_router_topk"], moe["moe_ffn_hidden_size"]) == (4, 2, 384)
    off = text.replace("dropout_rate: 0.0", "dropout_rate: 0.1").replace(
        "enable_dropout: True", "enable_dropout: False"
    )
    assert stated(off)[0]["hidden_dropout"] == 0.0
    fp8 = text.replace(
        "Config param quantization: QuantizationType.NONE", "Config param quantization: QuantizationType.FP8"
    )
    assert fp8 != text
    assert stated(fp8)[1]["precision"]["fp8"] == "e4m3"


def test_a_foreign_log_that_does_not_state_its_dropout_is_no_plan_of_ours(
    make: Make, recorded: Any, tmp_path: Path
) -> None:
    make("a", seeds=(1,))
    silent = tmp_path / "runs/a/s1/run.json"
    silent.write_text(re.sub(r'"hidden_dropout": \{[^}]*\},?', "", silent.read_text()))
    subjects = [read_subject(records.load(path)) for path in (tmp_path / "runs/a/s1", recorded("baseline").directory)]
    sides = side("target", (subjects[0],)), side("baseline", (subjects[1],))
    assert unstated_differences(Pair(*sides, contract(*sides))) == ["dropout is 0.1 in megatron and 0.0 in native"]


def test_numbers_are_one_but_for_their_last_digits(cli: Any, recorded: Any) -> None:
    recorded("again").set("experiment/training/min_learning_rate", 3e-5)
    recorded("baseline").set("experiment/training/min_learning_rate", 3e-4 * 0.1)
    found = cli("compare", "again", "baseline", "--json").document["contract"]
    assert next(one["status"] for one in found if one["key"] == "min_learning_rate") == "equal"


def test_seeds_of_a_framework_that_has_one_are_free_against_any(cli: Any, make: Make, recorded: Any) -> None:
    for seed in (1, 2):
        make(f"a{seed}", seeds=(seed,))
        found = cli("compare", f"runs/a{seed}/s{seed}", recorded("baseline", f"b{seed}"), "--json").document["contract"]
        assert next(one["status"] for one in found if (one["group"], one["key"]) == ("data", "seed")) == "equal"


def rates_of(run: Any, rate: Callable[[int], float]) -> Any:
    return run.edit_steps(lambda step: {**step, "learning_rate": rate(step["step"])})


def warm(step: int) -> float:
    return 3e-4 * min(1.0, step / 20)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_every_run_of_a_side_is_held_to_its_recorded_rates(cli: Any, recorded: Any, order: tuple[int, ...]) -> None:
    for at in range(3):
        rates_of(recorded("again", f"t{at}").slower(1 + at / 1000), lambda step, at=at: warm(step) * (10 if at else 1))
        rates_of(recorded("baseline", f"b{at}").slower(1 + at / 1000), warm)
    names = ",".join(f"t{at}" for at in order)
    done = cli("compare", names, "b0,b1,b2", "--for", "convergence", "--json")
    assert done.status == 4
    assert any("the learning rate at step" in one for one in done.document["comparable"]["convergence"]["reasons"])


@pytest.mark.parametrize(
    "printed",
    [lambda step: warm(step + 1), lambda step: round(warm(step), 4), lambda step: 0.99 * warm(step)],
    ids=["a step later", "four decimals", "three digits"],
)
def test_how_rates_are_printed_is_no_other_schedule(cli: Any, recorded: Any, printed: Callable[[int], float]) -> None:
    rates_of(recorded("again"), printed)
    rates_of(recorded("baseline"), warm)
    reasons = cli("compare", "again", "baseline", "--json").document["comparable"]["convergence"]["reasons"]
    assert not [reason for reason in reasons if "the learning rate at step" in reason]


def test_rates_stand_still_where_steps_are_skipped(cli: Any, recorded: Any) -> None:
    rates_of(recorded("again"), lambda step: warm(max(step - 15, 0))).edit_steps(
        lambda step: {**step, "skipped": int(step["step"] <= 15)}
    )
    rates_of(recorded("baseline"), warm)
    reasons = cli("compare", "again", "baseline", "--json").document["comparable"]["convergence"]["reasons"]
    assert not [reason for reason in reasons if "the learning rate at step" in reason]


def test_memory_that_was_read_before_the_first_step_is_no_peak(cli: Any, recorded: Any) -> None:
    for name in ("again", "baseline"):
        recorded(name).edit_steps(lambda step: {**step, "memory_kind": "xla_in_use"})
    done = cli("compare", "again", "baseline", "--for", "memory", "--json")
    assert (done.status, done.document["memory_usage_efficiency"]) == (5, None)


def test_torchtitan_prints_the_loss_of_a_step_and_no_mean(recorded: Any) -> None:
    run = (
        recorded("again")
        .set("framework", "torchtitan")
        .edit_steps(lambda step: {**step, "steps_covered": 10} if step["step"] % 10 == 0 else None)
    )
    curve = loss_curves([[read_subject(records.load(run.directory))]])[0][0]
    assert set(curve.covered) == {1}
    assert curve.seen[0] / 16384 == curve.step[0] == 10
