"""The live view of a run or a fleet, on standard error: step, loss, rate, MFU, time left."""

import math
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.records import Event, RunManifest, Step

if TYPE_CHECKING:
    from rich.progress import Progress

    from steelyard.execute.preflight import HostFinding

SHOWN_EVENTS = {
    "preflight",
    "nan",
    "oom",
    "error",
    "unread_line",
    "telemetry_lost",
    "plan_differs",
    "nodes_differ",
    "stale_lock",
    "link_lost",
    "link_back",
    "stopping",
    "left_behind",
}
"""Events a person is told of as they happen."""


def line_of(event: Event) -> str:
    """An event in a line, with the host it is about."""
    where = f"{event.node}: " if event.node and event.kind in _OF_A_HOST else ""
    return f"{event.kind}: {where}{event.message}"


_OF_A_HOST = {"preflight", "stale_lock", "link_lost", "link_back", "left_behind"}

_EVERY_S = 5.0


class Description:
    """`12/200  loss 4.3210  51,234 tok/s/GPU  MFU 41.2 %  0:32 left`, from the steps seen so far."""

    def __init__(self, steps: int, peak_tflops: float | None) -> None:
        self._steps, self._peak = steps, peak_tflops
        self._recent: deque[float] = deque(maxlen=20)

    def __call__(self, step: Step) -> str:
        if step.step > 1 and step.step_time_s:  # the first step warms up
            self._recent.append(step.step_time_s)
        return describe(step, self._steps, self._peak, self._left_s(step))

    def _left_s(self, step: Step) -> float | None:
        if not self._recent or not self._steps:
            return None
        return sum(self._recent) / len(self._recent) * (self._steps - step.step)


def describe(step: Step, steps: int, peak_tflops: float | None, left_s: float | None) -> str:
    """One step in a line."""
    words = [f"{step.step}/{steps}" if steps else f"step {step.step}"]
    if step.loss is not None:
        words.append(f"loss {step.loss:.4f}")
    if step.tokens_per_s_per_gpu is not None:
        words.append(f"{step.tokens_per_s_per_gpu:,.0f} tok/s/GPU")
    if peak_tflops and step.tflops_per_gpu is not None and math.isfinite(step.tflops_per_gpu):
        words.append(f"MFU {100 * step.tflops_per_gpu / peak_tflops:.1f} %")
    if left_s is not None:
        words.append(f"{int(left_s // 60)}:{int(left_s % 60):02d} left")
    return "  ".join(words)


class PlainView:
    """A line every few seconds, for a log or a pipe."""

    def __init__(self, steps: int, peak_tflops: float | None) -> None:
        self._steps = steps
        self._describe = Description(steps, peak_tflops)
        self._shown_at = 0.0

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def __call__(self, record: Step | Event) -> None:
        if isinstance(record, Event):
            if record.kind in SHOWN_EVENTS:
                printing.note(line_of(record))
            return
        now, text = time.monotonic(), self._describe(record)
        if record.step == 1 or record.step == self._steps or now - self._shown_at >= _EVERY_S:
            self._shown_at = now
            printing.note(text)


def bar() -> "Progress":
    """A line on a terminal that goes when the work is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), BarColumn(bar_width=24), TextColumn("{task.description}", markup=False))
    return Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)


class BarView:
    """A bar on a terminal."""

    def __init__(self, steps: int, peak_tflops: float | None) -> None:
        self._describe = Description(steps, peak_tflops)
        self._bar = bar()
        self._task = self._bar.add_task("starting", total=steps)

    def __enter__(self) -> "BarView":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, record: Step | Event) -> None:
        if isinstance(record, Event):
            if record.kind in SHOWN_EVENTS:
                self._bar.console.print(printing.inert(line_of(record)), markup=False)
            return
        self._bar.update(self._task, completed=record.step, description=self._describe(record))


def following_view() -> PlainView:
    """The view of a log that somebody else's program writes."""
    return PlainView(0, None)


def view(steps: int, peak_tflops: float | None) -> PlainView | BarView:
    """The view that suits where standard error goes."""
    return (BarView if sys.stderr.isatty() else PlainView)(steps, peak_tflops)


class FleetView:
    """A line an event with its host, and a counter of how the runs stand, which a terminal keeps below the lines."""

    def __init__(self, num_runs: int, steps: int) -> None:
        self._num_runs, self._steps = num_runs, steps
        self._at: dict[str, int] = {}
        self._ended: Counter[str] = Counter()
        self._shown_at = time.monotonic()
        self._bar = bar() if sys.stderr.isatty() else None
        self._task = self._bar.add_task("starting", total=num_runs * steps) if self._bar else None

    def __enter__(self) -> "FleetView":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def observer(self, host: str) -> Callable[[Step | Event], None]:
        """What sees the steps and events of one run."""

        def observe(record: Step | Event) -> None:
            if isinstance(record, Step):
                self._at[host] = record.step
                self._count()
            elif record.kind in SHOWN_EVENTS:
                self.say(f"{host}: {record.kind}: {record.message}")

        return observe

    def ended(self, host: str, manifest: RunManifest) -> None:
        """One run has ended."""
        self._at.pop(host, None)
        self._ended[manifest.status] += 1
        failure = manifest.failure
        why = f": {failure.kind}: {failure.message}" if failure else ""
        self.say(f"{host}: {manifest.status} after {manifest.steps or 0} steps{why}")
        self._count(always=True)

    def unfit(self, finding: "HostFinding") -> None:
        """What preflight finds wrong with a host that is to run."""
        self.say(f"preflight: {finding.host or 'this machine'}: {finding.message}")

    def words(self) -> str:
        """`3 runs: 1 completed, 1 failed, 1 at step 12 of 30`."""
        counts = [f"{count} {status}" for status, count in self._ended.items()]
        if self._at:
            slowest, fastest = min(self._at.values()), max(self._at.values())
            span = f"step {slowest}" if slowest == fastest else f"steps {slowest} to {fastest}"
            counts.append(f"{len(self._at)} at {span} of {self._steps}")
        waiting = self._num_runs - self._ended.total() - len(self._at)
        if waiting:
            counts.append(f"{waiting} without a step yet")
        return f"{self._num_runs} run{'s' * (self._num_runs != 1)}: {', '.join(counts)}"

    def say(self, text: str) -> None:
        """A line beside the counter."""
        if self._bar:
            self._bar.console.print(printing.inert(text), markup=False)
        else:
            printing.note(printing.inert(text))

    def _count(self, always: bool = False) -> None:
        if self._bar is not None and self._task is not None:
            done = self._ended.total() * self._steps + sum(self._at.values())
            self._bar.update(self._task, completed=done, description=self.words())
        elif always or time.monotonic() - self._shown_at >= _EVERY_S:
            self._shown_at = time.monotonic()
            printing.note(self.words())
