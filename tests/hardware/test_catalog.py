"""The GPU catalog: aliases that are sure, and no others."""

import pytest

from steelyard.hardware.catalog import known_names, lookup, nearest_gpu, same_gpu


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
        # As nvidia-smi, rocm-smi, torch and JAX print them.
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("Tesla V100-PCIE-32GB", "v100-pcie-32gb"),
        ("Tesla V100S-PCIE-32GB", "v100s"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA A40", "a40"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA GeForce RTX 5090", "rtx5090"),
        ("RTX 4090", "rtx4090"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA H20-3e", "h20-141gb"),
        ("NVIDIA H800", "h800"),
        ("NVIDIA H800 PCIe", "h800-pcie"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("NVIDIA GH200 120GB", "gh200-96gb"),
        ("NVIDIA GH200 144G HBM3e", "gh200-144gb"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("NVIDIA GB300", "gb300"),
        ("AMD Instinct MI210", "mi210"),
        ("AMD Instinct MI250X", "mi250x"),
        ("AMD Instinct MI300A", "mi300a"),
        ("AMD Instinct MI355 OAM", "mi355x"),
        ("Gaudi 2", "gaudi2"),
        ("HL-325L", "gaudi3"),
        ("TPU v4", "tpu-v4"),
        ("TPU v5 lite", "tpu-v5e"),
        ("TPU v5p", "tpu-v5p"),
        ("TPU v6 lite", "tpu-v6e"),
        ("TPU7x", "tpu-v7"),
    ],
)
def test_an_alias_finds_its_gpu(spelling: str, name: str) -> None:
    found = lookup(spelling)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "other",
    [
        "mi300",
        "NVIDIA H100",  # several variants print it
        "AMD Instinct MI250X/MI250",
        "AMD Instinct MI308X",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 5090 Laptop GPU",
        "NVIDIA A10G",
        "NVIDIA RTX 6000 Ada Generation",
        "",
    ],
)
def test_a_gpu_we_hold_no_figures_for_is_unknown_and_never_its_neighbour(other: str) -> None:
    assert lookup(other) is None


@pytest.mark.parametrize("name", ["gb100", "A10G", "RTX 4090 D", "h100 sxm3", "b20", "MI308X", "gb2"])
def test_no_other_gpu_is_suggested_for_a_complete_name(name: str) -> None:
    assert nearest_gpu(name) is None


def _peaks(name: str) -> dict[str, float]:
    gpu = lookup(name)
    assert gpu is not None
    return dict(gpu.peaks)


def test_peaks_are_dense_and_by_precision() -> None:
    bf16_and_fp8 = {
        "a100": (312.0, None),
        "a10": (125.0, None),
        "a40": (149.7, None),
        "l4": (121.0, 242.0),
        "l40s": (362.0, 733.0),
        "rtx3090": (71.2, None),
        "rtx4090": (165.2, 330.3),
        "rtx5090": (209.5, 419.0),
        "h100": (989.4, 1978.9),
        "h100-pcie": (756.4, 1512.9),
        "h100-nvl": (835.5, 1671.0),
        "h200": (989.4, 1978.9),
        "h20": (148.0, 296.0),
        "h800": (989.4, 1978.9),
        "gh200": (989.0, 1979.0),
        "b200": (2250.0, 4500.0),
        "gb200": (2500.0, 5000.0),
        "b300": (2250.0, 4500.0),
        "gb300": (2500.0, 5000.0),
        "mi210": (181.0, None),
        "mi250x": (191.5, None),
        "mi300a": (980.6, 1961.2),
        "mi300x": (1307.4, 2614.9),
        "mi325x": (1307.4, 2614.9),
        "mi350x": (2306.9, 4613.7),
        "mi355x": (2516.6, 5033.2),
        "gaudi2": (432.0, 865.0),
        "gaudi3": (1677.7, 1677.7),
        "tpu-v4": (275.0, None),
        "tpu-v5e": (197.0, None),
        "tpu-v5p": (459.0, 459.0),
        "tpu-v6e": (918.0, 918.0),
        "tpu-v7": (1153.5, 2307.0),
    }
    assert {name: (_peaks(name).get("bf16"), _peaks(name).get("fp8")) for name in bf16_and_fp8} == bf16_and_fp8
    volta = {name: _peaks(name) for name in ("v100-sxm2-32gb", "v100-pcie-32gb", "v100s")}
    assert [peaks["fp16"] for peaks in volta.values()] == [125.0, 112.0, 130.0]
    assert not any("bf16" in peaks for peaks in volta.values())
    assert _peaks("h100")["fp32"] == 494.7  # TF32
    assert _peaks("mi250x")["fp32"] == 47.9
    assert "fp32" not in _peaks("tpu-v5p")


UNITS_GHZ_OPERATIONS = {
    "v100": (80, 1.53, 1024),
    "v100-pcie-32gb": (80, 1.37, 1024),
    "v100s": (80, 1.597, 1024),
    "a100": (108, 1.41, 2048),
    "a10": (72, 1.695, 1024),
    "a40": (84, 1.74, 1024),
    "rtx3090": (82, 1.695, 512),
    "l4": (58, 2.04, 1024),
    "l40s": (142, 2.52, 1024),
    "rtx4090": (128, 2.52, 512),
    "rtx5090": (170, 2.407, 512),
    "h100": (132, 1.83, 4096),
    "h100-pcie": (114, 1.62, 4096),
    "mi210": (104, 1.7, 1024),
    "mi250x": (110, 1.7, 1024),
    "mi300x": (304, 2.1, 2048),
    "mi300a": (228, 2.1, 2048),
    "mi350x": (256, 2.2, 4096),
    "mi355x": (256, 2.4, 4096),
    "gaudi2": (2, 1.65, 2 * 256 * 256),
    "gaudi3": (8, 1.6, 2 * 256 * 256),
}


@pytest.mark.parametrize(("name", "derivation"), UNITS_GHZ_OPERATIONS.items())
def test_a_peak_follows_from_units_clock_and_operations(name: str, derivation: tuple[int, float, int]) -> None:
    units, ghz, operations = derivation
    assert _peaks(name)["fp16" if name.startswith("v100") else "bf16"] == pytest.approx(
        units * ghz * operations / 1e3, rel=0.015
    )


def test_memory_is_what_runtimes_report_and_unknown_where_a_name_has_two_sizes() -> None:
    usable = {name: lookup(name).usable_gib for name in known_names()}
    assert usable["h100"] == 79.1
    assert usable["h200"] == 139.8
    assert usable["mi300x"] == 191.98
    assert usable["mi325x"] == 255.98
    assert usable["b200"] == 178.35
    assert usable["gh200"] is None
    assert usable["v100"] is None
    assert (usable["gh200-96gb"], usable["gh200-144gb"]) == (95.58, 142.5)
    assert (usable["a100-40gb"], usable["mi250x"], usable["rtx4090"]) == (39.59, 63.98, 24.0)


def test_a_name_without_its_variant_means_each_variant() -> None:
    assert same_gpu("gh200", "NVIDIA GH200 120GB")
    assert same_gpu("Tesla V100-SXM2-16GB", "v100")
    assert not same_gpu("gh200-96gb", "gh200-144gb")
    assert not same_gpu("v100", "Tesla V100-PCIE-16GB")
    assert not same_gpu("h100", "NVIDIA H100 PCIe")
