"""A platform on actual hardware."""

import pytest

from steelyard.errors import InputError
from steelyard.experiment import Platform, Precision
from steelyard.experiment.case import place
from steelyard.hardware.machine import Machine

LAPTOP = Machine((), cpu_count=2)
H200 = Machine(("NVIDIA H200",) * 8, cpu_count=96)


def test_nothing_named_on_a_laptop_is_one_rank_on_its_cpu() -> None:
    placed = place(Platform(), LAPTOP)
    assert (placed.device, placed.world_size, placed.gpu, placed.label) == ("cpu", 1, None, "cpu")
    assert placed.peak_tflops(Precision(dtype="bf16")) is None


def test_nothing_named_on_a_gpu_machine_is_all_its_gpus() -> None:
    placed = place(Platform(), H200)
    assert (placed.device, placed.world_size, placed.label) == ("gpu", 8, "h200")
    assert placed.peak_tflops(Precision(dtype="bf16")) == 989.4
    assert placed.peak_tflops(Precision(dtype="bf16", fp8="hybrid")) == 1978.9
    assert placed.peak_tflops(Precision(dtype="fp32")) == 494.7


def test_cpu_may_be_asked_for_where_there_are_gpus() -> None:
    assert place(Platform(gpu="cpu", gpus_per_node=4), H200).world_size == 4


def test_a_discovered_gpu_outside_the_catalog_is_unknown_and_still_used() -> None:
    placed = place(Platform(), Machine(("NVIDIA A10G",), cpu_count=8))
    assert (placed.device, placed.gpu, placed.gpu_name) == ("gpu", None, "NVIDIA A10G")
    assert placed.peak_tflops(Precision()) is None


def test_the_label_of_any_gpu_may_be_part_of_a_directory_s_name() -> None:
    assert place(Platform(), Machine(("Quadro RTX 6000/8000",), cpu_count=8)).label == "quadro-rtx-6000-8000"


def test_a_named_gpu_needs_its_number() -> None:
    with pytest.raises(InputError, match="gpus_per_node is missing"):
        place(Platform(gpu="h100"), LAPTOP)


def test_several_kinds_are_not_averaged() -> None:
    with pytest.raises(InputError, match="several types of GPU"):
        place(Platform(), Machine(("NVIDIA H200", "NVIDIA A100-SXM4-80GB"), cpu_count=8))


def test_an_amd_machine_is_not_taken_for_a_cpu() -> None:
    amd = Machine((), cpu_count=8, unasked_amd_gpus=True)
    with pytest.raises(InputError, match="AMD GPUs"):
        place(Platform(), amd)
    assert place(Platform(gpu="mi300x", gpus_per_node=8), amd).world_size == 8
