"""Layers, their precedence and their sources."""

from pathlib import Path

import pytest

from steelyard.configs.choose import Asked, one_reading, readings
from steelyard.configs.files import read_config
from steelyard.errors import InputError
from steelyard.experiment import InvalidExperimentError, Resolved, packaged, parse_settings, resolve
from steelyard.experiment.sources import CONFIG, DEFAULT, SET, Origin, Source

FILE = """
schema_version: 1
name: layers
model: {preset: tiny-llama, hidden_size: 32, head_dim: 8}
training: {micro_batch_size: 2, global_batch_size: 8, sequence_length: 64, steps: 10, learning_rate: 3e-4}
platforms:
  one: {gpu: h100, gpus_per_node: 8, overrides: {training: {micro_batch_size: 1, learning_rate: 1e-4}}}
  two: {gpu: mi300x, gpus_per_node: 8}
"""


def load(tmp_path: Path, text: str = FILE, platform: str | None = "one", *settings: str) -> Resolved:
    path = tmp_path / "experiment.yaml"
    path.write_text(text)
    return resolve(one_reading(read_config(path), Asked(platform)), parse_settings(settings))


def complaint(tmp_path: Path, text: str, platform: str | None = "one") -> str:
    with pytest.raises(InputError) as error:
        load(tmp_path, text, platform)
    return str(error.value)


def test_each_layer_overrides_the_one_before_and_is_named_as_the_source(tmp_path: Path) -> None:
    found = load(tmp_path, FILE, "one", "training.learning_rate=5e-5")
    training, sources = found.experiment.training, found.sources
    assert (found.experiment.model.num_layers, sources["model.num_layers"]) == (2, Source(Origin.PRESET, "tiny-llama"))
    assert (found.experiment.model.hidden_size, sources["model.hidden_size"]) == (32, CONFIG)
    assert (training.micro_batch_size, sources["training.micro_batch_size"]) == (1, Source(Origin.PLATFORM, "one"))
    assert (training.learning_rate, sources["training.learning_rate"]) == (5e-5, SET)
    assert (training.adam_beta2, sources["training.adam_beta2"]) == (0.95, DEFAULT)


def test_every_value_has_a_source(tmp_path: Path) -> None:
    found = load(tmp_path)
    dumped = found.experiment.model_dump()
    for group in ("model", "training", "parallelism", "precision", "kernels", "data"):
        for key, value in dumped[group].items():
            if not isinstance(value, dict):
                assert f"{group}.{key}" in found.sources


def test_part_of_a_preset_s_nested_value_may_be_overridden(tmp_path: Path) -> None:
    text = FILE.replace("preset: tiny-llama, hidden_size: 32, head_dim: 8", "preset: llama3.1-8b")
    found = load(tmp_path, text, "one", "model.rope_scaling.factor=4")
    assert found.experiment.model.rope_scaling is not None
    assert found.experiment.model.rope_scaling.factor == 4
    assert found.experiment.model.rope_scaling.high_freq_factor == 4
    assert found.sources["model.rope_scaling.factor"] == SET
    assert load(tmp_path, text, "one", "model.rope_scaling=null").experiment.model.rope_scaling is None


def test_numbers_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    assert load(tmp_path, FILE, "two").experiment.training.learning_rate == 3e-4


