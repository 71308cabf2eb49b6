"""What CUDA_VISIBLE_DEVICES leaves of a machine."""

import pytest

from steelyard.errors import InfrastructureError
from steelyard.hardware import machine


def test_this_machine_is_discovered_without_a_driver_or_with_one() -> None:
    found = machine.discover()
    assert found.cpu_count >= 1
    assert all(isinstance(name, str) for name in found.gpu_names)


def test_visible_devices_divide_a_shared_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    assert machine._visible(("a", "b", "c")) == ("c", "a")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert machine._visible(("a", "b", "c")) == ()


def test_a_device_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with pytest.raises(InfrastructureError, match="CUDA_VISIBLE_DEVICES is '7'"):
        machine._visible(("a",))
