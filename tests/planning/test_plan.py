"""The plan is what the arithmetic says and what will be executed."""

from pathlib import Path

import numpy as np
import pytest

from steelyard.configs.choose import Asked, one_reading
from steelyard.configs.files import read_config
from steelyard.errors import InputError
from steelyard.experiment import packaged, parse_settings, resolve
from steelyard.experiment.case import Case
from steelyard.experiment.sources import DERIVED, Origin, Source
from steelyard.hardware.machine import Machine
from steelyard.planning.make import make_plan
from steelyard.planning.plan import Plan
from steelyard.trainer.spec import Spec

LAPTOP = Machine((), cpu_count=2)


def planned(tmp_path: Path, *settings: str, machine: Machine = LAPTOP, **platform: object) -> tuple[Plan, Case]:
    path = tmp_path / "tiny.yaml"
    path.write_text(packaged.text("tiny-llama"))
    gpu, ranks = platform.get("gpu"), platform.get("gpus")
    resolved = resolve(one_reading(read_config(path), Asked()), parse_settings(settings), gpu, ranks)  # type: ignore[arg-type]
    made = make_plan(resolved, machine)
    return made.plan, made.case


def test_one_rank_runs_the_trainer_itself_and_several_run_under_torchrun(tmp_path: Path) -> None:
    alone, _ = planned(tmp_path)
    assert alone.nodes[0].argv[1:] == ["-m", "steelyard.trainer", "trainer.json"]
    several, _ = planned(tmp_path, gpus=4)
    assert several.nodes[0].argv[1:] == [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=4",
        "-m",
        "steelyard.trainer",
        "trainer.json",
    ]
    assert several.nodes[0].env["OMP_NUM_THREADS"] == "1"


def test_the_planned_file_is_what_the_trainer_takes(tmp_path: Path) -> None:
    from dataclasses import fields

    plan, _ = planned(tmp_path)
    (file,) = plan.nodes[0].files
    assert file.path == "trainer.json"
    assert set(file.content) == {field.name for field in fields(Spec)}


def test_expectations_are_those_of_accounting(tmp_path: Path) -> None:
    plan, _ = planned(
        tmp_path,
        "model.preset=llama3.1-8b",
        "training.sequence_length=2048",
        "training.micro_batch_size=2",
        "precision.dtype=bf16",
        gpu="h200",
        gpus=8,
    )
    expected = plan.expected
    assert expected.parameters == 8_030_261_248
    assert f"{expected.flops_per_token / 1e9:.3f}" == "46.639"
    assert expected.tokens_per_step == 64 * 2048
    assert expected.first_loss == pytest.approx(12.581, abs=1e-3)
    assert expected.loss_floor == pytest.approx(1.2130, abs=1e-4)
    assert expected.memory_gib_per_gpu == pytest.approx(sum(expected.memory_gib_by_component.values()))
    assert expected.peak_tflops_per_gpu == 989.4
    assert expected.seconds_at_peak == pytest.approx(46.639e9 * 64 * 2048 * 200 / (989.4e12 * 8), rel=1e-4)


def test_what_is_derived_is_filled_in_and_said_to_be(tmp_path: Path) -> None:
    _, case = planned(tmp_path, gpus=4)
    assert case.resolved.experiment.training.gradient_accumulation_steps == 2
    assert case.resolved.experiment.parallelism.data_parallel_size == 4
    assert case.resolved.sources["parallelism.data_parallel_size"] == DERIVED
    assert case.resolved.experiment.kernels.deterministic is True
    assert case.resolved.sources["kernels.deterministic"] == Source(Origin.FRAMEWORK, "native")


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("training.global_batch_size=63", 63, "a multiple of 8"),
        ("precision.fp8=hybrid", "hybrid", "null"),
        ("training.recompute=selective", "selective", "none or full"),
        ("parallelism.overlap_grad_reduce=true", True, "false"),
        ("kernels.enable_primus_turbo=true", True, "null or false"),
        ("kernels.use_flash_attn=false", False, "null or true"),
        ("data.source=tokens", None, "a .npy file of token ids"),
        ("model.vocab_size=4", 4, None),
        ("training.checkpointing=true", True, "false"),
    ],
)
def test_what_cannot_be_done_as_asked_is_refused_and_never_done_otherwise(
    tmp_path: Path, setting: str, value: object, expected: str | None
) -> None:
    with pytest.raises(InputError) as error:
        planned(tmp_path, setting)
    key = "data.path" if setting == "data.source=tokens" else setting.partition("=")[0]
    assert (error.value.key, error.value.value) == (key, value)
    assert (error.value.expected or "").startswith(expected or "")


def test_fp16_is_never_run_as_bf16(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected loss_scale: dynamic, because gradients underflow"):
        planned(tmp_path, "precision.dtype=fp16")
    with pytest.raises(InputError, match=r"precision.dtype is fp16.*, expected fp32 or bf16"):
        planned(tmp_path, "precision.dtype=fp16", "precision.loss_scale=dynamic")


def test_a_token_file_is_looked_for_beside_the_experiment(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data.path is corpus.npy, which cannot be read"):
        planned(tmp_path, "data.source=tokens", "data.path=corpus.npy")
    (tmp_path / "corpus.npy").write_bytes(b"not an array")
    with pytest.raises(InputError, match=r"data.path: .*"):
        planned(tmp_path, "data.source=tokens", "data.path=corpus.npy")
    np.save(tmp_path / "corpus.npy", np.zeros(100, dtype=np.int32))
    with pytest.raises(InputError, match="has 100 tokens, expected more than 128 for training"):
        planned(tmp_path, "data.source=tokens", "data.path=corpus.npy")
    np.save(tmp_path / "corpus.npy", np.zeros(1000, dtype=np.int32))
    plan, _ = planned(tmp_path, "data.source=tokens", "data.path=corpus.npy")
    assert plan.nodes[0].files[0].content["data"]["path"] == str(tmp_path / "corpus.npy")
    assert plan.expected.loss_floor is None
