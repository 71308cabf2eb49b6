"""The same losses told at two intervals are the same curve, and an evaluation stands where its step ends."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.comparison.curve import LossCurve, on_common_records

EXPERIMENT = """
schema_version: 1
name: tiny
model: {preset: tiny-llama, num_layers: 2, hidden_size: 32, ffn_hidden_size: 64, num_attention_heads: 4,
        num_key_value_heads: 2, head_dim: 8, vocab_size: 50304}
training: {seed: %d, micro_batch_size: 16, global_batch_size: 16, sequence_length: 32, steps: %d, learning_rate: 3e-3,
           min_learning_rate: 3e-4, warmup_steps: 10}
precision: {dtype: bf16}
data: {source: tokens, seed: 7, path: /data/c4}
"""
SEEDS = (1, 2, 3)
Told = Callable[..., str]


def steep(seed: int, steps: int) -> list[float]:
    """A loss that is still falling at its end, by an exponential, with a little noise."""
    noise = np.random.default_rng(seed).normal(0, 0.002, steps)
    return [float((4 + 6.8 * math.exp(-step / 150)) * math.exp(noise[step])) for step in range(steps)]


def power(seed: int, steps: int, slow: float = 1.0) -> list[float]:
    """A loss that falls at once and then ever slower."""
    noise = np.random.default_rng(seed).normal(0, 0.002, steps)
    return [float(10.8 * (1 + step / (8 * slow)) ** -0.28 * math.exp(noise[step])) for step in range(steps)]


def means(losses: list[float], interval: int) -> list[tuple[int, float, int]]:
    """Step, loss and steps covered of each record."""
    ends = range(interval, len(losses) + 1, interval)
    return [(end, float(np.mean(losses[end - interval : end])), interval) for end in ends]


def samples(losses: list[float], interval: int) -> list[tuple[int, float, int]]:
    """One step of every so many."""
    return [(end, losses[end - 1], 1) for end in range(interval, len(losses) + 1, interval)]


@pytest.fixture
def told(cli: Any, tmp_path: Path) -> Told:
    """A side of one run a seed, from the records of each."""

    def make(name: str, records: Callable[[int], list[tuple[int, float, int]]], steps: int) -> str:
        for seed in SEEDS:
            run, config = f"{name}{seed}", tmp_path / f"{name}{seed}.yaml"
            config.write_text(EXPERIMENT % (seed, steps))
            rows = [",".join(map(repr, row)) for row in records(seed)]
            (tmp_path / f"{run}.csv").write_text("\n".join(["step,loss,steps_covered", *rows]) + "\n")
            words = ("--config", config, "--gpu", "h100", "--gpus", "1")
            done = cli("ingest", tmp_path / f"{run}.csv", "--name", run, *words)
            assert done.status == 0, done.err
        return ",".join(f"{name}{seed}" for seed in SEEDS)

    return make


@pytest.fixture
def tiers(cli: Any) -> Callable[..., dict[str, Any]]:
    def make(target: str, baseline: str, *more: str) -> dict[str, Any]:
        done = cli("compare", target, baseline, "--for", "convergence", *more, "--json")
        return {one["tier"]: one for one in json.loads(done.out)["convergence"]["tiers"]}

    return make


@pytest.mark.parametrize(("losses", "steps"), [(steep, 300), (power, 330)])
def test_the_same_losses_at_every_step_and_as_means_of_ten_are_alike(
    told: Told, tiers: Any, losses: Any, steps: int
) -> None:
    every = told("every", lambda seed: means(losses(seed, steps), 1), steps)
    tenth = told("tenth", lambda seed: means(losses(seed, steps), 10), steps)
    found = tiers(every, tenth)
    for name in ("level", "learning_speed"):
        assert (found[name]["status"], found[name]["observed"]) == ("pass", pytest.approx(1, abs=1e-9)), found[name]


@pytest.mark.parametrize(("steps", "status"), [(330, "unknown"), (2100, "pass")])
def test_intervals_of_which_neither_divides_the_other_are_compared_where_they_meet(
    told: Told, tiers: Any, steps: int, status: str
) -> None:
    """Every 35 steps: too seldom in a short run, where what a record's width may do is left open."""
    fifth = told("fifth", lambda seed: means(power(seed, steps), 5), steps)
    seventh = told("seventh", lambda seed: means(power(seed, steps), 7), steps)
    found = tiers(fifth, seventh)
    for name in ("level", "learning_speed"):
        assert found[name]["status"] == status, found
        assert ("the sides recorded different steps" in found[name]["message"]) == (status == "unknown")


