"""Asks the hosts: whether they are there, then what time it is, then everything else in one round trip."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from steelyard.execute.host import Host, HostError
from steelyard.execute.preflight import kernel_log, reach
from steelyard.execute.preflight.facts import ClockReading, Facts, HostFacts, read_facts
from steelyard.execute.preflight.finding import HostFinding
from steelyard.execute.preflight.gpus import seen_gpus
from steelyard.execute.preflight.needs import Needs
from steelyard.execute.preflight.probe import Section, probe
from steelyard.execute.preflight.resources import spaces

AT_ONCE = 64
"""Hosts that are asked at the same time."""
ANSWER_S = 120.0
"""How long a host may take for all its answers."""
TOOL_S = 15
"""How long one tool of a host may take for its own."""
COLLECTIVES_S = 300

Progress = Callable[[str, int, int], None]
"""Is given what is done, with how many hosts, and of how many."""
_Answer = TypeVar("_Answer")


async def ask(
    hosts: Sequence[Host], needs: Needs, timeout_s: float = ANSWER_S, progress: Progress | None = None
) -> tuple[dict[str, Facts], list[HostFinding]]:
    """Facts by host, in the hosts' order, and a finding for each host that was lost on the way.

    All are reached before the first clock is read: making connections keeps this machine busy, and a clock that is
    read meanwhile is read badly.
    """
    party = _Party(hosts, progress)
    await party.everyone("reached", lambda host: host.run(["true"], timeout_s=timeout_s))
    clocks = await party.everyone("read the clocks of", lambda host: _clock(host, timeout_s))
    facts = await party.everyone("asked", lambda host: _facts(host, needs, timeout_s))
    if needs.collectives and needs.wants_gpus:
        measured = await party.everyone("measured", lambda host: _collectives(host, needs, facts))
        facts = {name: replace(facts[name], collectives=measured.get(name)) for name in facts}
    complete = {name: replace(facts[name], clock=clocks[name]) for name in party.left}
    return complete, [reach.unreached(name, error) for name, error in party.lost.items()]


class _Party:
    """Hosts that are asked together; one that is lost is asked nothing more."""

    def __init__(self, hosts: Sequence[Host], progress: Progress | None) -> None:
        self.left = {host.name: host for host in hosts}
        self.lost: dict[str, HostError] = {}
        self._progress = progress

    async def everyone(self, action: str, ask: Callable[[Host], Awaitable[_Answer]]) -> dict[str, _Answer]:
        """What each host answers."""
        gate, answers, asked = asyncio.Semaphore(AT_ONCE), dict[str, _Answer](), len(self.left)
        lost: dict[str, HostError] = {}

        async def each(host: Host) -> None:
            async with gate:
                try:
                    answers[host.name] = await ask(host)
                except HostError as error:
                    lost[host.name] = error
            if self._progress is not None:
                self._progress(action, len(answers) + len(lost), asked)

        async with asyncio.TaskGroup() as group:
            for host in self.left.values():
                group.create_task(each(host))
        self.lost |= lost
        self.left = {name: host for name, host in self.left.items() if name not in lost}
        return answers


async def _clock(host: Host, timeout_s: float) -> ClockReading | None:
    """The better of two readings: the first may find the host busy, or us."""
    readings = [await _clock_once(host, timeout_s) for _ in range(2)]
    known = (reading for reading in readings if reading is not None)
    return min(known, key=lambda reading: reading.uncertainty_s, default=None)


async def _clock_once(host: Host, timeout_s: float) -> ClockReading | None:
    sent = time.time()
    done = await host.run(["date", "+%s.%N"], timeout_s=timeout_s)
    received = time.time()
    stamp = re.fullmatch(r"(?P<seconds>\d{1,15})\.(?P<fraction>\d*)\D*", done.text)
    if done.status or stamp is None:
        return None
    there = float(f"{stamp['seconds']}.{stamp['fraction'] or '5'}")
    doubt = (received - sent) / 2 + (0.0 if stamp["fraction"] else 0.5)  # a small `date` knows no %N
    return ClockReading(there - (sent + received) / 2, doubt)


async def _facts(host: Host, needs: Needs, timeout_s: float) -> Facts:
    answers = await probe(host, _words(needs), TOOL_S, timeout_s)
    asked = len(spaces(needs)), len(needs.secrets), len(needs.volumes)
    try:
        return read_facts(answers, *asked)
    except Exception as reason:  # noqa: BLE001 - one host may answer anything, and the others are judged all the same
        return read_facts(answers.unreadable(type(reason).__name__), *asked)


def _words(needs: Needs) -> list[str]:
    """What is asked, as the probe takes it."""
    words = ["limits", "", "kernel_log", kernel_log.PATTERN]
    words += _numbered("room", (space.path for _, space in spaces(needs)))
    words += ["gpus", ""] if needs.wants_gpus else []
    words += ["ports", ""] if needs.ports else []
    words += ["network", ""] if needs.multi_node or needs.wants_gpus else []
    words += _numbered("secret", (secret.file for secret in needs.secrets))
    words += _numbered("volume", needs.volumes)
    words += ["data", needs.data_path] if needs.data_path and needs.data_path.startswith("/") else []
    return words + (["image", needs.engine, needs.image] if needs.image is not None else [])


def _numbered(word: str, paths: Iterable[str]) -> list[str]:
    return [part for at, path in enumerate(paths) for part in (word, str(at), path)]


async def _collectives(host: Host, needs: Needs, facts: HostFacts) -> Section | None:
    """What the bandwidth test prints; None where there is no telling over how many GPUs."""
    seen = seen_gpus(needs, facts[host.name])
    if seen is None or not seen.gpus:
        return None
    count = str(min(needs.gpus_per_node or len(seen.gpus), len(seen.gpus)))
    return (await probe(host, ["collectives", count], COLLECTIVES_S, COLLECTIVES_S + 30))["collectives"]
