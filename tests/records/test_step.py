"""Steps as lines of strict JSON."""

import json
import math

from steelyard.records import Event, Evidence, Step
from steelyard.records.step import event_of, step_of, to_line


def strict(text: bytes) -> dict[str, object]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_a_nonfinite_value_is_null_and_named() -> None:
    step = Step(step=3, loss=math.nan, grad_norm=math.inf, learning_rate=-math.inf, tokens=8)
    content = strict(to_line(step))
    assert content["loss"] is None
    assert content["nonfinite"] == {"loss": "NaN", "grad_norm": "Infinity", "learning_rate": "-Infinity"}
    assert step.nonfinite() == ("loss", "grad_norm", "learning_rate")


def test_a_value_the_source_did_not_give_is_absent_and_never_zero() -> None:
    content = strict(to_line(Step(step=1, loss=2.5)))
    assert set(content) == {"step", "steps_covered", "loss", "flags"}


def test_a_step_survives_the_round_trip_with_its_nan() -> None:
    step = Step(step=7, loss=math.nan, grad_norm=1.25, tokens=64, source=Evidence("logs/node0.log", 9), flags=("eval",))
    back = step_of(strict(to_line(step)))
    assert math.isnan(back.loss or 0.0)
    assert back.source == step.source
    assert (back.step, back.grad_norm, back.tokens, back.flags) == (7, 1.25, 64, ("eval",))


def test_an_event_survives_the_round_trip() -> None:
    event = Event(kind="oom", message="out", step=4, source=Evidence("logs/node0.log", 2), details={"torch": "2.13"})
    assert event_of(strict(to_line(event))) == event


def test_rates_are_tokens_over_time_over_gpus() -> None:
    step = Step(step=1, tokens=8192, step_time_s=0.5).derived(world_size=4, flops_per_token=1e9)
    assert step.tokens_per_s_per_gpu == 4096.0
    assert step.tflops_per_gpu == 4.096


def test_no_rate_is_made_up_where_time_is_missing_or_absurd() -> None:
    for seconds in (None, 0.0, math.nan):
        assert Step(step=1, tokens=8, step_time_s=seconds).derived(1, 1e9).tokens_per_s_per_gpu is None
