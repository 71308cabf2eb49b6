"""What a log states beside the keys of an experiment: experts, dropout, masks, optimizers, seeds and rates."""

import gzip
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
    """runs/SIDE: a run of each seed, by a Megatron whose dump says these things."""

    def call(side: str, seeds: Sequence[int] = (1, 2, 3), faster: float = 1.0, rate: float = 3e-4, **said: str) -> None:
        for seed in seeds:
            chance = np.random.default_rng(seed)
            loss = 10.575 * (1 + np.arange(1, STEPS + 1) / 8) ** -0.28 * np.exp(chance.normal(0, 0.001, STEPS))
            loss[0] = 10.575
            own = np.random.default_rng([seed, *map(ord, side)])
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
            log = tmp_path / f"{side}-{seed}.log"
            log.write_text("\n".join([*lines, "[after training is done]"]) + "\n")
            place = ("--out", f"runs/{side}", "--name", f"s{seed}", "--gpu", "h200", "--gpus", "1")
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
    assert "model.num_experts is not known of the baseline" in found["reasons"]


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
