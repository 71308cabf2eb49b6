"""Asks a host for its counters, in one round trip and within a bound."""

import asyncio
from collections.abc import Collection

from steelyard.execute.counters.gpus import VENDORS
from steelyard.execute.counters.reading import GROUPS, Reading, nothing_read, read_counters
from steelyard.execute.host import Host, HostError
from steelyard.execute.preflight.kernel_log import PATTERN
from steelyard.execute.preflight.probing import probe
from steelyard.records.host_change import ECC, KERNEL_LOG, NETWORK, THROTTLE
from steelyard.secrets import redacted

TOOL_S = 8
"""How long one tool may take: nvidia-smi wakes eight GPUs in some seconds where nothing else keeps them awake."""
UNANSWERED_FIX = "see whether the host is up, and run `dmesg` there"
UNREADABLE_FIX = "see what its tools print there (`dmesg`, `nvidia-smi -q`, `amd-smi metric`)"

_WORDS = {KERNEL_LOG: ("kernel_log_and_ends", PATTERN), NETWORK: ("nic_counters", "/sys")}
_GPU_WORDS = ("gpu_counters", "")


async def look(
    host: Host, timeout_s: float, groups: Collection[str] = GROUPS, vendors: Collection[str] = VENDORS
) -> Reading:
    """What a host counts, of `vendors`' GPUs at least; one that does not answer makes a reading that says why."""
    words = [word for group in groups for word in _WORDS.get(group, ())]
    if {ECC, THROTTLE} & set(groups):
        words += _GPU_WORDS  # last: these are the tools that hang
    try:
        async with asyncio.timeout(timeout_s):
            answers = await probe(host, words, TOOL_S, timeout_s)
    except HostError as reason:
        return nothing_read(groups, redacted(reason.message.removeprefix(f"{host.name}: ")), UNANSWERED_FIX)
    except TimeoutError:
        return nothing_read(groups, f"no answer within {timeout_s:g} s", UNANSWERED_FIX)
    try:
        return read_counters(answers, groups, vendors)
    except Exception as reason:  # noqa: BLE001 - a host may answer anything, and a look is beside the run
        return nothing_read(groups, f"what it answered cannot be read ({type(reason).__name__})", UNREADABLE_FIX)
