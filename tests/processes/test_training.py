"""The built-in trainer learns what can be learned, and the same whatever the layout."""

from pathlib import Path
from typing import Any

import pytest

from steelyard import records
from steelyard.records import Step

pytestmark = [pytest.mark.torch, pytest.mark.processes]


def train(cli: Any, name: str, *words: str, config: str = "tiny-llama") -> list[Step]:
    if not Path(f"{config}.yaml").exists():
        assert cli("init", config).status == 0
    done = cli("run", f"{config}.yaml", "--no-check", "--json", "--name", name, *words)
    assert done.status == 0, done.out + done.err
    return list(records.steps(Path(done.document["run"])))


def losses(steps: list[Step]) -> list[float]:
    return [step.loss or 0.0 for step in steps]


def largest_difference(one: list[Step], other: list[Step]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(losses(one), losses(other), strict=True))


@pytest.mark.parametrize("config", ["tiny-llama", "tiny-gpt"])
def test_markov_ends_within_3_percent_of_its_entropy_rate(cli: Any, config: str) -> None:
    cli("init", config)
    floor = cli("plan", f"{config}.yaml", "--json").document["expected"]["loss_floor"]
    found = losses(train(cli, "markov", config=config))
    tail = sum(found[-20:]) / 20
    assert floor * 0.99 < tail < floor * 1.03
    assert found[-1] == pytest.approx(floor, rel=0.03)


def test_uniform_ends_within_half_a_percent_of_ln_v(cli: Any) -> None:
    words = ("--set", "data.source=uniform", "--set", "training.steps=80", "--set", "training.learning_rate=1e-3")
    found = losses(train(cli, "uniform", *words))
    floor = cli("plan", "tiny-llama.yaml", *words, "--json").document["expected"]["loss_floor"]
    assert sum(found[-20:]) / 20 == pytest.approx(floor, rel=0.005)
    assert found[-1] == pytest.approx(floor, rel=0.005)


@pytest.mark.parametrize("ranks", ["1", "2"])
def test_two_runs_of_a_seed_are_bitwise_equal(cli: Any, ranks: str) -> None:
    words = ("--set", "training.steps=20", "--gpus", ranks)
    one, other = train(cli, "one", *words), train(cli, "other", *words)
    assert losses(one) == losses(other)
    assert [step.grad_norm for step in one] == [step.grad_norm for step in other]


def test_accumulation_and_rank_count_agree_over_20_steps(cli: Any) -> None:
    base = ("--set", "training.steps=20", "--set", "training.global_batch_size=32")
    whole = train(cli, "whole", *base, "--set", "training.micro_batch_size=32")
    layouts = {
        "accumulated": ("--set", "training.micro_batch_size=8"),
        "two ranks": ("--set", "training.micro_batch_size=16", "--gpus", "2"),
        "four ranks": ("--set", "training.micro_batch_size=8", "--gpus", "4"),
        "two ranks, optimizer whole": (
            *("--set", "training.micro_batch_size=16", "--gpus", "2"),
            *("--set", "parallelism.distributed_optimizer=false"),
        ),
        "recomputed": ("--set", "training.micro_batch_size=32", "--set", "training.recompute=full"),
    }
    for name, words in layouts.items():
        assert largest_difference(train(cli, name.replace(" ", "-"), *base, *words), whole) < 1e-5, name


@pytest.mark.parametrize("config", ["tiny-llama", "tiny-gpt"])
@pytest.mark.parametrize("std", ["0.02", "0.1"])
def test_the_first_loss_is_within_a_twentieth_of_its_prediction(cli: Any, config: str, std: str) -> None:
    """At 0.1 the initial weights alone add 0.32; the vocabulary is wide enough that tied embeddings do not matter."""
    vocabulary = "128" if std == "0.02" else "4096"
    words = (
        "--set",
        f"training.init_method_std={std}",
        "--set",
        f"model.vocab_size={vocabulary}",
        "--set",
        "training.steps=1",
    )
    (step,) = train(cli, f"first-{std}", *words, config=config)
    predicted = cli("plan", f"{config}.yaml", *words, "--json").document["expected"]["first_loss"]
    assert step.loss == pytest.approx(predicted, abs=0.05)


def test_bf16_follows_fp32(cli: Any) -> None:
    words = ("--set", "training.steps=10", "--set", "training.global_batch_size=16")
    single = train(cli, "single", *words)
    half = train(cli, "half", *words, "--set", "precision.dtype=bf16")
    reduced = train(
        cli, "reduced", *words, "--set", "precision.dtype=bf16", "--set", "precision.grad_reduce_in_fp32=true"
    )
    assert largest_difference(half, single) < 5e-3
    assert largest_difference(reduced, single) < 5e-3
    assert losses(half) != losses(single)
