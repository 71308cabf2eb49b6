"""How a run's hosts are set up: framework version, image, driver, power cap and clock, where they are recorded."""

import math
from typing import Any

from steelyard.frameworks.logs.settings import VERSION
from steelyard.verdict import Subject

_SAME_CLOCK = 0.05
"""Chips of one kind run at clocks a few percent apart."""
_BY_TELEMETRY = ("driver", "power_cap_w", "clock_mhz")
KEYS = tuple(f"platform.{name}" for name in ("framework_version", "image", *_BY_TELEMETRY))


class Clock(float):
    """The clock of a GPU, which varies between samples."""

    def is_like(self, other: "Clock") -> bool:
        return math.isclose(self, other, rel_tol=_SAME_CLOCK)


def recorded(subject: Subject, dotted: str) -> Any:
    """The value of one of `KEYS`; None if it is not recorded."""
    name = dotted.partition(".")[2]
    if name == "framework_version":
        software = subject.run.manifest.software
        return software.get(VERSION, software.get("torch"))
    if name == "image":
        ids = (event.details.get("ids") for event in subject.events_of("image"))
        return next((min(map(str, of_host.values())) for of_host in ids if isinstance(of_host, dict) and of_host), None)
    figures = subject.gpu_telemetry
    value = getattr(figures, name) if figures is not None else None
    return Clock(value) if name == "clock_mhz" and value is not None else value
