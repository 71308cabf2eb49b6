"""nvidia-smi: its CSV queries, and the CUDA version at the head of its table."""

import csv
import re

from steelyard.execute.preflight.probe import Section, Sections
from steelyard.execute.preflight.smi import (
    GpuCount,
    GpuProcess,
    Sample,
    SeenGpu,
    SeenGpus,
    count,
    counted,
    known,
    number,
    sampled,
)

_CUDA = re.compile(r"CUDA Version: (?P<version>[\d.]+)")
_COLUMNS = 6
_ECC = ("corrected", "uncorrected")
_HELD_BACK = ("sw_power_cap_us", "sw_thermal_slowdown_us", "hw_thermal_slowdown_us", "hw_power_brake_slowdown_us")


def read(sections: Sections) -> SeenGpus | None:
    """None where it did not answer, or answered what it was not asked."""
    rows = _rows(sections["nvidia_gpus"], _COLUMNS)
    if rows is None:
        return None
    gpus = tuple(
        SeenGpu(index, known(name), _gib(number(used)), number(busy)) for index, _, name, _, used, busy in rows
    )
    drivers = {row[3] for row in rows}
    return SeenGpus(
        "nvidia-smi", gpus, _processes(sections), known(drivers.pop()) if len(drivers) == 1 else None, _cuda(sections)
    )


def read_errors(sections: Sections) -> list[GpuCount] | None:
    """Errors of the memory since the driver was loaded; none of a GPU without ECC."""
    return _counts(sections["nvidia_ecc"], _ECC)


def read_throttle(sections: Sections) -> list[GpuCount] | None:
    """For how long what held the clocks back."""
    return _counts(sections["nvidia_throttle"], _HELD_BACK)


def read_telemetry(sections: Sections) -> list[Sample] | None:
    """Power, memory, load, clocks and temperature of each GPU."""
    rows = _rows(sections["nvidia_telemetry"], 8)
    if not rows:
        return None
    return [
        sampled(
            index,
            power_w=number(power),
            memory_used_gib=_gib(number(used)),
            memory_total_gib=_gib(number(total)),
            utilization_percent=number(busy),
            clock_mhz=number(clock),
            memory_clock_mhz=number(memory_clock),
            temperature_c=number(warm),
        )
        for index, power, used, total, busy, clock, memory_clock, warm in rows
    ]


def _counts(section: Section, names: tuple[str, ...]) -> list[GpuCount] | None:
    """Index, PCI address and a column a name; with the address, since a GPU that is lost moves the others' indices."""
    rows = _rows(section, len(names) + 2)
    if not rows:
        return None
    return [
        one
        for index, bus, *cells in rows
        for one in counted(f"gpu{index} at {bus}", dict(zip(names, cells, strict=True)))
    ]


def _rows(section: Section, columns: int) -> list[list[str]] | None:
    rows = _cells(section)
    return rows if rows is not None and all(len(row) == columns for row in rows) else None


def _cells(section: Section) -> list[list[str]] | None:
    """None where it did not answer, or what it answered is no CSV: a cell may be too long to be one."""
    if not section.answered:
        return None
    try:
        return [[cell.strip() for cell in row] for row in csv.reader(section.lines) if any(row)]
    except csv.Error:
        return None


def _gib(mib: float | None) -> float | None:
    return None if mib is None else mib / 1024


def _processes(sections: Sections) -> tuple[GpuProcess, ...] | None:
    found: dict[int, GpuProcess] = {}
    rows = _cells(sections["nvidia_processes"])
    for row in rows or ():
        pid = count(row[1]) if len(row) >= 3 else None
        if pid is None:
            return None
        found[pid] = GpuProcess(pid, ", ".join(row[2:]))
    return None if rows is None else tuple(found.values())


def _cuda(sections: Sections) -> str | None:
    found = _CUDA.search("\n".join(sections["nvidia_summary"].lines[:10]))
    return found["version"] if found else None
