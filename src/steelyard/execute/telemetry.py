"""Samples power, memory, load, clocks and temperature of this machine or a host during a run."""

import asyncio
import contextlib
import re
from collections.abc import Callable, Generator
from typing import Any, Protocol

from steelyard import records
from steelyard.execute.host import Host, HostError, LinkLostError
from steelyard.execute.preflight.probe import Section, Sections, count, number, probe
from steelyard.execute.preflight.smi import Sample, amd_smi, nvidia_smi, rocm_smi
from steelyard.execute.recording import Recording

_TOOL_S, _ANSWER_S = 8, 20.0
_CPU = "cpu"
_GIB = 1024**3
_MEMORY = re.compile(r"(?P<name>MemTotal|MemAvailable):\s+(?P<kib>\d+) kB")
_READERS = {"nvidia": (nvidia_smi.read_telemetry,), "amd": (amd_smi.read_telemetry, rocm_smi.read_telemetry)}


class TelemetryLostError(Exception):
    """Sampling has failed and will not work again."""


class TelemetrySource(Protocol):
    """Gives current figures of devices."""

    every_s: float
    """Seconds between two samples."""

    async def sample(self) -> list[Sample]:
        """One sample per device; a figure that the device does not give is absent."""

    def close(self) -> None:
        return


async def record_telemetry(source: TelemetrySource, host: str, recording: Recording) -> None:
    """Sample until cancelled. If sampling fails, the run continues and one event records it."""
    try:
        with contextlib.closing(source):
            while True:
                for sample in await source.sample():
                    recording.writer.append_telemetry({"time": records.now(), "node": host, **sample})
                await asyncio.sleep(source.every_s)
    except TelemetryLostError as reason:
        recording.event("telemetry_lost", str(reason), host)


class HostTelemetry(TelemetrySource):
    """A host: its GPUs of one vendor, or its CPU, in one round trip."""

    every_s = 10.0
    """AMD's tool alone uses a core for a second."""

    def __init__(self, host: Host, vendor: str | None) -> None:
        self._host, self._vendor = host, vendor

    async def sample(self) -> list[Sample]:
        try:
            sections = await probe(self._host, ["telemetry", self._vendor or _CPU], _TOOL_S, _ANSWER_S)
        except LinkLostError:
            return []  # the supervisor reports lost connections
        except HostError as reason:
            raise TelemetryLostError(str(reason)) from None
        try:
            samples = read_sample(sections, self._vendor)
        except Exception as reason:  # a host may answer anything; that must not end the run
            raise TelemetryLostError(f"unreadable output: {type(reason).__name__}") from reason
        if not samples:
            failed = [f"{name}: {tool.reason}" for name, tool in sections.by_name.items() if not tool.answered]
            raise TelemetryLostError("; ".join(failed) or "the output contains no figures")
        return samples


def read_sample(sections: Sections, vendor: str | None) -> list[Sample]:
    """The figures in the sections of one answer."""
    if vendor is None:
        return _of_host(sections["host_load"])
    return next((samples for read in _READERS[vendor] if (samples := read(sections))), [])


def _of_host(section: Section) -> list[Sample]:
    """Load as a share of the cores, and memory."""
    if not section.answered or len(section.lines) < 4:
        return []
    kib = {entry["name"]: count(entry["kib"]) for line in section.lines if (entry := _MEMORY.match(line))}
    load, cores = number(section.lines[0]), count(section.lines[-1])
    total_kib, free_kib = kib.get("MemTotal"), kib.get("MemAvailable")
    if load is None or not cores or total_kib is None or free_kib is None:
        return []
    return [_cpu_sample(min(100.0, 100 * load / cores), total_kib / 2**20, free_kib / 2**20)]


def _cpu_sample(utilization: float, total: float, free: float) -> Sample:
    memory = {"memory_used_gib": total - free, "memory_total_gib": total}
    return {"device": _CPU, "utilization_percent": utilization, **memory}


class LocalTelemetry(TelemetrySource):
    """This machine: NVML for GPUs, otherwise psutil."""

    every_s = 1.0

    def __init__(self, device: str) -> None:
        self._samples = _nvml_samples() if device == "gpu" else _psutil_samples()

    async def sample(self) -> list[Sample]:
        try:
            return next(self._samples)
        except Exception as reason:  # a driver may raise anything
            raise TelemetryLostError(f"{type(reason).__name__}: {reason}") from reason

    def close(self) -> None:
        self._samples.close()


def _psutil_samples() -> Generator[list[Sample]]:
    import psutil

    psutil.cpu_percent()  # the first call only sets the reference
    while True:
        memory = psutil.virtual_memory()
        sample = _cpu_sample(psutil.cpu_percent(), memory.total / _GIB, memory.available / _GIB)
        frequency = psutil.cpu_freq()
        if frequency and frequency.current:
            sample["clock_mhz"] = frequency.current
        yield [sample]


def _nvml_samples() -> Generator[list[Sample]]:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # an AMD GPU, or no driver: nothing to sample
        while True:
            yield []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        while True:
            yield [_nvml_sample(pynvml, index, handle) for index, handle in enumerate(handles)]
    finally:
        pynvml.nvmlShutdown()


def _nvml_sample(nvml: Any, index: int, handle: Any) -> Sample:
    sample: Sample = {"device": f"gpu{index}"}
    figures: dict[str, Callable[[], float | str]] = {
        "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "memory_used_gib": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used / _GIB,
        "memory_total_gib": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total / _GIB,
        "utilization_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "driver": lambda: str(nvml.nvmlSystemGetDriverVersion()),
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
    }
    for name, read in figures.items():
        with contextlib.suppress(nvml.NVMLError_NotSupported):
            sample[name] = read()
    return sample
