"""How long a run may take where nobody said so, and that it ends after its last step."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from execute.hosts_here import STEP, OneOfSeveral, planned, with_program
from steelyard import execute, records
from steelyard.errors import InfrastructureError
from steelyard.execute.executor import Limits
from steelyard.execute.recording import Recording
from steelyard.execute.watchdog import Watchdog

HANGS_AT_EXIT = f"import time\nfor step in range(1, 4): print(f'{STEP}', flush=True)\ntime.sleep(600)"


@dataclass
class Steps:
    """What a watch sees of a recording."""

    planned_steps: int
    last_step: int = 0


def watch(steps: Steps, seconds_at_peak: float | None, **limits: Any) -> Watchdog:
    return Watchdog(Limits(**limits), cast("Recording", steps), seconds_at_peak)


def test_the_time_limit_follows_from_the_plan() -> None:
    begins_and_ends = 1800 + 1800
    assert watch(Steps(100), None).time_limit_s == begins_and_ends + 100 * 300
    assert watch(Steps(100), 1000.0).time_limit_s == begins_and_ends + 100 * 1000  # 10 s a step at the peak, at 1 %
    assert watch(Steps(100), None, train=60.0).time_limit_s == 60.0


def test_the_time_limit_grows_with_the_steps_that_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    steps = Steps(1000)
    slow = watch(steps, None)
    for step in range(1, 100):
        now += 400.0
        steps.last_step = step
        slow.steps_may_have_come()
    assert slow.stalled() is None
    assert slow.too_long() is None
    assert slow.time_limit_s == 1800 + 1800 + 1000 * 4000


def test_a_program_that_does_not_exit_is_overdue_though_it_goes_on_printing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    steps = Steps(3)
    watching = watch(steps, None, exit=100.0)
    for step in range(1, 20):
        now += 10.0
        steps.last_step = step
        watching.steps_may_have_come()
    late = watching.too_long()
    assert late is not None
    assert late.kind == "hang_at_exit"


def test_a_hang_at_exit_on_a_host_ends_with_all_steps_in_the_record(tmp_path: Path) -> None:
    host = OneOfSeveral("gpu01", tmp_path)
    made = planned(tmp_path, [host.name])
    made = replace(made, plan=with_program(made.plan, HANGS_AT_EXIT, tmp_path))
    writer = execute.new_run(made, tmp_path / "runs", None, ["steelyard"])
    limits = Limits(exit=1.0, counters=1.0)
    with pytest.raises(
        InfrastructureError, match=r"did not exit within 1 s after its last step 3; still running: gpu01"
    ):
        execute.execute(
            made, writer, lambda _: None, execute.RunOptions(limits, preflight=False, hosts={host.name: host})
        )
    assert records.load(writer.directory).manifest.failure.kind == "hang_at_exit"
    assert [step.step for step in records.steps(writer.directory)] == [1, 2, 3]


def test_a_hang_at_exit_here_ends_with_all_steps_in_the_record(tmp_path: Path) -> None:
    made = planned(tmp_path, ["localhost"])
    node = with_program(made.plan, HANGS_AT_EXIT, tmp_path).nodes[0].model_copy(update={"directory": None})
    made = replace(made, plan=made.plan.model_copy(update={"nodes": [node]}))
    writer = execute.new_run(made, tmp_path / "runs", None, ["steelyard"])
    with pytest.raises(InfrastructureError, match="did not exit within 1 s"):
        execute.execute(made, writer, lambda _: None, execute.RunOptions(Limits(exit=1.0)))
    assert [step.step for step in records.steps(writer.directory)] == [1, 2, 3]
