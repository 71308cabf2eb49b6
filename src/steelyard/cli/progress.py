"""Progress on standard error: of a run or a fleet with step, loss, rate, MFU and time left; of reading files."""

import math
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from steelyard.cli import printing
from steelyard.records import Event, RunManifest, RunWriter, Step

if TYPE_CHECKING:
    from rich import progress

    from steelyard.execute.preflight import HostFinding

_HOST_EVENTS = {"preflight", "stale_lock", "link_lost", "link_back", "left_behind"}
_SHOWN_EVENTS = {
    *_HOST_EVENTS,
    *("nan", "oom", "error", "unread_line", "telemetry_lost", "plan_differs", "nodes_differ", "stopping"),
}
"""Kinds of events that are shown when they happen."""
_EVERY_S = 5.0


class _View:
    """Lines, and progress: a bar on a terminal, otherwise a line every few seconds."""

    def __init__(self, total: int) -> None:
        self._bar: progress.Progress | None = None
        self._shown_at = 0.0
        if total and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

            columns = (SpinnerColumn(), BarColumn(bar_width=24), TextColumn("{task.description}", markup=False))
            self._bar = Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)
            self._task = self._bar.add_task("starting", total=total)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, text: str) -> None:
        if self._bar:
            self._bar.console.print(printing.inert(text), markup=False)
        else:
            printing.note(printing.inert(text))

    def _advance(self, completed: int, text: str, always: bool) -> None:
        if self._bar:
            self._bar.update(self._task, completed=completed, description=text)
        elif always or time.monotonic() - self._shown_at >= _EVERY_S:
            self._shown_at = time.monotonic()
            printing.note(text)


class FilesView(_View):
    """Progress of reading files."""

    def __init__(self) -> None:
        super().__init__(1)
        self._shown_at = time.monotonic()

    def __call__(self, read: int, total: int) -> None:
        if self._bar:
            self._bar.update(self._task, total=total)
        self._advance(read, f"{read:,} of {total:,} logs read", always=False)


class RunView(_View):
    """Progress of one run; with 0 steps, of a log of unknown length, always in lines."""

    def __init__(self, steps: int, peak_tflops: float | None, label: str = "recording") -> None:
        super().__init__(steps)
        self._steps, self._peak, self._label = steps, peak_tflops, label
        self.writer: RunWriter | None = None
        self._recent: deque[float] = deque(maxlen=20)

    def begin(self, writer: RunWriter) -> None:
        self.writer = writer
        self.say(f"{self._label} {writer.directory}")

    def __call__(self, record: Step | Event) -> None:
        if isinstance(record, Step):
            if record.step > 1 and record.step_time_s:  # the first step is slower
                self._recent.append(record.step_time_s)
            self._advance(record.step, self._words(record), always=record.step in (1, self._steps))
        elif record.kind in _SHOWN_EVENTS:
            where = f"{record.node}: " if record.node and record.kind in _HOST_EVENTS else ""
            self.say(f"{record.kind}: {where}{record.message}")

    def _words(self, step: Step) -> str:
        """`step 12/200  loss 4.3210  51,234 tokens/s per GPU  MFU 41.2%  0:32 left`."""
        words = [f"step {step.step}/{self._steps}" if self._steps else f"step {step.step}"]
        if step.loss is not None:
            words.append(f"loss {step.loss:.4f}")
        if step.tokens_per_s_per_gpu is not None:
            words.append(f"{step.tokens_per_s_per_gpu:,.0f} tokens/s per GPU")
        if self._peak and step.tflops_per_gpu is not None and math.isfinite(step.tflops_per_gpu):
            words.append(f"MFU {step.tflops_per_gpu / self._peak:.1%}")
        if self._recent and step.step < self._steps:
            left_s = sum(self._recent) / len(self._recent) * (self._steps - step.step)
            words.append(f"{int(left_s // 60)}:{int(left_s % 60):02d} left")
        return "  ".join(words)


class StageView(_View):
    """Progress of long work with files: bytes per stage."""

    def __init__(self) -> None:
        super().__init__(0)
        self._bytes: Counter[str] = Counter()
        self._shown_at = time.monotonic()

    def __call__(self, stage: str, count: int) -> None:
        self._bytes[stage] += count
        self._advance(0, f"{stage}: {self._bytes[stage] / (1 << 30):.2f} GiB", always=False)


class FleetView(_View):
    """Progress of a fleet: one line per event with its host, and a count of runs by status."""

    def __init__(self, num_runs: int, steps: int) -> None:
        super().__init__(num_runs * steps)
        self._num_runs, self._steps = num_runs, steps
        self._at: dict[str, int] = {}
        self._ended: Counter[str] = Counter()
        self._shown_at = time.monotonic()

    def observer(self, host: str) -> Callable[[Step | Event], None]:
        def observe(record: Step | Event) -> None:
            if isinstance(record, Step):
                self._at[host] = record.step
                self._count()
            elif record.kind in _SHOWN_EVENTS:
                self.say(f"{host}: {record.kind}: {record.message}")

        return observe

    def ended(self, host: str, manifest: RunManifest) -> None:
        self._at.pop(host, None)
        self._ended[manifest.status] += 1
        failure, steps = manifest.failure, manifest.steps or 0
        why = f": {failure.kind}: {failure.message}" if failure else ""
        self.say(f"{host}: {manifest.status} after {steps} step{'s' * (steps != 1)}{why}")
        self._count(always=True)

    def unfit(self, finding: "HostFinding") -> None:
        self.say(f"preflight: {finding.host or 'this machine'}: {finding.message}")

    def _count(self, always: bool = False) -> None:
        done = self._ended.total() * self._steps + sum(self._at.values())
        self._advance(done, self._words(), always)

    def _words(self) -> str:
        """`4 runs: 1 completed, 1 failed, 1 at step 12 of 30, 1 not started`."""
        counts = [f"{count} {status}" for status, count in self._ended.items()]
        if self._at:
            slowest, fastest = min(self._at.values()), max(self._at.values())
            span = f"step {slowest}" if slowest == fastest else f"steps {slowest} to {fastest}"
            counts.append(f"{len(self._at)} at {span} of {self._steps}")
        waiting = self._num_runs - self._ended.total() - len(self._at)
        if waiting:
            counts.append(f"{waiting} without a step so far")
        return f"{self._num_runs} run{'s' * (self._num_runs != 1)}: {', '.join(counts)}"
