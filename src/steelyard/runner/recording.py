"""From what the nodes of a run print to its record: steps, events, logs, and the first cause of a failure."""

from collections import deque
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from steelyard import records
from steelyard.frameworks.logs.dialect import text_of
from steelyard.frameworks.logs.lines import LineCutter
from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.secrets import HIDDEN
from steelyard.frameworks.logs.series import Gathered
from steelyard.lint import Case
from steelyard.records import Event, Failure, RunWriter, Step
from steelyard.records.step import FAILURES, first_cause
from steelyard.runner.plan import NodePlan, Plan

Observer = Callable[[Step | Event], None]

_SHORTEST_SECRET = 6
"""A shorter word would be hidden wherever it stands by chance."""


class Recording:
    """The record of one run while its nodes print."""

    def __init__(self, plan: Plan, case: Case, writer: RunWriter, observe: Observer) -> None:
        self.writer, self.observe, self.framework = writer, observe, plan.framework
        self.planned_steps = case.resolved.experiment.training.steps
        self._world, self._flops = case.placement.world_size, plan.expected.flops_per_token
        self.last_step = 0
        self.ending = False
        """Whether we are ending it ourselves: what the nodes complain of then is the echo of that."""
        self.failures: list[Event] = []
        self._ranks = {node.host: node.rank for node in plan.nodes}
        self._lead = plan.nodes[0].host if len(plan.nodes) == 1 else None
        self._early: list[tuple[Step, str]] = []
        """Steps that came before it was plain which nodes report any."""
        self._nonfinite: set[str] = set()

    def of_node(self, node: NodePlan, hide: Sequence[bytes] = ()) -> "NodeRecording":
        """What one node prints; none of the secrets to `hide` gets any further."""
        return NodeRecording(self, node, hide)

    def event(self, kind: str, message: str, node: str | None = None, **details: object) -> None:
        """Something we found out ourselves."""
        self._keep(
            Event(
                kind=kind, message=message, step=self.last_step or None, node=node, time=records.now(), details=details
            )
        )

    def take(self, found: Step | Event, host: str) -> None:
        """What a node's log says."""
        if isinstance(found, Step):
            self._take_step(replace(found, node=host).derived(self._world, self._flops), host)
            return
        if self.ending and found.kind in FAILURES:
            return
        event = replace(found, node=host, time=found.time or records.now())
        if event.kind in FAILURES:
            self.failures.append(event)
        if event.kind == "started":
            self.writer.note_software({str(key): str(value) for key, value in event.details.items()})
        self._keep(event)

    def _take_step(self, step: Step, host: str) -> None:
        """One node speaks for the run; where others report steps too, theirs are kept beside."""
        if self._lead is None:
            again = any(host == earlier for _, earlier in self._early)
            self._early.append((step, host))
            if again:
                self.settle()
            return
        if host != self._lead:
            self.writer.append_node_step(self._lead, host, step)
            return
        self.writer.append_step(step)
        if len(self._ranks) > 1:
            self.writer.append_node_step(self._lead, host, step)
        self.last_step = step.step
        names = set(step.nonfinite())
        for name in sorted(names - self._nonfinite):  # where it turns so; the steps show how long it stays
            message = f"{name} is {getattr(step, name)} at step {step.step}"
            self._keep(
                Event(kind="nan", message=message, step=step.step, node=step.node, time=step.time, source=step.source)
            )
        self._nonfinite = names
        self.observe(step)

    def settle(self) -> None:
        """The first of the nodes that report steps speaks for the run, not the one that was heard first."""
        early, self._early = self._early, []
        if early:
            self._lead = min((host for _, host in early), key=self._ranks.__getitem__)
        for step, host in early:
            self._take_step(step, host)

    def _keep(self, event: Event) -> None:
        self.writer.append_event(event)
        self.observe(event)

    def named_failure(self, echoes: bool = True) -> Failure | None:
        """The first cause the logs name, or without one the first that other ranks say of it."""
        cause = first_cause(event for event in self.failures if echoes or not event.details.get("order"))
        if cause is None:
            return None
        at = cause.source
        return Failure(
            kind=cause.kind,
            message=cause.message,
            node=cause.node,
            file=at.file if at else None,
            line=at.line if at else None,
        )


class NodeRecording:
    """What one node prints, cut into lines, read and kept, each byte once."""

    def __init__(self, run: Recording, node: NodePlan, hide: Sequence[bytes]) -> None:
        self._run, self._host = run, node.host
        self._hide = [secret for secret in hide if len(secret) >= _SHORTEST_SECRET]
        self._log = f"node{node.rank}.log"
        self._said = Gathered()
        self._reader = LogReader(f"logs/{self._log}", self._said, run.framework)
        self._cutter = LineCutter()
        self.bytes = 0
        """How much of it came so far."""
        self.last_lines: deque[str] = deque(maxlen=10)
        """Those that were not empty, without secrets."""

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        self.bytes += len(data)
        for line in self._cutter.feed(data):
            self._take(line, b"\n")

    def end(self) -> None:
        """There are no more."""
        for line in self._cutter.rest():
            self._take(line, b"")
        self._reader.end()
        self._record()
        self._run.settle()

    def _take(self, line: bytes, end: bytes) -> None:
        for secret in self._hide:
            line = line.replace(secret, HIDDEN)
        self._reader.feed([line])
        self._record()  # before the log: no step that the log shows is missing from the record
        shown = self._reader.redacted.get(self._reader.line, line)
        if shown.strip():
            self.last_lines.append(text_of(shown, 300))
        self._run.writer.append_log(self._log, shown + end)

    def _record(self) -> None:
        for found in self._said.take():
            self._run.take(found, self._host)
