"""Scaling efficiency from one node count to another."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

Make = Callable[..., None]
SPREAD = (1.0, 1.002, 0.999)


def on(run: Any, nodes: int, factor: float, weak: bool) -> None:
    """A recorded run of one GPU as a job over so many nodes, each step of which takes so many times as long."""
    tokens = nodes if weak else 1
    run.set("platform/nodes", nodes).set("platform/world_size", nodes).set("hosts", [f"g{at}" for at in range(nodes)])
    run.set("experiment/parallelism/data_parallel_size", nodes)
    run.set("experiment/training/global_batch_size", 8 * tokens)
    seconds = factor * tokens / nodes

    def scaled(step: dict[str, Any]) -> dict[str, Any]:
        rates = ("tokens_per_s_per_gpu", "tflops_per_gpu", "reported_tokens_per_s_per_gpu")
        return {
            **step,
            "tokens": step["tokens"] * tokens,
            "step_time_s": step["step_time_s"] * seconds,
            **{name: step[name] / factor for name in rates if name in step},
        }

    run.edit_steps(scaled)


@pytest.fixture
def counts(recorded: Any) -> Make:
    """runs/nN: repeats on N nodes."""

    def make(nodes: int, factor: float = 1.0, weak: bool = True, spread: Sequence[float] = SPREAD) -> None:
        for at, one in enumerate(spread):
            on(recorded(to=f"n{nodes}/repeat-{at + 1}"), nodes, factor * one, weak)

    return make


@pytest.mark.parametrize(("weak", "kind"), [(True, "weak"), (False, "strong")])
def test_efficiency_is_the_rate_of_a_gpu_over_that_on_the_fewest(cli: Any, counts: Make, weak: bool, kind: str) -> None:
    counts(1)
    counts(2, 1.25, weak)
    counts(4, 2.0, weak)
    done = cli("runs", "scaling", "n4", "n1", "n2", "--json")
    assert done.status == 0, done.out
    found = done.document
    assert (found["scaling"], found["smallest"]["nodes"], found["smallest"]["tokens_per_step"]) == (kind, 1, 16384)
    assert [(one["nodes"], one["gpus"], len(one["runs"])) for one in found["counts"]] == [(2, 2, 3), (4, 4, 3)]
    assert [one["efficiency"]["value"] for one in found["counts"]] == pytest.approx([0.8, 0.5])
    first = found["counts"][0]["efficiency"]
    assert first["low"] < 0.8 < first["high"]
    assert (first["interval"], first["words"]) == ("runs", "below linear")


def test_linear_within_the_margin_is_equivalent(cli: Any, counts: Make) -> None:
    counts(1)
    counts(2, 1.01)
    done = cli("runs", "scaling", "n1", "n2")
    assert done.status == 0
    assert "weak scaling: 2 nodes reach 99.0% of the throughput per GPU of 1 node" in done.out
    assert "equivalent within 5%" in done.out
    assert "(95% CI 98.7 to 99.4%, 3 and 3 runs)" in done.out


def test_one_run_a_count_is_an_observation(cli: Any, counts: Make) -> None:
    counts(1, spread=(1.0,))
    counts(2, 1.25, spread=(1.0,))
    done = cli("runs", "scaling", "n1", "n2", "--json")
    assert done.status == 5
    efficiency = done.document["counts"][0]["efficiency"]
    assert (efficiency["words"], efficiency["interval"]) == ("single-run observation", "within_run")


def test_two_runs_a_count_have_no_interval(cli: Any, counts: Make) -> None:
    counts(1, spread=SPREAD[:2])
    counts(2, spread=SPREAD[:2])
    done = cli("runs", "scaling", "n1", "n2", "--json")
    efficiency = done.document["counts"][0]["efficiency"]
    assert (done.status, efficiency["low"], efficiency["high"]) == (5, None, None)


def test_what_scaling_does_not_change_refuses_it(cli: Any, counts: Make, recorded: Any) -> None:
    counts(1)
    counts(2)
    for run in sorted(Path("runs/n2").iterdir()):
        text = (run / "run.json").read_text()
        (run / "run.json").write_text(text.replace('"dtype": "bf16"', '"dtype": "fp32"'))
    done = cli("runs", "scaling", "n1", "n2", "--json")
    assert done.status == 4
    (found,) = done.document["counts"]
    assert (found["status"], found["efficiency"]) == ("not_comparable", None)
    assert "precision.dtype differs: fp32 on 2 nodes, bf16 on 1 node" in found["reasons"]
    assert len(found["reason_codes"]) == len(found["reasons"])
    assert found["reason_codes"][0] == "setting_differs"
    shown = cli("runs", "scaling", "n1", "n2").out
    assert "2 nodes: precision.dtype differs: fp32 on 2 nodes" in shown
    assert "not comparable" in shown


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("platform/gpu", "h100", "platform.gpu differs: h100 on 2 nodes, h200 on 1 node"),
        ("framework", "megatron", "platform.framework differs: megatron on 2 nodes, native on 1 node"),
        ("platform/world_size", 16, "GPUs per node differ: 16 on 2 nodes, 1 on 1 node"),
    ],
)
def test_another_platform_is_no_scaling(
    cli: Any, counts: Make, recorded: Any, key: str, value: Any, reason: str
) -> None:
    counts(1, spread=(1.0,))
    run = recorded(to="two")
    on(run, 2, 1.0, weak=True)
    run.set(key, value)
    done = cli("runs", "scaling", "n1", "two", "--json")
    assert done.status == 4
    assert reason in done.document["counts"][0]["reasons"]


def test_a_batch_that_grows_otherwise_is_neither_weak_nor_strong(cli: Any, counts: Make, recorded: Any) -> None:
    counts(1, spread=(1.0,))
    run = recorded(to="two")
    on(run, 2, 1.0, weak=True)
    run.edit_steps(lambda step: {**step, "tokens": step["tokens"] * 2})
    done = cli("runs", "scaling", "n1", "two", "--json")
    assert (done.status, done.document["scaling"]) == (4, None)
    assert "scaling_neither" in done.document["counts"][0]["reason_codes"]


def test_layout_and_rates_of_learning_do_not_refuse_it(cli: Any, counts: Make, recorded: Any) -> None:
    counts(1, spread=(1.0,))
    run = recorded(to="two")
    on(run, 2, 1.0, weak=True)
    run.set("experiment/training/learning_rate", 6e-4).set("experiment/training/micro_batch_size", 1)
    (found,) = cli("runs", "scaling", "n1", "two", "--json").document["counts"]
    assert found["status"] == "qualified"
    assert any("training.micro_batch_size differs" in reason for reason in found["reasons"])
    assert not any("learning_rate" in reason for reason in found["reasons"])


def test_runs_on_one_count_are_no_scaling_and_must_be_one_job(cli: Any, counts: Make, recorded: Any) -> None:
    counts(2)
    assert cli("runs", "scaling", "n2").status == 2
    counts(1)
    on(recorded(to="n2/z"), 2, 1.0, weak=False)
    done = cli("runs", "scaling", "n1", "n2", "--json")
    assert done.status == 2
    assert "on 2 nodes: training.tokens_per_step differs: 32,768 in repeat-1" in done.document["error"]["message"]


def test_a_run_of_unknown_size_is_named(cli: Any, counts: Make, recorded: Any) -> None:
    counts(1)
    recorded(to="lost").slower(1.001).set("platform/nodes", None)
    done = cli("runs", "scaling", "n1", "lost", "--json")
    assert done.status == 2
    assert "runs/lost does not record its number of nodes" in done.document["error"]["message"]


def halved(step: dict[str, Any]) -> dict[str, Any]:
    """Every other step with half the tokens in half the time."""
    share = 1 + step["step"] % 2
    return {**step, "tokens": step["tokens"] // share, "step_time_s": step["step_time_s"] / share}


def test_tokens_of_a_step_that_one_run_does_not_tell_are_not_known_of_the_count(
    cli: Any, counts: Make, recorded: Any
) -> None:
    counts(1)
    counts(2)
    run = recorded(to="n2/z")
    on(run, 2, 1.003, weak=True)
    run.edit_steps(halved)
    done = cli("runs", "scaling", "n1", "n2", "--json")
    (found,) = done.document["counts"]
    assert (done.status, found["tokens_per_step"], found["scaling"], found["efficiency"]) == (5, None, None, None)
    assert "scaling_unknown" in found["reason_codes"]


def test_one_run_on_two_counts_is_refused(cli: Any, counts: Make, recorded: Any) -> None:
    counts(1)
    recorded(to="two").set("platform/nodes", 2).set("platform/world_size", 2)
    done = cli("runs", "scaling", "n1", "two", "--json")
    assert done.status == 2
    assert "runs/n1/repeat-1 and runs/two have the same record" in done.document["error"]["message"]
