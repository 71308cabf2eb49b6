"""Small specs of the trainer."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from steelyard.experiment.presets import PRESETS  # noqa: E402
from steelyard.trainer.spec import DataSpec, ModelSpec, Spec, TrainingSpec  # noqa: E402


def make_model(preset: str = "tiny-llama", **overrides: Any) -> ModelSpec:
    return ModelSpec(**{"rope_theta": None, "rope_scaling": None, **PRESETS[preset], **overrides})


def make_spec(preset: str = "tiny-llama", **overrides: Any) -> Spec:
    training = {
        "seed": 42,
        "micro_batch_size": 4,
        "global_batch_size": 4,
        "sequence_length": 32,
        "steps": 3,
        "learning_rate": 1e-2,
        "min_learning_rate": 0.0,
        "schedule": "cosine",
        "warmup_steps": 2,
        "decay_steps": None,
        "weight_decay": 0.1,
        "adam_beta1": 0.9,
        "adam_beta2": 0.95,
        "adam_epsilon": 1e-8,
        "clip_grad_norm": 1.0,
        "init_method_std": 0.02,
        "recompute": "none",
        **overrides.pop("training", {}),
    }
    data = {"source": "markov", "seed": 42, "path": None, "train_share": 1.0, "samples": None}
    rest = {
        "device": "cpu",
        "dtype": "fp32",
        "grad_reduce_in_fp32": False,
        "distributed_optimizer": True,
        "compile": False,
        "deterministic": True,
    }
    return Spec(
        model=make_model(preset, **overrides.pop("model", {})),
        training=TrainingSpec(**training),
        data=DataSpec(**(data | overrides.pop("data", {}))),
        **(rest | overrides),
    )


@pytest.fixture
def model_spec() -> Any:
    return make_model


@pytest.fixture
def spec() -> Any:
    return make_spec
