"""Records the output of the nodes of a run: steps, events, logs, and the first cause of a failure."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from steelyard import records
from steelyard.accounting.steady import MARKS
from steelyard.accounting.stragglers import stragglers
from steelyard.experiment.case import Case
from steelyard.experiment.problems import spelt
from steelyard.experiment.resolve import leaves
from steelyard.frameworks.logs import settings
from steelyard.frameworks.logs.cutter import LineCutter
from steelyard.frameworks.logs.dialect import text_of
from steelyard.frameworks.logs.failures import WATCHDOG
from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered, Job
from steelyard.frameworks.planner import expected_vocabulary
from steelyard.frameworks.registry import facts
from steelyard.planning.plan import NodePlan, Plan
from steelyard.records import Event, Failure, RunWriter, Step
from steelyard.records.failures import FAILURES, first_cause
from steelyard.secrets import HIDDEN, redacted, spellings

Observer = Callable[[Step | Event], None]

_COMPARED_STEPS, _COMPARE_EVERY = 1000, 100
"""How many steps of each node are compared with the other nodes, and how often in steps."""

_KEPT_ONCE = ("plan_differs", "setting_changed")
_DERIVED = ("parallelism.data_parallel_size", "training.gradient_accumulation_steps")
"""Derived from batch size and world size, even if the framework has no setting for it."""
_NULL_IS_A_VALUE = ("precision.fp8",)
"""For all other keys, null leaves the choice to the framework."""


def _longest_first(secrets: Iterable[bytes]) -> list[bytes]:
    """Texts to hide, longest first: a text that contains another must be replaced before it."""
    return sorted(set(secrets), key=lambda text: (-len(text), text))


def _planned_settings(case: Case) -> dict[str, Any]:
    """Settings of the plan that a log of this framework can contain, by key."""
    framework, placement = facts(case.resolved.platform.framework), case.placement
    values = {
        key: value
        for key, value in leaves(case.resolved.experiment.model_dump(mode="json"))
        if (key in _DERIVED or framework.spelling(key) is not None) and (value is not None or key in _NULL_IS_A_VALUE)
    }
    if framework.pads_vocabulary:
        values.pop("model.vocab_size", None)  # tokenizers differ in counting the end token; the padded size is exact
        values[settings.PADDED_VOCABULARY] = expected_vocabulary(case)
    if values.get("data.source") != "tokens":
        values.pop("data.source", None)  # each framework has its own name for generated data
    return {**values, settings.WORLD_SIZE: placement.world_size, settings.GPU_NAME: placement.gpu_name}


class Recording:
    """Writes the record of one run while its nodes print."""

    def __init__(self, plan: Plan, case: Case, writer: RunWriter, observe: Observer) -> None:
        self.writer, self.observe, self.framework = writer, observe, plan.framework
        self.planned_steps = case.resolved.experiment.training.steps
        self._world, self._flops = case.placement.world_size, plan.expected.flops_per_token
        self._card_gib = plan.expected.usable_gib_per_gpu
        # Every planner sets a log interval of 1; that of an image's launch script is read from its log.
        self._log_interval = 1 if case.resolved.platform.script is None else None
        self.planned_settings, self._logged_settings = _planned_settings(case), dict[str, Any]()
        self._cards = {node.host: node.env["NCCL_IB_HCA"] for node in plan.nodes if "NCCL_IB_HCA" in node.env}
        """Network cards of the plan, until the log shows which network is used."""
        self.last_step = 0
        self._hide: list[bytes] = []
        """All forms of the secrets of all nodes, longest first."""
        self.ending = False
        """Whether we are stopping the run: errors of the nodes are then a consequence of that."""
        self.failures: list[Event] = []
        self._ranks = {node.host: node.rank for node in plan.nodes}
        self._lead = plan.nodes[0].host if len(plan.nodes) == 1 else None
        self._early: list[tuple[Step, str]] = []
        """Steps received before it was clear which nodes report steps."""
        self._nonfinite: set[str] = set()
        self._kept_once: set[str] = set()
        self._step_times: dict[str, deque[tuple[int, float]]] = {}
        """Per node: step number and time of its last steps."""
        self._stragglers: set[str] = set()
        self._open = 0
        self._gpus_per_node = case.placement.gpus_per_node

    def of_node(self, node: NodePlan, hide: Sequence[bytes] = ()) -> "NodeRecording":
        """The recording of one node; the secrets in `hide` are removed from its output."""
        self._open += 1
        secrets = _longest_first(text for secret in hide for text in spellings(secret))
        self._hide = _longest_first([*self._hide, *secrets])
        job = Job(world_size=self._world, flops_per_token=self._flops, log_interval=self._log_interval)
        job.device_gib = self._card_gib
        return NodeRecording(self, node, secrets, job)

    def event(self, kind: str, message: str, node: str | None = None, **details: object) -> None:
        """Record an event of our own. Secrets are removed: the answer of a host may contain one."""
        text, shown = self.hidden(message), {name: self._hidden_within(value) for name, value in details.items()}
        step, now = self.last_step or None, records.now()
        self._keep(Event(kind=kind, message=text, step=step, node=node, time=now, details=shown))

    def hidden(self, text: str) -> str:
        """A text without the secrets of the nodes and without text that looks like a secret."""
        raw = text.encode("utf-8", "replace")
        for secret in self._hide:
            raw = raw.replace(secret, HIDDEN)
        return redacted(raw.decode("utf-8", "replace"))

    def _hidden_within(self, value: object) -> object:
        """The same for every text in a detail."""
        if isinstance(value, str):
            return self.hidden(value)
        if isinstance(value, Mapping):
            return {name: self._hidden_within(part) for name, part in value.items()}
        return [self._hidden_within(part) for part in value] if isinstance(value, list | tuple) else value

    def take(self, record: Step | Event, host: str) -> None:
        """Record a step or event from a node's log."""
        if isinstance(record, Step):
            self._take_step(replace(record, node=host).derived(self._world, self._flops), host)
            return
        if self.ending and record.kind in FAILURES:
            return
        event = replace(record, node=host, time=record.time or records.now())
        if event.kind == "nodes_differ":
            event = replace(event, node=self._host_of(event.details.get("rank")))
        if event.kind in _KEPT_ONCE:  # every node prints its settings
            if event.message in self._kept_once:
                return
            self._kept_once.add(event.message)
        if event.kind in FAILURES:
            self.failures.append(event)
        if event.kind == "started":
            self.writer.learn(software={str(key): str(value) for key, value in event.details.items()})
        if event.kind == "fabric" and "network" in event.details and (cards := self._cards.pop(host, None)):
            self.event("fabric", f"the plan selects the network cards {cards}", host, asked=cards)
        self._keep(event)

    def take_settings(self, reported: settings.LoggedSettings, host: str) -> None:
        """Record the settings in a node's log, once it trains or has ended; nodes that agree are recorded once."""
        logged = {key: setting.value for key, setting in reported.last.items()}
        if not logged or logged == self._logged_settings:
            return
        self._logged_settings = logged
        num_planned = len(logged.keys() & self.planned_settings.keys())
        message = f"the log contains {len(logged)} settings; {num_planned} of them are in the plan"
        self.event("settings", message, host, held=num_planned, said=self._logged_settings)
        if reported.arguments:
            self.writer.learn(arguments=dict(reported.arguments))
        software, expected = self.writer.manifest.software, self.writer.manifest.expected
        if settings.VERSION in logged:
            self.writer.learn(software={**software, settings.VERSION: str(logged[settings.VERSION])})
        if settings.LOG_INTERVAL in logged:
            self.writer.learn(expected={**expected, settings.LOG_INTERVAL: logged[settings.LOG_INTERVAL]})

    def _take_step(self, step: Step, host: str) -> None:
        """The lead node's steps are the run's steps; those of other nodes are kept in files of their own."""
        if self._lead is None:
            is_second = any(host == earlier for _, earlier in self._early)
            self._early.append((step, host))
            if is_second:
                self.choose_lead()
            return
        seconds = step.step_time_s
        if len(self._ranks) > 1 and seconds is not None and not any(flag in MARKS for flag in step.flags):
            self._step_times.setdefault(host, deque(maxlen=_COMPARED_STEPS)).append((step.step, seconds))
        if host != self._lead:
            self.writer.append_node_step(self._lead, host, step)
            return
        self.writer.append_step(step)
        if len(self._ranks) > 1:
            self.writer.append_node_step(self._lead, host, step)
        self.last_step = step.step
        names = set(step.nonfinite())
        for name in sorted(names - self._nonfinite):  # once, at the first step; the steps show the others
            value = getattr(step, name)
            text = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
            message = f"{name} is {text} at step {step.step}"
            self._keep(
                Event(kind="nan", message=message, step=step.step, node=step.node, time=step.time, source=step.source)
            )
        self._nonfinite = names
        self.observe(step)
        if len(self._ranks) > 1 and self.writer.steps % _COMPARE_EVERY == 0:
            self._record_stragglers()

    def _record_stragglers(self) -> None:
        """Record nodes that are slower than the others, each once."""
        times = {host: np.array(kept) for host, kept in self._step_times.items()}
        for slow in stragglers({host: (kept[:, 0].astype(np.int64), kept[:, 1]) for host, kept in times.items()}):
            if slow.node not in self._stragglers:
                self._stragglers.add(slow.node)
                self.event("nodes_differ", slow.words(), slow.node, **slow.details())

    def _host_of(self, rank: object) -> str | None:
        """The host of a rank: ranks are numbered node by node."""
        node = rank // self._gpus_per_node if type(rank) is int else None
        return next((host for host, node_rank in self._ranks.items() if node_rank == node), None)

    def ended(self) -> None:
        """Called when the output of a node has ended."""
        self.choose_lead()
        self._open -= 1
        if not self._open:
            self._record_stragglers()

    def choose_lead(self) -> None:
        """The node with the lowest rank that reports steps becomes the lead node."""
        early, self._early = self._early, []
        if early:
            self._lead = min((host for _, host in early), key=self._ranks.__getitem__)
        for step, host in early:
            self._take_step(step, host)

    def _keep(self, event: Event) -> None:
        self.writer.append_event(event)
        self.observe(event)

    def named_failure(self, echoes: bool = True) -> Failure | None:
        """The first cause in the logs; without one, the first error that only follows from another rank's."""
        cause = first_cause(event for event in self.failures if echoes or (event.whole("order") or 0) < WATCHDOG)
        if cause is None:
            return None
        file, line = (cause.source.file, cause.source.line) if cause.source else (None, None)
        return Failure(kind=cause.kind, message=cause.message, node=cause.node, file=file, line=line)


