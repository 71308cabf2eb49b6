"""Makes one run of several series: those that ran side by side are merged by step, restarts follow each other."""

import re
from collections.abc import Sequence
from pathlib import Path

from steelyard.accounting.stragglers import stragglers
from steelyard.ingestion.parts import PARTS, Part, merged
from steelyard.records.step import Event
from steelyard.records.writer import NODES, STEPS, in_series

_OF_A_NODE = re.compile(r"(?:node|host|rank|worker|process|proc|task|gpu)[-_]?\d+", re.IGNORECASE)


def side_by_side(parts: Sequence[Part], names: Sequence[str]) -> list[list[Part]]:
    """The attempts of a run in their order, each with the series that ran together."""
    timed = all(part.first_time and part.last_time for part in parts)
    ordered = sorted(parts, key=lambda part: ((part.first_time or "") if timed else "", part.first_step, part.file))
    attempts: list[list[Part]] = []
    for part in ordered:
        if attempts and any(_together(other, part, timed, names) for other in attempts[-1]):
            attempts[-1].append(part)
        else:
            attempts.append([part])
    return attempts


def _together(one: Part, other: Part, timed: bool, names: Sequence[str]) -> bool:
    """Whether two series are of one attempt: of one file, at one time, of two nodes by name, or with equal losses."""
    if one.file == other.file:
        return True
    if timed:
        assert one.last_time is not None
        assert other.first_time is not None
        return other.first_time <= one.last_time
    ours, their = (_OF_A_NODE.findall(names[part.file]) for part in (one, other))
    if ours and their and ours[-1] != their[-1]:
        return True
    theirs = dict(other.first_losses)
    shared = [(loss, theirs[step]) for step, loss in one.first_losses if step in theirs]
    return bool(shared) and all(loss == their_loss for loss, their_loss in shared)


def merge(parts: Sequence[Part], run: Path, names: Sequence[str]) -> tuple[int, list[Event]]:
    """Write steps.jsonl, and nodes.jsonl where several series report; how many steps, and what is to be said."""
    written = [part for part in parts if part.rows]
    if len(written) == 1:
        written[0].path.replace(run / STEPS)
        return written[0].rows, []
    for part in written:
        if part.path == run / STEPS:  # of a log that was followed, and had a second series
            part.path = part.path.rename(run / PARTS / STEPS)
    attempts = side_by_side(written, names)
    events: list[Event] = []
    count = 0
    with (run / STEPS).open("wb") as steps:
        for at, attempt in enumerate(attempts):
            lead = sorted(attempt, key=lambda part: -part.rows)
            before = min((part.first_step for later in attempts[at + 1 :] for part in later), default=None)
            for step, line in merged(lead):
                if before is not None and step >= before:
                    break
                steps.write(line)
                count += 1
            if before is not None:
                last = max(part.last_step for part in attempt)
                after = "the last of each step is kept" if last >= before else "it goes on where the one before ended"
                message = f"attempt {at + 2} starts at step {before}, the one before reached step {last}: {after}"
                events.append(Event(kind="restart", message=message, step=before))
    if any(len(attempt) > 1 for attempt in attempts):
        _write_nodes(attempts[-1], run, names)
        events += _slower(attempts[-1], names)
    return count, events


def _slower(attempt: Sequence[Part], names: Sequence[str]) -> list[Event]:
    """Nodes of one job step together: one that was slower to the end is named."""
    found = stragglers({_name(part, names): part.last_times() for part in attempt})
    return [Event(kind="nodes_differ", message=one.words(), node=one.node, details=one.details()) for one in found]


def _name(part: Part, names: Sequence[str]) -> str:
    return part.label or names[part.file]


def _write_nodes(attempt: Sequence[Part], run: Path, names: Sequence[str]) -> None:
    """Every series of the last attempt, each record with whose it is."""
    with (run / NODES).open("wb") as nodes:
        for part in attempt:
            for _, line in part.lines():
                nodes.write(in_series(_name(part, names), line))
