"""Every reason that refuses an answer, or leaves it unknown, has a next step that leads on."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from steelyard import comparison
from steelyard.comparison import acceptance, codes
from steelyard.comparison.comparison import ByMetric, Comparison
from steelyard.comparison.contract import Ruling
from steelyard.comparison.convergence import LEFT_OPEN
from steelyard.comparison.next_step import NextStep, next_step
from steelyard.comparison.smoothing import SMOOTHED
from steelyard.experiment.policy import Metric
from steelyard.reasons import Code, Effect, Reason

SOURCE = Path(comparison.__file__).parent
NO_FIGURE = (codes.FIGURE_MISSING, codes.TIMES_MISSING)
KEYS = {
    codes.SETTING_DIFFERS: ("training.recompute",),
    codes.SETTINGS_UNKNOWN: ("training.sequence_length", "measurement.memory_kind"),
    codes.STEP_TOKENS_DIFFER: ("training.tokens_per_step",),
    codes.BATCHES_DIFFER: ("training.tokens_per_step",),
    codes.LEARNING_RATES_DIFFER: ("training.learning_rate",),
    codes.SETTING_CHANGED: ("precision.fp8",),
}
VALUES = {codes.SETTINGS_UNKNOWN: {"sides": "again", "keys": KEYS[codes.SETTINGS_UNKNOWN]}}


ELSEWHERE = {"LEFT_OPEN": LEFT_OPEN, "SMOOTHED": SMOOTHED}


def refusing() -> Iterator[Code]:
    """The codes that the comparison gives with another effect than a caveat."""
    for path in SOURCE.glob("*.py"):
        for name, effect in re.findall(r"because\(\s*(?:codes\.)?([A-Z_]+),\s*([\w.]+)", path.read_text()):
            if not effect.endswith("CAVEAT"):
                yield ELSEWHERE.get(name) or getattr(codes, name)
    text = (SOURCE / "contract.py").read_text()
    for line in re.findall(r"code = (codes\..*)", text):
        yield from (getattr(codes, name) for name in re.findall(r"codes\.([A-Z_]+)", line))
    yield codes.CHECK_FAILED_MATCHED


CODES = sorted({code.name: code for code in refusing()}.items())
CAVEATS = {codes.CHECK_FAILED, codes.CHECK_UNKNOWN}
"""These share a line of code with reasons that refuse."""


@pytest.fixture
def made(recorded: Any) -> Comparison:
    recorded("again").set("experiment/training/recompute", "full"), recorded("baseline")
    sides = [comparison.load_runs(name.upper(), [name], Path("runs")) for name in ("again", "baseline")]
    return comparison.weigh(*sides, [Metric.THROUGHPUT])


def ruled(made: Comparison, code: Code, effect: Effect) -> Comparison:
    """The same comparison, refused for this reason."""
    ruling = Ruling((Reason(code, VALUES.get(code, {}), effect, "target", KEYS.get(code, ())),))
    return replace(made, comparable=ByMetric({**made.comparable, Metric.THROUGHPUT: ruling}))


def test_the_codes_that_refuse_are_those_that_can_be_accepted_or_lack_a_figure() -> None:
    expected = {*acceptance.ACCEPTABLE, *NO_FIGURE, codes.SETTING_DIFFERS}
    assert {code for _, code in CODES} - CAVEATS == expected


@pytest.mark.parametrize("effect", [Effect.BLOCKS, Effect.UNKNOWN])
@pytest.mark.parametrize(("name", "code"), CODES)
def test_every_code_that_refuses_has_a_next_step_that_works(
    made: Comparison, name: str, code: Code, effect: Effect
) -> None:
    if code in CAVEATS:
        return
    refused = ruled(made, code, effect)
    step = next_step(refused)
    assert step is not None
    assert step.commands or step.words
    if code in NO_FIGURE:
        assert step.words
        return
    accepted = list(accepting(step))
    assert accepted, step
    ruling = acceptance.apply(refused.comparable[Metric.THROUGHPUT], acceptance.parse(accepted))
    assert ruling.holds
    assert {reason.accepted for reason in ruling.reasons} == {"REASON"}


def accepting(step: NextStep) -> Iterator[str]:
    """The values of --accept in its commands."""
    for command in (*step.commands, *step.instead):
        words = shlex.split(command)
        yield from (after for word, after in pairwise(words) if word == "--accept")


def test_only_the_true_times_are_missing_where_the_clock_contradicts_them(cli: Any, recorded: Any) -> None:
    """Accepted, the step times count although timestamps contradict them."""
    for name, share in (("a", 0.6), ("b", 1.0)):
        rows = [
            f"{step},{10 - step / 20:.4f},{(20 + step % 3 / 100) * share:.4f},"
            f"2026-01-20T10:{step // 3:02}:{step % 3 * 20}.{step % 3:02}"
            for step in range(1, 61)
        ]
        Path(f"{name}.csv").write_text("\n".join(["step,loss,step_time_s,time", *rows]) + "\n")
        settings = "model.preset=llama3.1-8b training.global_batch_size=128 training.sequence_length=8192"
        options = [word for setting in settings.split() for word in ("--set", setting)]
        done = cli("ingest", f"{name}.csv", "--name", name, "--gpu", "h100", "--gpus", "8", "--nodes", "1", *options)
        assert done.status == 0, done.err
    asked = ("compare", "a", "b", "--accept", "settings_unknown", "--json")
    refused = cli(*asked)
    assert "clock_contradicts" in {reason["code"] for reason in refused.reasons() if reason["effect"] == "blocks"}
    assert refused.status == 4
    codes_of = {reason["code"] for reason in refused.reasons() if reason["effect"] != "caveat"}
    accepted = cli(*asked, *(word for code in sorted(codes_of - {"figure_missing"}) for word in ("--accept", code)))
    assert accepted.document["throughput_speedup"]["value"] == pytest.approx(1 / 0.6, rel=0.01)


def test_a_run_with_too_few_steps_is_run_longer_or_accepted(cli: Any, recorded: Any) -> None:
    recorded("again").edit_steps(lambda step: step if step["step"] <= 15 else None), recorded("baseline")
    step = cli("compare", "again", "baseline", "--json").document["next"]
    assert step["commands"][0].endswith(" --set training.steps=N")
    assert "--accept too_few_steady_steps=REASON" in step["instead"][0]


def test_a_missing_figure_names_what_it_is_computed_from(cli: Any, recorded: Any) -> None:
    sides = [recorded(name).set("platform/gpu", None).set("platform/gpu_name", None) for name in ("again", "baseline")]
    step = cli("compare", *sides, "--for", "flops", "--json").document["next"]
    assert [missing["option"] for missing in step["missing"]] == [
        "--assume target:platform.gpu=VALUE",
        "--assume baseline:platform.gpu=VALUE",
    ]
    done = cli("compare", *sides, "--for", "flops", "--assume", "both:platform.gpu=h200", "--json")
    assert done.document["flops_utilization"]["value"] == pytest.approx(1.0, abs=0.01)
