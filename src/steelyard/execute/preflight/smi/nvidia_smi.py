"""Reads nvidia-smi: its CSV queries, and the CUDA version at the top of its table."""

import csv
import re

from steelyard.execute.preflight.probe import Section, Sections, count, known, number
from steelyard.execute.preflight.smi import GpuCounts, GpuProcess, Sample, SeenGpu, SeenGpus, counted, sampled

_CUDA = re.compile(r"CUDA Version: (?P<version>[\d.]+)")
_ECC = ("corrected", "uncorrected")
_HELD_BACK = ("sw_power_cap_us", "sw_thermal_slowdown_us", "hw_thermal_slowdown_us", "hw_power_brake_slowdown_us")


def read(sections: Sections) -> SeenGpus | None:
    """None if the output is missing or has other columns than requested."""
    rows = _rows(sections["nvidia_gpus"], 6)
    if rows is None:
        return None
    gpus = tuple(SeenGpu(index, known(name), _gib(used), number(busy)) for index, _, name, _, used, busy in rows)
    drivers = {row[3] for row in rows}
    driver = known(drivers.pop()) if len(drivers) == 1 else None
    cuda = _CUDA.search("\n".join(sections["nvidia_summary"].lines[:10]))
    return SeenGpus("nvidia-smi", gpus, _processes(sections), driver, cuda["version"] if cuda else None)


def read_errors(sections: Sections) -> GpuCounts | None:
    """Memory errors since the driver was loaded; empty for a GPU without ECC."""
    return _counts(sections["nvidia_ecc"], _ECC)


def read_throttle(sections: Sections) -> GpuCounts | None:
    """Throttling by cause, in microseconds."""
    return _counts(sections["nvidia_throttle"], _HELD_BACK)


def read_telemetry(sections: Sections) -> list[Sample] | None:
    """Power, memory, load, clocks, temperature, power cap and driver of each GPU."""
    rows = _rows(sections["nvidia_telemetry"], 10) or _rows(sections["nvidia_telemetry"], 8)
    if not rows:
        return None
    return [
        sampled(
            index,
            power_w=number(power),
            memory_used_gib=_gib(used),
            memory_total_gib=_gib(total),
            utilization_percent=number(busy),
            clock_mhz=number(clock),
            memory_clock_mhz=number(memory_clock),
            temperature_c=number(warm),
            power_limit_w=number(site[0]) if site else None,
            driver=known(site[1]) if site else None,
        )
        for index, power, used, total, busy, clock, memory_clock, warm, *site in rows
    ]


def _counts(section: Section, names: tuple[str, ...]) -> GpuCounts | None:
    """Columns: index, PCI address, one per name. The address is needed: a lost GPU shifts the indices of others."""
    rows = _rows(section, len(names) + 2)
    counts: GpuCounts = {}
    for index, bus, *cells in rows or ():
        counts |= counted(f"gpu{index} at {bus}", dict(zip(names, cells, strict=True)))
    return counts if rows else None


def _rows(section: Section, columns: int) -> list[list[str]] | None:
    rows = _cells(section)
    return rows if rows is not None and all(len(row) == columns for row in rows) else None


def _cells(section: Section) -> list[list[str]] | None:
    """None if the output is missing or not CSV; the csv module refuses very long cells."""
    if not section.answered:
        return None
    try:
        return [[cell.strip() for cell in row] for row in csv.reader(section.lines) if any(row)]
    except csv.Error:
        return None


def _gib(mib: str) -> float | None:
    value = number(mib)
    return None if value is None else value / 1024


def _processes(sections: Sections) -> tuple[GpuProcess, ...] | None:
    processes: dict[int, GpuProcess] = {}
    rows = _cells(sections["nvidia_processes"])
    for row in rows or ():
        pid = count(row[1]) if len(row) >= 3 else None
        if pid is None:
            return None
        processes[pid] = GpuProcess(pid, ", ".join(row[2:]))
    return None if rows is None else tuple(processes.values())
