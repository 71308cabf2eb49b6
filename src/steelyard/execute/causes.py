"""Finds out why a remote job failed, from the exit status and state of each node."""

from collections.abc import Sequence

from steelyard.execute.job import State
from steelyard.execute.node import FULL_KIB, HostNode
from steelyard.execute.recording import Recording
from steelyard.planning.container import ENGINES
from steelyard.records import Failure

_ENGINE_STATUSES = (125, 126, 127)
_NEVER_RAN = ("created", "configured", "initialized")


def first_cause(nodes: Sequence[HostNode], recording: Recording) -> Failure | None:
    """The first cause of a failed run."""
    ended = sorted((node for node in nodes if node.state is not None), key=lambda node: node.ended_at or 0.0)
    bad = [(node, node.state) for node in ended if node.state is not None and node.state.status]
    for node in nodes:
        if node.is_lost and bad:  # the others failed because they could not reach it either
            return node.failed("link", "connection lost")
    for cause in (out_of_memory, disk_full, engine_gone, not_started):
        for node, state in bad:
            if (failure := cause(node, state, recording)) is not None:
                return failure
    by_signal = [failure for node, state in bad if (failure := killed(node, state, recording)) is not None]
    named = recording.named_failure(echoes=not by_signal)
    if bad and named is not None:
        return named.model_copy(update={"phase": "train"})
    if bad:
        return by_signal[0] if by_signal else exited(*bad[0], recording)
    if recording.last_step < recording.planned_steps:
        message = f"the training program exited with status 0 after step {recording.last_step}"
        return Failure(kind="exit", message=f"{message} of {recording.planned_steps}", phase="train")
    return None


def out_of_memory(node: HostNode, state: State, recording: Recording) -> Failure | None:
    return node.failed("oom", "out of host memory: the kernel killed the job") if state.oom_killed else None


def disk_full(node: HostNode, state: State, recording: Recording) -> Failure | None:
    return node.no_space() if state.free_kib is not None and state.free_kib < FULL_KIB else None


def engine_gone(node: HostNode, state: State, recording: Recording) -> Failure | None:
    """The engine's client exited although the container had started: the engine was killed or restarted."""
    if node.plan.container is None or state.status not in _ENGINE_STATUSES:
        return None
    began = [container for container in state.containers if container.status not in _NEVER_RAN]
    if not state.engine_silent and not any(container.exit_code != state.status for container in began):
        return None
    last = next((f" ({line})" for line in _error_lines(node)), "")
    engine = node.plan.container.engine
    return node.failed("engine", f"{engine} stopped during the run, after step {recording.last_step}{last}")


def not_started(node: HostNode, state: State, recording: Recording) -> Failure | None:
    """The engine's own exit statuses: it failed, could not start the program, or did not find it."""
    if node.plan.container is None:
        return None
    refusal = ENGINES[node.plan.container.engine].init_refusal
    printed = node.log.last_lines if node.log else ()
    is_refused = refusal is not None and any(line.startswith(refusal) for line in printed)
    # If the container has started, the status is the program's own.
    began = any(container.status not in _NEVER_RAN for container in state.containers)
    if (state.status not in _ENGINE_STATUSES or began) and not is_refused:
        return None
    why = state.engine_error or next(iter(_error_lines(node)), f"status {state.status}")
    return node.failed("container", f"the container did not start: {why}", phase="start")


def _error_lines(node: HostNode) -> list[str]:
    """The last lines with an error, or the last lines, newest first."""
    printed = [*reversed(node.log.last_lines)] if node.log else []
    return [line for line in printed if "rror" in line] or printed


def killed(node: HostNode, state: State, recording: Recording) -> Failure | None:
    name = {137: "SIGKILL", 143: "SIGTERM"}.get(state.status or 0)
    message = f"killed from outside by {name}, after step {recording.last_step}"
    return node.failed("killed", message) if name else None


def exited(node: HostNode, state: State, recording: Recording) -> Failure:
    steps = f"after step {recording.last_step} of {recording.planned_steps}"
    last = f"; last line: {node.log.last_lines[-1].strip()}" if node.log and node.log.last_lines else ""
    return node.failed("exit", f"the training program exited with status {state.status} {steps}{last}")
