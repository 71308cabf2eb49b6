"""Causes are told from evidence, and only from evidence."""

import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

Told = Callable[..., dict[tuple[str, str], dict[str, Any]]]


def losses(first: float, last: float, count: int = 120) -> list[float]:
    """Down from one to the other, with a little noise that is always the same."""
    return [last + (first - last) * math.exp(-at / 15) + 1e-4 * math.sin(7.3 * at) * last for at in range(count)]


@pytest.fixture
def told(cli: Any, tmp_path: Path) -> Told:
    """What is said of two curves with what is stated of them."""

    def tell(
        target: Sequence[float], baseline: Sequence[float], ours: Sequence[str] = (), theirs: Sequence[str] = ()
    ) -> Any:
        for name, values, stated in (("target", target, ours), ("baseline", baseline, theirs)):
            rows = [f"{step},{loss!r}" for step, loss in enumerate(values, 1)]
            (tmp_path / f"{name}.csv").write_text("\n".join(["step,loss", *rows]) + "\n")
            shutil.rmtree(tmp_path / "runs" / name, ignore_errors=True)
            made = cli("ingest", tmp_path / f"{name}.csv", "--name", name, *stated)
            assert made.status == 0, made.err
        found = cli("compare", "target", "baseline", "--for", "convergence", "--json").document["diagnoses"]
        return {(one["code"], one["side"]): one for one in found}

    return tell


def of(framework: str, **settings: Any) -> list[str]:
    words = [word for key, value in settings.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
    return ["--framework", framework, *words]


@pytest.mark.parametrize(
    ("end", "tensor", "words"),
    [
        (math.log(128256), 1, "Llama 3's vocabulary of 128,256"),
        (math.log(128512), 4, "Llama 3's vocabulary padded to 128,512"),
        (math.log(32000), 1, "Llama 2's vocabulary of 32,000"),
    ],
)
def test_a_plateau_at_a_vocabulary_is_uniform_data(told: Told, end: float, tensor: int, words: str) -> None:
    stated = of("megatron", parallelism__tensor_parallel_size=tensor)
    found = told(losses(end + 0.8, end), losses(end + 0.8, 3.0), stated, of("nemo"))
    assert words in found["uniform_data", "target"]["message"]
    assert ("uniform_data", "baseline") not in found


def test_text_that_stops_at_such_a_loss_is_not_called_uniform(told: Told) -> None:
    end = math.log(32000)
    found = told(losses(end + 0.8, end), losses(11.0, 3.0), of("megatron", data__source="tokens", data__path="corpus"))
    assert not any(code == "uniform_data" for code, _ in found)


def test_a_curve_that_learnt_much_is_not_uniform_wherever_it_ends(told: Told) -> None:
    found = told(losses(16.0, math.log(32000)), losses(11.0, 3.0))
    assert not any(code == "uniform_data" for code, _ in found)


def test_below_the_counting_floor_data_is_degenerate(told: Told) -> None:
    found = told(losses(11.9, 0.0042, 400), losses(11.9, 0.0009, 400), of("primus"), of("megatron"))
    assert "counting mock data" in found["counting_data", "target"]["message"]
    assert "degenerate" in found["degenerate_data", "baseline"]["message"]


def test_maxtext_s_synthetic_batch_is_learnt_by_heart(told: Told) -> None:
    found = told(losses(12.2, 0.02), losses(12.2, 3.0), of("maxtext"), of("megatron"))
    assert "by heart" in found["fixed_batch", "target"]["message"]
    assert ("counting_data", "target") not in found


def test_the_first_loss_has_several_solutions_until_something_is_declared(told: Told) -> None:
    first = math.log(50304) + 4096 * 0.02**2 / 2
    open_, declared = (
        told(losses(first, 3.0), losses(12.581, 3.0), stated, of("nemo", model__preset="llama3.1-8b"))[
            "untrained_loss", "target"
        ]
        for stated in (
            of("megatron", model__hidden_size=4096),
            of("nemo", model__hidden_size=4096, parallelism__tensor_parallel_size=1, training__init_method_std=0.02),
        )
    )
    assert "models:" in open_["message"]
    assert "padded to 50,304 with an init std of 0.02" in declared["message"]


def test_a_seed_that_nemo_overwrites_is_said(told: Told) -> None:
    curve = losses(12.0, 3.0)
    found = told(curve, curve, of("nemo", training__seed=42), of("megatron", training__seed=42))
    assert "sets 1234 itself" in found["seed", "target"]["message"]
    assert ("seed", "baseline") not in found


def test_what_nobody_set_is_told_with_both_defaults(told: Told) -> None:
    curve = losses(12.0, 3.0)
    message = told(curve, curve, of("megatron"), of("nemo"))["silent_default", "both"]["message"]
    assert "training.adam_beta2 is 0.999 in megatron and 0.95 in nemo" in message
    assert "dropout is 0.1 in megatron and 0.0 in nemo" in message


def rated(warmup: int, shift: int, factor: float = 1.0) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def edit(step: dict[str, Any]) -> dict[str, Any]:
        return {**step, "learning_rate": factor * 1e-3 * min(1.0, max(0, step["step"] - shift) / warmup)}

    return edit


def test_a_warm_up_off_by_one_is_recognised(cli: Any, recorded: Any) -> None:
    recorded("again").edit_steps(rated(20, 1)), recorded("baseline").edit_steps(rated(20, 0))
    found = {one["code"]: one for one in cli("compare", "again", "baseline", "--json").document["diagnoses"]}
    assert "the target's learning rates are the baseline's one step later" in found["learning_rate"]["message"]


def test_a_constant_factor_of_the_rate_is_told(cli: Any, recorded: Any) -> None:
    recorded("again").edit_steps(rated(20, 0, 1.5)), recorded("baseline").edit_steps(rated(20, 0))
    found = {one["code"]: one for one in cli("compare", "again", "baseline", "--json").document["diagnoses"]}
    assert "1.5 times the baseline's at every step" in found["learning_rate"]["message"]


def test_equal_runs_have_nothing_to_explain(cli: Any, recorded: Any) -> None:
    recorded("baseline"), recorded("baseline", "same")
    assert cli("compare", "same", "baseline", "--json").document["diagnoses"] == []
