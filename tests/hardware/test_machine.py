"""What CUDA_VISIBLE_DEVICES leaves of a machine."""

import pytest

from steelyard.hardware import machine

GPUS = [("GPU-aa11", "a"), ("GPU-bb22", "b"), ("GPU-cc33", "c")]


def test_this_machine_is_discovered_without_a_driver_or_with_one() -> None:
    found = machine.discover()
    assert found.cpu_count >= 1
    assert all(isinstance(name, str) for name in found.gpu_names)


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ("2,0", ("c", "a")),
        ("", ()),
        ("-1", ()),
        ("1,-1,0", ("b",)),
        ("GPU-bb", ("b",)),
        ("7", ()),
        ("MIG-123", ("MIG slice",)),
        ("GPU-zz", ()),
    ],
)
def test_visible_devices_divide_a_shared_machine(
    monkeypatch: pytest.MonkeyPatch, chosen: str, left: tuple[str, ...]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert machine.visible(GPUS) == left


def test_all_are_visible_where_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert machine.visible(GPUS) == ("a", "b", "c")
