"""What the arguments of Megatron-DeepSpeed mean, and how its logs are recognized without steps."""

import re
from pathlib import Path

import pytest

import seed003
import steelyard
from steelyard.records import Run


def imported(tmp_path: Path, text: str) -> Run:
    path = tmp_path / "a.log"
    path.write_text(text)
    return steelyard.ingest(path, name="a")


@pytest.mark.parametrize("fp8", [None, "hybrid", "e4m3"])
def test_two_flags_name_the_format_of_fp8(tmp_path: Path, fp8: str | None) -> None:
    text = re.sub(rf"(fp8_{fp8} \.+) False", r"\1 True", seed003.log("h100", 4))
    experiment = imported(tmp_path, text).manifest.experiment
    assert experiment.known("precision.fp8") == (True, fp8)


def test_one_flag_means_the_biases_of_all_layers(tmp_path: Path) -> None:
    text = seed003.log("h100", 4)
    assert imported(tmp_path, text).manifest.experiment.known("model.qkv_bias") == (True, True)


def test_a_log_without_steps_is_of_the_most_specific_framework_it_shows(tmp_path: Path) -> None:
    run = imported(tmp_path, seed003.log("h100", 16))
    assert (run.num_steps, run.manifest.framework) == (0, "megatron-deepspeed")
