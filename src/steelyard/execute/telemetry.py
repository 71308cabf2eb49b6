"""Power, memory, load, clocks and temperature of a host while it trains: one question, one round trip."""

import re

from steelyard.execute.host import Host
from steelyard.execute.preflight.probing import probe
from steelyard.execute.preflight.sections import Section, Sections
from steelyard.execute.preflight.smi import Sample, amd_smi, count, number, nvidia_smi, rocm_smi

_TOOL_S, _ANSWER_S = 8, 20.0
_CPU = "cpu"
_MEMORY = re.compile(r"(?P<name>MemTotal|MemAvailable):\s+(?P<kib>\d+) kB")
_READERS = {"nvidia": (nvidia_smi.read_telemetry,), "amd": (amd_smi.read_telemetry, rocm_smi.read_telemetry)}


async def sample(host: Host, vendor: str | None) -> list[Sample]:
    """The present figures of each GPU of a vendor, or of the host itself; ValueError where its tool tells none."""
    sections = await probe(host, ["telemetry", vendor or _CPU], _TOOL_S, _ANSWER_S)
    try:
        found = read_sample(sections, vendor)
    except Exception as reason:  # a host may answer anything, and telemetry is beside the run
        raise ValueError(f"what was answered cannot be read ({type(reason).__name__})") from reason
    if not found:
        raise ValueError(_why(sections))
    return found


def read_sample(sections: Sections, vendor: str | None) -> list[Sample]:
    """What the sections tell."""
    if vendor is None:
        return _of_host(sections["host_load"])
    return next((found for read in _READERS[vendor] if (found := read(sections))), [])


def _why(sections: Sections) -> str:
    told = [f"{name}: {section.reason}" for name, section in sections.by_name.items() if not section.answered]
    return "; ".join(told) or "what was answered tells no figure"


def _of_host(section: Section) -> list[Sample]:
    """Load as a share of the cores, and memory."""
    if not section.answered or len(section.lines) < 4:
        return []
    kib = {found["name"]: count(found["kib"]) for line in section.lines if (found := _MEMORY.match(line))}
    load, cores = number(section.lines[0]), count(section.lines[-1])
    total_kib, free_kib = kib.get("MemTotal"), kib.get("MemAvailable")
    if load is None or not cores or total_kib is None or free_kib is None:
        return []
    total = total_kib / 2**20
    return [
        {
            "device": _CPU,
            "utilization_percent": min(100.0, 100 * load / cores),
            "memory_used_gib": total - free_kib / 2**20,
            "memory_total_gib": total,
        }
    ]
