"""What tools say of a host while it trains, in one set of words; a figure they do not give is absent."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.execute.host import ThisHost
from steelyard.execute.preflight.probe import Section, Sections, read_sections
from steelyard.execute.telemetry import HostTelemetry, LocalTelemetry, TelemetryLostError, read_sample

H200 = read_sections((Path(__file__).parent / "h200.txt").read_bytes(), "MARK")
"""As a real host answered."""


def of(**documents: Any) -> Sections:
    return Sections({name: Section(0, tuple(json.dumps(one).splitlines())) for name, one in documents.items()})


def test_an_h200_tells_its_figures() -> None:
    assert read_sample(H200, "nvidia") == [
        {
            "device": "gpu0",
            "power_w": 94.24,
            "memory_used_gib": 0.0,
            "memory_total_gib": 143771 / 1024,
            "utilization_percent": 0.0,
            "clock_mhz": 345.0,
            "memory_clock_mhz": 3201.0,
            "temperature_c": 35.0,
        }
    ]


def test_a_host_without_gpus_tells_its_load_and_memory() -> None:
    (found,) = read_sample(H200, None)
    assert (found["device"], found["utilization_percent"]) == ("cpu", 0.0)
    assert found["memory_total_gib"] == pytest.approx(125.87, abs=0.01)
    assert found["memory_used_gib"] == pytest.approx(0.483, abs=0.001)


def test_amd_smi_gives_figures_with_their_units() -> None:
    row = {
        "gpu": 3,
        "power": {"socket_power": {"value": 612, "unit": "W"}},
        "mem_usage": {"used_vram": {"value": 1024, "unit": "MB"}, "total_vram": {"value": 196592, "unit": "MB"}},
        "usage": {"gfx_activity": {"value": 98, "unit": "%"}},
        "clock": {"gfx_0": {"clk": {"value": 1987, "unit": "MHz"}}, "mem_0": {"clk": "N/A"}},
        "temperature": {"hotspot": {"value": 71, "unit": "C"}},
    }
    (found,) = read_sample(of(amd_telemetry=[row]), "amd")
    assert found == {
        "device": "gpu3",
        "power_w": 612.0,
        "memory_used_gib": 1.0,
        "memory_total_gib": 196592 / 1024,
        "utilization_percent": 98.0,
        "clock_mhz": 1987.0,
        "temperature_c": 71.0,
    }


def test_rocm_smi_is_read_where_amd_smi_is_not_there() -> None:
    card = {
        "Current Socket Graphics Package Power (W)": "140.0",
        "GPU use (%)": "7",
        "VRAM Total Memory (B)": "2147483648",
    }
    (found,) = read_sample(of(rocm_telemetry={"card1": card, "system": {}}), "amd")
    assert found == {"device": "gpu1", "power_w": 140.0, "utilization_percent": 7.0, "memory_total_gib": 2.0}


@pytest.mark.parametrize("vendor", ["nvidia", "amd", None])
def test_what_tells_nothing_is_no_sample(vendor: str | None) -> None:
    silent = Sections({"nvidia_telemetry": Section(9, (), "no devices were found")})
    assert read_sample(silent, vendor) == []


def test_this_machine_answers_and_names_a_tool_that_does_not() -> None:
    for source in (HostTelemetry(ThisHost(), None), LocalTelemetry("cpu")):
        (sample,) = asyncio.run(source.sample())
        assert 0 <= float(sample["utilization_percent"]) <= 100
        assert 0 < float(sample["memory_used_gib"]) < float(sample["memory_total_gib"])
    with pytest.raises(TelemetryLostError, match="amd_telemetry: not installed; rocm_telemetry: not installed"):
        asyncio.run(HostTelemetry(ThisHost(), "amd").sample())


def test_a_driver_that_raises_anything_ends_the_telemetry_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("the driver is gone")

    monkeypatch.setattr("psutil.virtual_memory", broken)
    with pytest.raises(TelemetryLostError, match="OSError: the driver is gone"):
        asyncio.run(LocalTelemetry("cpu").sample())
