"""nvidia-smi: its CSV queries, and the CUDA version at the head of its table."""

import csv
import re

from steelyard.cluster.preflight.sections import Sections
from steelyard.cluster.preflight.smi import GpuProcess, SeenGpu, SeenGpus, known, number

_CUDA = re.compile(r"CUDA Version: (?P<version>[\d.]+)")
_COLUMNS = 6


def read(sections: Sections) -> SeenGpus | None:
    """None where it did not answer, or answered what it was not asked."""
    asked = sections["nvidia_gpus"]
    rows = [[cell.strip() for cell in row] for row in csv.reader(asked.lines) if any(row)]
    if not asked.answered or any(len(row) != _COLUMNS for row in rows):
        return None
    gpus = tuple(
        SeenGpu(index, known(name), _gib(number(used)), number(busy)) for index, _, name, _, used, busy in rows
    )
    drivers = {row[3] for row in rows}
    return SeenGpus(
        "nvidia-smi", gpus, _processes(sections), known(drivers.pop()) if len(drivers) == 1 else None, _cuda(sections)
    )


def _gib(mib: float | None) -> float | None:
    return None if mib is None else mib / 1024


def _processes(sections: Sections) -> tuple[GpuProcess, ...] | None:
    asked = sections["nvidia_processes"]
    rows = [[cell.strip() for cell in row] for row in csv.reader(asked.lines) if any(row)]
    if not asked.answered or any(len(row) < 3 or not row[1].isdecimal() for row in rows):
        return None
    return tuple({int(row[1]): GpuProcess(int(row[1]), ", ".join(row[2:])) for row in rows}.values())


def _cuda(sections: Sections) -> str | None:
    found = _CUDA.search("\n".join(sections["nvidia_summary"].lines[:10]))
    return found["version"] if found else None
