"""Leaves a host as it was found: its job ended, what it printed last kept, everything of ours removed."""

import asyncio
import time
from functools import partial

from steelyard.execute.host import HostError, LinkLostError
from steelyard.execute.limits import Limits
from steelyard.execute.node import RECONNECT_S, Node

_REST_S, _REST_BYTES = 20.0, 16 << 20
"""For what a job that we end has printed and was not read yet."""
_ONE_MORE_TRY_S = 5.0
"""For cleaning a host that was given up."""


async def leave(node: Node, limits: Limits) -> list[str]:
    """End and remove one node's part; what is left of it."""
    if not node.touched:
        return []
    limit = _ONE_MORE_TRY_S if node.is_lost else limits.clean
    deadline = time.monotonic() + limit
    while True:
        try:
            said = await _end(node, limits, limit) if node.started else []
            async with asyncio.timeout(limit):
                left = await node.job.clean(containers=node.started)
                return [*said, *(_words(node, kind, what, limits) for kind, what in left)]
        except TimeoutError:
            return [f"no answer within {limit:g} s; {remains(node, limits)}"]
        except LinkLostError as reason:
            if time.monotonic() >= deadline:
                return [f"{reason}; {remains(node, limits)}"]
            await asyncio.sleep(RECONNECT_S[1])
        except HostError as reason:
            return [f"{reason}; {remains(node, limits)}"]


def remains(node: Node, limits: Limits) -> str:
    """What stays on a host that was not cleaned, how long, and the command that ends it now."""
    if not node.touched:
        return "nothing was made there"
    lease = f"ends itself within {limits.lease} s" if limits.lease else "does not end by itself"
    what = "the job may still run there and" if node.started else "the run still holds the host and"
    command = (
        node.host.typed(["kill", str(node.job.keeper)])
        if node.job.keeper
        else node.host.typed(["ls", node.job.directory])
    )
    return f"{what} {lease}; to end it now: {command}"


def _words(node: Node, kind: str, what: str, limits: Limits) -> str:
    """Something that could not be removed, and the command that removes it."""
    if kind == "files":
        return f"{what} could not be removed; remove it by hand: {node.host.typed(['sudo', 'rm', '-rf', what])}"
    if kind == "containers":
        remove = node.host.typed([node.job.engine, "rm", "-f", *what.split()])
        return f"container {what} could not be removed; remove it by hand: {remove}"
    return f"{node.job.engine} does not answer ({what}); {remains(node, limits)}"


async def _end(node: Node, limits: Limits, limit: float) -> list[str]:
    """End one node's job and keep what it printed last; what could not be had. Either way it is cleaned up."""
    said = []
    for work, within in (
        (partial(node.job.stop, limits.grace), limit),
        (partial(_fetch_the_rest, node), _REST_S),
    ):
        try:
            async with asyncio.timeout(within):
                await work()
        except TimeoutError:
            said.append(f"no answer within {within:g} s")
        except LinkLostError:
            raise
        except HostError as reason:
            said.append(str(reason))
    return said


async def _fetch_the_rest(node: Node) -> None:
    """What a job we ended printed last is kept too, if it is still there, as far as there is time and room."""
    if node.log is None or node.state is not None or (await node.job.state()).gone:
        return
    node.rest = b""
    async for data in node.job.rest(node.log.bytes):
        node.rest += data[: _REST_BYTES - len(node.rest)]
        if len(node.rest) >= _REST_BYTES:
            raise HostError(node.host.name, f"more than {_REST_BYTES >> 20} MiB that it printed were not read")
