"""rocm-smi: the older tool; a JSON object with a key a card and one for the system."""

import re
from collections.abc import Mapping
from typing import Any

from steelyard.execute.preflight.probe import Section, Sections
from steelyard.execute.preflight.smi import (
    LARGEST,
    NAMELESS,
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

_CARD = re.compile(r"card(?P<index>\d+)")
_PID = re.compile(r"PID(?P<pid>\d+)")
_RAS_GPU = re.compile(r"GPU\[(?P<index>\d+)\]")
_POWER = ("Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)")
_NAMES = ("Card Series", "Card series", "Device Name")


def read(sections: Sections) -> SeenGpus | None:
    """None where it did not answer, or answered what is no object of cards."""
    content = _object(sections["rocm_gpus"])
    cards = {key: value for key, value in (content or {}).items() if _CARD.fullmatch(key) and isinstance(value, dict)}
    if content is None or not cards:
        return None
    gpus = tuple(
        SeenGpu(
            key.removeprefix("card"),
            next((name for label in _NAMES if (name := known(card.get(label)))), None),
            _gib(number(card.get("VRAM Total Used Memory (B)"))),
            number(card.get("GPU use (%)")),
        )
        for key, card in cards.items()
    )
    system = content.get("system")
    driver = known(system.get("Driver version")) if isinstance(system, dict) else None
    return SeenGpus("rocm-smi", gpus, _processes(sections["rocm_processes"]), driver, None)


def read_errors(sections: Sections) -> list[GpuCount] | None:
    """Errors of all blocks of each GPU, from its table: it prints no JSON of them."""
    asked = sections["rocm_ras"]
    gpu, sums = "", dict[tuple[str, str], int]()
    for line in asked.lines if asked.answered else ():
        if found := _RAS_GPU.match(line):
            gpu = f"gpu{found['index']}"
        elif gpu and len(words := line.split()) >= 4:  # one that is off has no counts
            for one in counted(gpu, dict(zip(("corrected", "uncorrected"), words[-2:], strict=True))):
                sums[one.gpu, one.name] = sums.get((one.gpu, one.name), 0) + one.value
    return [GpuCount(gpu, name, min(value, LARGEST)) for (gpu, name), value in sums.items()] if gpu else None


def read_telemetry(sections: Sections) -> list[Sample] | None:
    """Power, memory, load and temperature of each GPU."""
    content = _object(sections["rocm_telemetry"]) or {}
    cards = {found["index"]: card for key, card in content.items() if (found := _CARD.fullmatch(key))}
    return [
        sampled(
            index,
            power_w=next((watt for name in _POWER if (watt := number(card.get(name))) is not None), None),
            memory_used_gib=_gib(number(card.get("VRAM Total Used Memory (B)"))),
            memory_total_gib=_gib(number(card.get("VRAM Total Memory (B)"))),
            utilization_percent=number(card.get("GPU use (%)")),
            temperature_c=number(card.get("Temperature (Sensor junction) (C)")),
        )
        for index, card in cards.items()
        if isinstance(card, dict)
    ] or None


def _object(section: Section) -> Mapping[str, Any] | None:
    content = section.json()
    return content if isinstance(content, dict) else None


def _gib(size: float | None) -> float | None:
    return None if size is None else size / 2**30


def _processes(section: Section) -> tuple[GpuProcess, ...] | None:
    """`"PID1234": "python3, 8, 1234567, 0, 0"`: name, GPUs, memory; none is no process."""
    if section.answered and not any("{" in line for line in section.lines):
        return ()  # it warns that there is no JSON to print
    content = _object(section)
    if content is None:
        return None
    system = content.get("system", {})
    found = []
    for key, said in system.items() if isinstance(system, dict) else ():
        words = [word.strip() for word in (known(said) or "").split(",")]
        if (match := _PID.fullmatch(key)) and words[1:3] != ["0", "0"]:  # a monitor holds no GPU and no memory
            pid = count(match["pid"])
            if pid is None:
                return None
            found.append(GpuProcess(pid, words[0] or NAMELESS))
    return tuple(found)