def test_several_platforms_and_none_named_is_refused(tmp_path: Path) -> None:
    assert "has 2 platforms, expected one of one, two" in complaint(tmp_path, FILE, None)
    assert "platform 'three', expected one of one, two" in complaint(tmp_path, FILE, "three")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "learning_rate: 3e-4",
            "learning_rte: 3e-4",
            "training.learning_rte is not a known key, expected 'learning_rate'",
        ),
        ("name: layers", "name: layers\ntrainin: {}", "trainin is not a known key, expected 'training'"),
        ("steps: 10", "steps: '10'", "training.steps is '10', expected a whole number without quotes"),
        ("steps: 10", "steps: 1e1", "training.steps is 10.0, expected a whole number"),
        ("steps: 10", "steps: 0", "training.steps is 0, expected a number above 0"),
        ("steps: 10", "steps: true", "training.steps is true, expected a whole number"),
        ("steps: 10, ", "", "training.steps is missing, expected optimizer steps to train"),
        ("learning_rate: 3e-4", "learning_rate: .nan", "training.learning_rate is nan, expected a finite number"),
        ("learning_rate: 3e-4", "learning_rate: '3e-4'", "training.learning_rate is '3e-4', expected a number without"),
        ("preset: tiny-llama", "preset: llama3.1-9b", "model.preset is 'llama3.1-9b', which is not a known model"),
        ("gpu: h100", "gpu: h101", "'h101' is not in the catalog of GPUs, expected one of cpu, a100, h100"),
        ("gpu: h100", "gpuu: h100", "platforms.one.gpuu is not a known key, expected 'gpu'"),
        ("overrides: {training", "overrides: {trainng", "platforms.one.overrides.trainng is not a known key"),
        ("schema_version: 1", "schema_version: 2", "schema_version is 2, expected one of 1"),
        ("name: layers", "name: a/b", "'a/b' cannot name a directory"),
        ("  two:", "  2:", "platforms: 2 cannot name a directory"),
        ("  two:", "  'a/b':", "platforms: 'a/b' cannot name a directory"),
        ("name: layers", "name: layers\nthresholds: ['speed>=3']", "'speed' is not a metric"),
        ("name: layers", "name: layers\nthresholds: ['mfu=3']", "is not a threshold, expected METRIC>=V"),
        ("name: layers", "name: layers\nprecision: {dtype: fp16}", "expected loss_scale: dynamic"),
        (
            "name: layers",
            "name: layers\nprecision: {dtype: fp64}",
            "precision.dtype is 'fp64', expected one of fp32, bf16",
        ),
        ("name: layers", "name: layers\ndata: {split: '100'}", "expected three shares"),
        ("name: layers", "name: layers\n7: x", "expected a key that is text"),
        ("hidden_size: 32", "hidden_size: 32, num_attention_heads: 3", "expected a multiple of num_key_value_heads"),
    ],
)
def test_a_wrong_value_is_one_sentence_with_key_value_and_expectation(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    platform = "two" if "learning_rate" in old else "one"  # one overrides the learning rate
    sentence = complaint(tmp_path, FILE.replace(old, new), platform)
    assert says in sentence
    assert "\n" not in sentence
    assert "next: " in sentence


def test_every_problem_is_carried_and_the_first_is_said(tmp_path: Path) -> None:
    wrong = FILE.replace("steps: 10", "steps: 0").replace("sequence_length: 64", "sequence_length: -1")
    with pytest.raises(InvalidExperimentError) as error:
        load(tmp_path, wrong)
    assert {problem.pointer for problem in error.value.problems} == {"/training/steps", "/training/sequence_length"}
    assert "; 1 more problem: steelyard lint" in str(error.value)


@pytest.mark.parametrize("text", ["training.steps", "steps=3", "nothing.steps=3", "training.steps=[", "platforms.x=3"])
def test_a_setting_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--set"):
        parse_settings([text])


@pytest.mark.parametrize("name", [name for name in packaged.DESCRIPTIONS if name != packaged.CLUSTER])
def test_packaged_files_resolve_on_every_platform(name: str, tmp_path: Path) -> None:
    path = tmp_path / packaged.file_name(name)
    path.write_text(packaged.text(name))
    for reading in readings(read_config(path), Asked()):
        assert resolve(reading).experiment.name


def test_no_source_is_named_for_a_value_that_is_not_there(tmp_path: Path) -> None:
    text = FILE.replace("preset: tiny-llama, hidden_size: 32, head_dim: 8", "preset: llama3.1-8b")
    sources = load(tmp_path, text, "one", "model.rope_scaling=null").sources
    assert sources["model.rope_scaling"] == SET
    assert not [key for key in sources if key.startswith("model.rope_scaling.")]


def test_a_pointer_leads_to_the_layer_that_is_wrong(tmp_path: Path) -> None:
    text = FILE.replace("micro_batch_size: 1, ", "micro_batch_size: 0, stepz: 1, ").replace("  one:", "  rocm7.2:")
    with pytest.raises(InvalidExperimentError) as error:
        load(tmp_path, text, "rocm7.2")
    assert {problem.pointer for problem in error.value.problems} == {
        "/platforms/rocm7.2/overrides/training/micro_batch_size",
        "/platforms/rocm7.2/overrides/training/stepz",
    }
    with pytest.raises(InvalidExperimentError) as error:
        load(tmp_path, text.replace("gpu: h100", "gpu: h999"), "rocm7.2")
    assert "/platforms/rocm7.2/gpu" in {problem.pointer for problem in error.value.problems}