@pytest.mark.parametrize("interval", [10, 7])
def test_samples_are_never_said_to_differ_from_means_for_being_samples(told: Told, tiers: Any, interval: int) -> None:
    sampled = told("sampled", lambda seed: samples(power(seed, 420), interval), 420)
    meant = told("meant", lambda seed: means(power(seed, 420), 10), 420)
    assert "fail" not in {one["status"] for one in tiers(sampled, meant).values()}


@pytest.mark.parametrize(("one", "other"), [(1, 10), (5, 7)])
def test_a_run_that_learns_slower_fails_at_whatever_interval(told: Told, tiers: Any, one: int, other: int) -> None:
    slow = told("slow", lambda seed: means(power(seed, 350, slow=1.3), one), 350)
    base = told("base", lambda seed: means(power(seed, 350), other), 350)
    found = tiers(slow, base)
    assert "fail" in (found["level"]["status"], found.get("learning_speed", {}).get("status")), found


def test_spikes_are_counted_in_records_that_both_sides_have(told: Told, tiers: Any) -> None:
    """A spike of one step is one of a hundred records at the one interval, and of ten at the other."""

    def spiked(seed: int) -> list[float]:
        return [loss + 20 * (step % 60 == 55) * (step > 300) for step, loss in enumerate(steep(seed, 900))]

    every = told("every", lambda seed: means(spiked(seed), 1), 900)
    tenth = told("tenth", lambda seed: means(spiked(seed), 10), 900)
    assert tiers(every, tenth)["stability"]["status"] == "pass"


def test_an_evaluation_stands_on_the_tokens_at_the_end_of_its_step(told: Told, tiers: Any) -> None:
    steps = 1000
    sides = {
        interval: told(f"by{interval}-", lambda seed, by=interval: means(power(seed, steps), by), steps)
        for interval in (1, 100)
    }
    for name in (name for side in sides.values() for name in side.split(",")):
        losses = power(int(name[-1]), steps)
        with Path(f"runs/{name}/events.jsonl").open("a") as file:
            for step in range(10, steps + 1, 10):
                event = {"kind": "eval", "message": "", "step": step, "details": {"loss": losses[step - 1]}}
                file.write(json.dumps(event) + "\n")
    found = tiers(sides[100], sides[1], "--target-loss", "4.5")["reference"]
    assert found["status"] != "fail"
    assert found["observed"] == pytest.approx(1, abs=0.01), found


def test_records_are_joined_to_the_shortest_stretches_that_every_curve_fills() -> None:
    def curve(records: list[tuple[int, float, int]]) -> LossCurve:
        step, loss, covered = (np.array(column) for column in zip(*records, strict=True))
        return LossCurve(step, covered, step - (covered - 1) / 2, loss, "steps")

    losses = [float(step) for step in range(1, 71)]
    fifth, seventh = curve(means(losses, 5)), curve(means(losses, 7))
    for found in (one for side in on_common_records([[fifth], [seventh]]) for one in side):
        assert found.step.tolist() == [35, 70]
        assert found.covered.tolist() == [35, 35]
        assert found.loss.tolist() == found.seen.tolist() == [18.0, 53.0]
    every, tenth = curve(means(losses, 1)), curve(samples(losses, 10))
    assert [one.loss.tolist() for (one,) in on_common_records([[every], [tenth]])] == [losses[9::10]] * 2
    gap = curve([one for one in means(losses, 1) if one[0] != 33])
    assert on_common_records([[gap], [curve(means(losses, 10))]])[0][0].step.tolist() == [10, 20, 30, 50, 60, 70]
    assert not len(on_common_records([[tenth], [curve(means(losses, 7))]])[0][0])
