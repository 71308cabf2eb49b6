"""Queries the hosts: first whether they answer, then the time, then everything else in one round trip."""

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
"""Hosts that are queried at the same time."""
ANSWER_S = 120.0
"""Time limit of a host for all answers."""
TOOL_S = 15
"""Time limit of one tool on a host."""
COLLECTIVES_S = 300

Progress = Callable[[str, int, int], None]
"""Gets the action, the number of hosts done, and the number of all hosts."""
_Answer = TypeVar("_Answer")


async def ask(
    hosts: Sequence[Host], needs: Needs, timeout_s: float = ANSWER_S, progress: Progress | None = None
) -> tuple[dict[str, Facts], list[HostFinding]]:
    """Facts by host, in the order of the hosts, and a finding for each host that failed to answer.

    All connections are made before the first clock is read: making them keeps this machine busy, which would make the
    clock readings inaccurate.
    """
    group = _HostGroup(hosts, progress)
    await group.ask_all("connected to", lambda host: host.run(["true"], timeout_s=timeout_s))
    clocks = await group.ask_all("read the clocks of", lambda host: _clock(host, timeout_s))
    facts = await group.ask_all("checked", lambda host: _facts(host, needs, timeout_s))
    if needs.collectives and needs.wants_gpus:
        measured = await group.ask_all("measured", lambda host: _collectives(host, needs, facts))
        facts = {name: replace(facts[name], collectives=measured.get(name)) for name in facts}
    complete = {name: replace(facts[name], clock=clocks[name]) for name in group.answering}
    return complete, [reach.unreached(name, error) for name, error in group.lost.items()]


class _HostGroup:
    """Hosts that are queried together; a host that fails once is not queried again."""

    def __init__(self, hosts: Sequence[Host], progress: Progress | None) -> None:
        self.answering = {host.name: host for host in hosts}
        self.lost: dict[str, HostError] = {}
        self._progress = progress

    async def ask_all(self, action: str, ask: Callable[[Host], Awaitable[_Answer]]) -> dict[str, _Answer]:
        """The answer of each host."""
        gate, answers, num_hosts = asyncio.Semaphore(AT_ONCE), dict[str, _Answer](), len(self.answering)
        lost: dict[str, HostError] = {}

        async def each(host: Host) -> None:
            async with gate:
                try:
                    answers[host.name] = await ask(host)
                except HostError as error:
                    lost[host.name] = error
            if self._progress is not None:
                self._progress(action, len(answers) + len(lost), num_hosts)

        async with asyncio.TaskGroup() as tasks:
            for host in self.answering.values():
                tasks.create_task(each(host))
        self.lost |= lost
        self.answering = {name: host for name, host in self.answering.items() if name not in lost}
        return answers


async def _clock(host: Host, timeout_s: float) -> ClockReading | None:
    """The better of two readings: during the first, the host or this machine may be busy."""
    readings = [await _clock_once(host, timeout_s) for _ in range(2)]
    valid = (reading for reading in readings if reading is not None)
    return min(valid, key=lambda reading: reading.uncertainty_s, default=None)


async def _clock_once(host: Host, timeout_s: float) -> ClockReading | None:
    sent = time.time()
    done = await host.run(["date", "+%s.%N"], timeout_s=timeout_s)
    received = time.time()
    stamp = re.fullmatch(r"(?P<seconds>\d{1,15})\.(?P<fraction>\d*)\D*", done.text)
    if done.status or stamp is None:
        return None
    host_time = float(f"{stamp['seconds']}.{stamp['fraction'] or '5'}")
    uncertainty = (received - sent) / 2 + (0.0 if stamp["fraction"] else 0.5)  # busybox `date` lacks %N
    return ClockReading(host_time - (sent + received) / 2, uncertainty)


async def _facts(host: Host, needs: Needs, timeout_s: float) -> Facts:
    answers = await probe(host, _words(needs), TOOL_S, timeout_s)
    counts = len(spaces(needs)), len(needs.secrets), len(needs.volumes)
    try:
        return read_facts(answers, *counts)
    except Exception as reason:  # noqa: BLE001 - one host may answer anything; the others must still be judged
        return read_facts(answers.unreadable(type(reason).__name__), *counts)


def _words(needs: Needs) -> list[str]:
    """The arguments of the probe."""
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
    """The output of the bandwidth test; None if the number of GPUs is unknown."""
    seen = seen_gpus(needs, facts[host.name])
    if seen is None or not seen.gpus:
        return None
    count = str(min(needs.gpus_per_node or len(seen.gpus), len(seen.gpus)))
    return (await probe(host, ["collectives", count], COLLECTIVES_S, COLLECTIVES_S + 30))["collectives"]
