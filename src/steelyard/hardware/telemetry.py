"""Power, memory, clocks and temperature while a run goes on: NVML where there is a GPU, psutil otherwise."""

from collections.abc import Callable
from typing import Any

Sample = dict[str, Any]
"""One device at one moment; a figure the device does not give is absent."""

GIB = 1024**3


class Telemetry:
    """Open it, call `sample` as often as wanted, close it."""

    def __init__(self, device: str) -> None:
        self._source = _Nvml() if device == "gpu" else _Psutil()

    def sample(self) -> list[Sample]:
        """The present figures of each device."""
        return self._source.sample()

    def close(self) -> None:
        self._source.close()


class _Psutil:
    def __init__(self) -> None:
        import psutil

        self._psutil = psutil
        psutil.cpu_percent()  # the first call only sets the zero

    def sample(self) -> list[Sample]:
        memory = self._psutil.virtual_memory()
        found: Sample = {
            "device": "cpu",
            "utilization_percent": self._psutil.cpu_percent(),
            "memory_used_gib": (memory.total - memory.available) / GIB,
            "memory_total_gib": memory.total / GIB,
        }
        frequency = self._psutil.cpu_freq()
        if frequency and frequency.current:
            found["clock_mhz"] = frequency.current
        return [found]

    def close(self) -> None:
        return


class _Nvml:
    def __init__(self) -> None:
        import pynvml

        self._nvml = pynvml
        self._handles: list[Any] = []
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return  # an AMD GPU, or no driver: nothing is sampled and nothing is made up
        self._handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]

    def sample(self) -> list[Sample]:
        return [self._device(index, handle) for index, handle in enumerate(self._handles)]

    def _device(self, index: int, handle: Any) -> Sample:
        nvml = self._nvml
        found: Sample = {"device": f"gpu{index}"}
        figures: dict[str, Callable[[], float]] = {
            "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "memory_used_gib": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used / GIB,
            "memory_total_gib": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total / GIB,
            "utilization_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        }
        for name, read in figures.items():
            try:
                found[name] = read()
            except nvml.NVMLError_NotSupported:
                continue
        return found

    def close(self) -> None:
        if self._handles:
            self._nvml.nvmlShutdown()
