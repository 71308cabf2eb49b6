"""The GPU catalog: aliases that are sure, and no others."""

import pytest

from steelyard.hardware.catalog import known_names, lookup


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("mi325", "mi325x"),
        ("MI300X", "mi300x"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("nvidia-h200", "h200"),
        ("AMD_Instinct_MI300X_OAM", "mi300x"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        (" b200 ", "b200"),
    ],
)
def test_an_alias_finds_its_gpu(spelling: str, name: str) -> None:
    found = lookup(spelling)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "other", ["NVIDIA H100 PCIe", "NVIDIA A100-SXM4-40GB", "MI300A", "mi300", "H100 NVL", "RTX 4090", ""]
)
def test_a_gpu_we_hold_no_figures_for_is_unknown_and_never_its_neighbour(other: str) -> None:
    assert lookup(other) is None


def test_peaks_are_dense_and_by_precision() -> None:
    peaks = {name: (lookup(name).peak_tflops("bf16"), lookup(name).peak_tflops("fp8")) for name in known_names()}
    assert peaks == {
        "a100": (312.0, None),
        "h100": (989.4, 1978.9),
        "h200": (989.4, 1978.9),
        "gh200": (989.0, 1979.0),
        "b200": (2250.0, 4500.0),
        "mi300x": (1307.4, 2614.9),
        "mi325x": (1307.4, 2614.9),
        "mi350x": (2306.9, 4613.7),
        "mi355x": (2516.6, 5033.2),
    }
    assert lookup("h100").peak_tflops("fp32") is None


def test_memory_is_what_runtimes_report_and_unknown_where_a_name_has_two_sizes() -> None:
    usable = {name: lookup(name).usable_gib for name in known_names()}
    assert usable["h100"] == 79.1
    assert usable["h200"] == 139.8
    assert usable["mi300x"] == 191.98
    assert usable["mi325x"] == 255.98
    assert usable["b200"] == 178.35
    assert usable["gh200"] is None
