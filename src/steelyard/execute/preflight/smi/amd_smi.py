"""Reads amd-smi. Its JSON depends on the version: a list, or the same list under `gpu_data`."""

from collections.abc import Mapping
from typing import Any

from steelyard.execute.preflight.probe import Section, Sections, count, known, number
from steelyard.execute.preflight.smi import NAMELESS, GpuCounts, GpuProcess, Sample, SeenGpu, SeenGpus, counted, sampled

_GIB_OF = {"B": 2.0**-30, "KB": 2.0**-20, "MB": 2.0**-10, "GB": 1.0}
"""Its MB are MiB."""
_ECC = {
    "corrected": "total_correctable_count",
    "uncorrected": "total_uncorrectable_count",
    "deferred": "total_deferred_count",
}
_HELD_BACK = tuple(
    f"{limit}_accumulated" for limit in ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")
)
_NO_PROCESS = "no running processes"


def read(sections: Sections) -> SeenGpus | None:
    """None if the output is missing or not a list of GPUs."""
    listed = _rows(sections["amd_list"])
    if listed is None:
        return None
    names = {_index(row): _inner(row, "asic").get("market_name") for row in _rows(sections["amd_static"]) or ()}
    metrics = {_index(row): row for row in _rows(sections["amd_metric"]) or ()}
    gpus = []
    for index in map(_index, listed):
        metric = metrics.get(index, {})
        used = _gib(_inner(metric, "mem_usage").get("used_vram"))
        gpus.append(SeenGpu(index, known(names.get(index)), used, _figure(_inner(metric, "usage").get("gfx_activity"))))
    version = (_rows(sections["amd_version"]) or [{}])[0]
    driver, rocm = (known(version.get(key)) for key in ("amdgpu_version", "rocm_version"))
    return SeenGpus("amd-smi", tuple(gpus), _processes(sections["amd_processes"]), driver, rocm)


def read_errors(sections: Sections) -> GpuCounts | None:
    """Errors of memory and caches; deferred errors are bad data that no program has used yet."""
    return _counts(sections["amd_ecc"], "ecc", _ECC)


def read_throttle(sections: Sections) -> GpuCounts | None:
    """Throttling by cause, in ticks of the firmware; from ROCm 6.3 and MI300 on."""
    return _counts(sections["amd_throttle"], "throttle", {name: name for name in _HELD_BACK})


def read_telemetry(sections: Sections) -> list[Sample] | None:
    """Power, memory, load, clocks and temperature of each GPU; the hotspot temperature decides throttling."""
    samples = []
    for row in _rows(sections["amd_telemetry"]) or ():
        memory, clocks, warm = _inner(row, "mem_usage"), _inner(row, "clock"), _inner(row, "temperature")
        samples.append(
            sampled(
                _index(row),
                power_w=_figure(_inner(row, "power").get("socket_power")),
                memory_used_gib=_gib(memory.get("used_vram")),
                memory_total_gib=_gib(memory.get("total_vram")),
                utilization_percent=_figure(_inner(row, "usage").get("gfx_activity")),
                clock_mhz=_figure(_inner(clocks, "gfx_0").get("clk")),
                memory_clock_mhz=_figure(_inner(clocks, "mem_0").get("clk")),
                temperature_c=_figure(warm.get("hotspot")),
            )
        )
    return samples or None


def _counts(section: Section, part: str, names: Mapping[str, str]) -> GpuCounts | None:
    rows = _rows(section)
    counts: GpuCounts = {}
    for row in rows or ():
        counts |= counted(f"gpu{_index(row)}", {name: _inner(row, part).get(key) for name, key in names.items()})
    return counts if rows else None


def _rows(section: Section) -> list[Mapping[str, Any]] | None:
    content = section.json()
    if isinstance(content, dict):
        content = content.get("gpu_data", [content])
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        return None
    return content


def _index(row: Mapping[str, Any]) -> str:
    return str(known(row.get("gpu")))


def _inner(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = row.get(key)
    return inner if isinstance(inner, dict) else {}


def _figure(figure: Any) -> float | None:
    return number(figure.get("value") if isinstance(figure, dict) else figure)


def _gib(figure: Any) -> float | None:
    """A size with its unit in a field or in the text; without a unit it is in MB."""
    value = _figure(figure)
    words = figure.split() if isinstance(figure, str) else []
    unit = str(figure.get("unit")) if isinstance(figure, dict) else words[1] if len(words) > 1 else "MB"
    return None if value is None or unit not in _GIB_OF else value * _GIB_OF[unit]


def _processes(section: Section) -> tuple[GpuProcess, ...] | None:
    rows = _rows(section)
    if rows is None:
        return None
    processes: dict[int, GpuProcess] = {}
    for row in rows:
        listed = row.get("process_list")
        for entry in listed if isinstance(listed, list) else []:
            info = entry.get("process_info", entry) if isinstance(entry, dict) else entry
            if isinstance(info, str) and (info == "N/A" or _NO_PROCESS in info.lower()):
                continue
            pid = count(info.get("pid")) if isinstance(info, dict) else None
            if pid is None:
                return None  # an entry that we cannot read may be a process
            processes[pid] = GpuProcess(pid, known(info.get("name")) or NAMELESS)
    return tuple(processes.values())
