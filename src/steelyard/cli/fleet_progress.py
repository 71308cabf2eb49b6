"""The live view of a fleet, on standard error: a line an event with its host, and a counter of how the runs stand."""

import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cli.progress import SHOWN_EVENTS, bar
from steelyard.records import Event, RunManifest, Step

if TYPE_CHECKING:
    from steelyard.execute.preflight import HostFinding

_EVERY_S = 5.0


class FleetView:
    """Lines for a log or a pipe; on a terminal the counter stays below them."""

    def __init__(self, num_runs: int, steps: int) -> None:
        self._num_runs, self._steps = num_runs, steps
        self._at: dict[str, int] = {}
        self._ended: Counter[str] = Counter()
        self._said = time.monotonic()
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

        def observe(found: Step | Event) -> None:
            if isinstance(found, Step):
                self._at[host] = found.step
                self._count()
            elif found.kind in SHOWN_EVENTS:
                self.say(f"{host}: {found.kind}: {found.message}")

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
        told = [f"{count} {status}" for status, count in self._ended.items()]
        if self._at:
            slowest, fastest = min(self._at.values()), max(self._at.values())
            span = f"step {slowest}" if slowest == fastest else f"steps {slowest} to {fastest}"
            told.append(f"{len(self._at)} at {span} of {self._steps}")
        waiting = self._num_runs - self._ended.total() - len(self._at)
        if waiting:
            told.append(f"{waiting} without a step yet")
        return f"{self._num_runs} run{'s' * (self._num_runs != 1)}: {', '.join(told)}"

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
        elif always or time.monotonic() - self._said >= _EVERY_S:
            self._said = time.monotonic()
            printing.note(self.words())