class NodeRecording:
    """Reads and keeps the output of one node, line by line, each byte once."""

    def __init__(self, run: Recording, node: NodePlan, hide: Sequence[bytes], job: Job) -> None:
        """`job` gets the batch size from the log: tokens per step must not be taken from the plan."""
        self._run, self._host, self._hide, self._job = run, node.host, hide, job
        self._log = f"node{node.rank}.log"
        self._settings, self._differing = settings.LoggedSettings(), set[str]()
        self._gathered = Gathered(self._take_setting)
        self._reader = LogReader(f"logs/{self._log}", self._gathered, run.framework, job)
        self._trains = False
        self._cutter = LineCutter()
        self.bytes = 0
        self.last_lines: deque[str] = deque(maxlen=10)
        """The last lines that are not empty, without secrets."""

    def feed(self, data: bytes) -> None:
        self.bytes += len(data)
        for line in self._cutter.feed(data):
            self._take(line, b"\n")

    def end(self) -> None:
        for line in self._cutter.rest():
            self._take(line, b"")
        self._reader.end()
        self._record()
        self._run.take_settings(self._settings, self._host)
        self._run.ended()

    def _take(self, line: bytes, end: bytes) -> None:
        for secret in self._hide:
            line = line.replace(secret, HIDDEN)
        self._reader.feed([line])
        self._record()  # before the log, so that no step in the log is missing from the record
        shown = self._reader.redacted.get(self._reader.line, line)
        if shown.strip():
            self.last_lines.append(text_of(shown, 300))
        self._run.writer.append_log(self._log, shown + end)

    def _record(self) -> None:
        for record in self._gathered.take():
            if isinstance(record, Step) and not self._trains:
                self._trains = True
                self._run.take_settings(self._settings, self._host)
            self._run.take(record, self._host)

    def _take_setting(self, setting: settings.Setting) -> Iterator[Event]:
        """Keep a setting; yield an event if it changes or differs from the plan, once per key."""
        key, value, planned = setting.key, setting.value, self._run.planned_settings
        if key == settings.TRAINED_SHARE:
            return  # printed with the steps; not a setting
        has_changed_before = key in self._settings.changed
        self._settings.take(setting)
        self._job.sequence_length = self._settings.whole("training.sequence_length")
        self._job.global_batch_size = self._settings.whole("training.global_batch_size")
        if key in self._settings.changed and not has_changed_before:
            yield self._settings.changed[key]
        is_compared = key in planned and key not in self._differing and not setting.takes_back
        if is_compared and not settings.same(key, planned[key], value):
            self._differing.add(key)
            message = f"{key} is {spelt(planned[key])} in the plan but {spelt(value)} in the log"
            details = {"key": key, "planned": planned[key], "said": value}
            yield Event(kind="plan_differs", message=message, source=setting.source, details=details)
