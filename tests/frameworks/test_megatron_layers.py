"""Megatron-LM without Transformer Engine and Apex, and the recipe of its fp8, both from one experiment file."""

from pathlib import Path

import pytest

from steelyard.configs.choose import Asked, readings
from steelyard.configs.files import read_config
from steelyard.experiment import parse_settings, resolve
from steelyard.experiment.case import Case, place
from steelyard.frameworks.planner import Node, complete, refusals
from steelyard.frameworks.registry import planned, planner
from steelyard.hardware.machine import Machine

NODE = Node(rank=0, nodes=1, head="localhost", port=None, run_dir="/run/steelyard")
FILE = """
schema_version: 1
name: x
model: {preset: llama3.1-8b}
training: {micro_batch_size: 1, global_batch_size: 16, sequence_length: 2048, steps: 30, learning_rate: 1e-4}
data: {source: counting}
platforms: {p: {gpu: GPU, nodes: 1, gpus_per_node: 1, framework: FRAMEWORK}}
"""
NEED_A_LIBRARY = {
    "--no-masked-softmax-fusion",
    "--no-persist-layer-norm",
    "--no-rope-fusion",
    "--no-gradient-accumulation-fusion",
}
"""Flags without which Megatron-LM calls kernels of Transformer Engine or Apex."""


def case_of(tmp_path: Path, *settings: str, framework: str = "megatron", gpu: str = "h200") -> Case:
    path = tmp_path / "x.yaml"
    path.write_text(FILE.replace("FRAMEWORK", framework).replace("GPU", gpu))
    given = parse_settings(settings)
    reading = readings(read_config(path), Asked(platform="p", settings=given))[0]
    resolved = resolve(reading, given)
    return Case(resolved, place(resolved.platform, Machine((), cpu_count=2)))


def words(case: Case) -> list[str]:
    assert list(refusals(case)) == []
    return list(planner("megatron").command(complete(case), NODE).argv)


def after(flag: str, given: list[str]) -> str:
    return given[given.index(flag) + 1]


def test_without_transformer_engine_every_kernel_of_a_library_is_off(tmp_path: Path) -> None:
    given = words(case_of(tmp_path, "kernels.transformer_impl=local"))
    assert set(given) >= NEED_A_LIBRARY
    assert (after("--transformer-impl", given), after("--attention-backend", given)) == ("local", "unfused")


def test_with_transformer_engine_no_kernel_is_off(tmp_path: Path) -> None:
    given = words(case_of(tmp_path))
    assert not set(given) & NEED_A_LIBRARY
    assert (after("--transformer-impl", given), after("--attention-backend", given)) == ("transformer_engine", "auto")
    assert words(case_of(tmp_path, "kernels.transformer_impl=transformer_engine")) == given


def test_a_kernel_that_the_file_states_is_used(tmp_path: Path) -> None:
    settings = ("kernels.transformer_impl=local", "kernels.gradient_accumulation_fusion=true")
    given = words(case_of(tmp_path, *settings))
    assert NEED_A_LIBRARY - set(given) == {"--no-gradient-accumulation-fusion"}


def test_the_plan_records_the_kernels_that_follow(tmp_path: Path) -> None:
    kernels = complete(case_of(tmp_path, "kernels.transformer_impl=local")).resolved.experiment.kernels
    assert (kernels.apply_rope_fusion, kernels.masked_softmax_fusion, kernels.use_flash_attn) == (False, False, False)
    assert (kernels.bias_activation_fusion, kernels.bias_dropout_fusion) == (True, True)
    kernels = complete(case_of(tmp_path)).resolved.experiment.kernels
    assert (kernels.transformer_impl, kernels.apply_rope_fusion, kernels.use_flash_attn) == (
        "transformer_engine",
        True,
        None,
    )


@pytest.mark.parametrize("framework", ["megatron", "primus"])
@pytest.mark.parametrize(
    "setting",
    [
        "precision.fp8=hybrid",
        "parallelism.context_parallel_size=2",
        "parallelism.sequence_parallel=true",
        "kernels.use_flash_attn=true",
        "kernels.nvte_flash_attn=1",
        "kernels.persist_layer_norm=true",
    ],
)
def test_what_needs_transformer_engine_is_refused_without_it(tmp_path: Path, framework: str, setting: str) -> None:
    gpu = "mi300x" if framework == "primus" else "h200"
    settings = (setting, "parallelism.tensor_parallel_size=2", "parallelism.sequence_parallel=true")
    allowed = case_of(tmp_path, *settings, framework=framework, gpu=gpu)
    key = setting.partition("=")[0]
    assert key not in {refusal.key for refusal in refusals(allowed)}
    local = case_of(tmp_path, *settings, "kernels.transformer_impl=local", framework=framework, gpu=gpu)
    assert key in {refusal.key for refusal in refusals(local)}


def refused_keys(tmp_path: Path, framework: str, setting: str) -> set[str]:
    gpu = "mi300x" if framework == "primus" else "h200"
    return {refusal.key for refusal in refusals(case_of(tmp_path, setting, framework=framework, gpu=gpu))}


@pytest.mark.parametrize(
    ("setting", "refuse"),
    [
        ("kernels.transformer_impl=local", {"native", "nemo", "maxtext"}),
        ("kernels.transformer_impl=transformer_engine", {"native", "maxtext", "megatron-deepspeed"}),
        ("kernels.gradient_accumulation_fusion=true", {"native", "maxtext"}),
        ("precision.fp8_recipe=tensorwise", set(planned())),  # without fp8
    ],
)
def test_a_framework_without_the_setting_refuses_it(tmp_path: Path, setting: str, refuse: set[str]) -> None:
    key = setting.partition("=")[0]
    assert {name for name in planned() if key in refused_keys(tmp_path, name, setting)} == refuse


@pytest.mark.parametrize("recipe", ["delayed", "tensorwise", "blockwise", "mxfp8"])
def test_the_recipe_of_fp8_is_an_argument(tmp_path: Path, recipe: str) -> None:
    given = words(case_of(tmp_path, "precision.fp8=hybrid", f"precision.fp8_recipe={recipe}"))
    assert (after("--fp8-format", given), after("--fp8-recipe", given)) == ("hybrid", recipe)
    assert ("--fp8-amax-history-len" in given) == (recipe == "delayed")  # only delayed scaling has a history
