"""Why a job on hosts did not end well, as far as its nodes' ends tell."""

from steelyard.cluster.engines import ENGINES
from steelyard.records import Failure
from steelyard.runner.node import Node
from steelyard.runner.recording import Recording

FULL_KIB = 1024
"""Less than that is no room for what a job prints."""


def out_of_memory(node: Node) -> Failure | None:
    if node.state is None or not node.state.oom_killed:
        return None
    return Failure(kind="oom", message="out of memory: the kernel ended it", node=node.host.name, phase="train")


def disk_full(node: Node) -> Failure | None:
    if node.state is None or node.state.free_kib is None or node.state.free_kib >= FULL_KIB:
        return None
    return no_space(node)


def no_space(node: Node) -> Failure:
    message = f"No space left on the device of {node.job.directory}"
    return Failure(kind="disk", message=message, node=node.host.name, phase="train")


def engine_failed(node: Node) -> Failure | None:
    """The engine's own statuses: it did not run, could not start the program, or did not find it."""
    if node.state is None or node.plan.container is None:
        return None
    said = [*reversed(node.log.last_lines)] if node.log else []
    refusal = ENGINES[node.plan.container.engine].init_refusal
    is_refused = refusal is not None and any(line.startswith(refusal) for line in said)
    if node.state.status not in (125, 126, 127) and not is_refused:
        return None
    told = [line for line in said if "rror" in line] or said or [f"status {node.state.status}"]
    message = f"the container did not start: {node.state.engine_error or told[0]}"
    return Failure(kind="container", message=message, node=node.host.name, phase="start")


def killed(node: Node, recording: Recording) -> Failure | None:
    names = {137: "SIGKILL", 143: "SIGTERM"}
    if node.state is None or node.state.status not in names:
        return None
    message = f"ended by {names[node.state.status]} from outside, after step {recording.last_step}"
    return Failure(kind="killed", message=message, node=node.host.name, phase="train")


def exited(node: Node, recording: Recording) -> Failure:
    status = node.state.status if node.state else None
    message = f"the training program ended with status {status} after step {recording.last_step}"
    last = f"; its last line: {node.log.last_lines[-1].strip()}" if node.log and node.log.last_lines else ""
    message = f"{message} of {recording.planned_steps}{last}"
    return Failure(kind="exit", message=message, node=node.host.name, phase="train")
