"""Reads rocm-smi, the older tool: a JSON object with one key per card and one for the system."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from steelyard.execute.preflight.probe import LARGEST, Section, Sections, count, known, number
from steelyard.execute.preflight.smi import NAMELESS, GpuCounts, GpuProcess, Sample, SeenGpu, SeenGpus, counted, sampled

_CARD = re.compile(r"card\d+")
_PID = re.compile(r"PID(?P<pid>\d+)")
_RAS_GPU = re.compile(r"GPU\[(?P<index>\d+)\]")
_POWER = ("Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)")
_NAMES = ("Card Series", "Card series", "Device Name")


def read(sections: Sections) -> SeenGpus | None:
    """None if the output is missing or not an object of cards."""
    cards = _cards(sections["rocm_gpus"])
    if not cards:
        return None
    gpus = tuple(
        SeenGpu(
            index,
            next((name for label in _NAMES if (name := known(card.get(label)))), None),
            _gib(card.get("VRAM Total Used Memory (B)")),
            number(card.get("GPU use (%)")),
        )
        for index, card in cards.items()
    )
    driver = known(_system(sections["rocm_gpus"]).get("Driver version"))
    return SeenGpus("rocm-smi", gpus, _processes(sections["rocm_processes"]), driver, None)


def read_errors(sections: Sections) -> GpuCounts | None:
    """Errors of all blocks of each GPU, from a table: this output has no JSON form."""
    section = sections["rocm_ras"]
    gpu, sums = "", Counter[tuple[str, str]]()
    for line in section.lines if section.answered else ():
        if heading := _RAS_GPU.match(line):
            gpu = f"gpu{heading['index']}"
        elif gpu and len(words := line.split()) >= 4:  # a block that is off has no counts
            sums.update(counted(gpu, dict(zip(("corrected", "uncorrected"), words[-2:], strict=True))))
    return {key: min(value, LARGEST) for key, value in sums.items()} if gpu else None


def read_telemetry(sections: Sections) -> list[Sample] | None:
    """Power, memory, load and temperature of each GPU."""
    return [
        sampled(
            index,
            power_w=next((watt for name in _POWER if (watt := number(card.get(name))) is not None), None),
            memory_used_gib=_gib(card.get("VRAM Total Used Memory (B)")),
            memory_total_gib=_gib(card.get("VRAM Total Memory (B)")),
            utilization_percent=number(card.get("GPU use (%)")),
            temperature_c=number(card.get("Temperature (Sensor junction) (C)")),
        )
        for index, card in _cards(sections["rocm_telemetry"]).items()
    ] or None


def _object(section: Section) -> Mapping[str, Any] | None:
    content = section.json()
    return content if isinstance(content, dict) else None


def _cards(section: Section) -> dict[str, Mapping[str, Any]]:
    """Cards by index."""
    entries = (_object(section) or {}).items()
    return {key.removeprefix("card"): card for key, card in entries if _CARD.fullmatch(key) and isinstance(card, dict)}


def _system(section: Section) -> Mapping[str, Any]:
    system = (_object(section) or {}).get("system")
    return system if isinstance(system, dict) else {}


def _gib(size: object) -> float | None:
    value = number(size)
    return None if value is None else value / 2**30


def _processes(section: Section) -> tuple[GpuProcess, ...] | None:
    """`"PID1234": "python3, 8, 1234567, 0, 0"`: name, GPUs, memory."""
    if section.answered and not any("{" in line for line in section.lines):
        return ()  # it warns that there is no JSON to print: no process
    if _object(section) is None:
        return None
    processes = []
    for key, text in _system(section).items():
        words = [word.strip() for word in (known(text) or "").split(",")]
        if (match := _PID.fullmatch(key)) and words[1:3] != ["0", "0"]:  # a monitor uses no GPU and no memory
            pid = count(match["pid"])
            if pid is None:
                return None
            processes.append(GpuProcess(pid, words[0] or NAMELESS))
    return tuple(processes)
