"""What a framework does where a run of it says nothing: its own table, and what no plan of ours leaves open."""

from collections.abc import Mapping
from typing import Any

from steelyard.experiment.presets import PRESETS
from steelyard.frameworks import MODULES, framework

_LLAMA_31 = PRESETS["llama3.1-8b"]["rope_scaling"]

_OTHERS: Mapping[str, Mapping[str, Any]] = {
    "megatron-bridge": {
        "training.micro_batch_size": 2,
        "training.global_batch_size": 32,
        "training.min_learning_rate": 3e-5,
        "training.warmup_steps": 500,
        "training.weight_decay": 0.033,  # the optimizer says 0.1, the scheduler starts and ends with this
        "training.adam_epsilon": 1e-8,
        "training.init_method_std": 0.02,
        "data.source": "counting",
        "data.split": "9999,8,2",
    },
    "torchtitan": {
        "training.micro_batch_size": 8,
        "training.sequence_length": 2048,
        "training.steps": 10000,
        "training.learning_rate": 8e-4,
        "training.min_learning_rate": 0.0,
        "training.schedule": "linear",
        "training.warmup_steps": 200,
        "training.weight_decay": 0.1,
        "training.adam_beta1": 0.9,
        "training.adam_beta2": 0.95,
        "training.adam_epsilon": 1e-8,
        "training.clip_grad_norm": 1.0,
        "training.init_method_std": "0.02 inside and hidden^-0.5 at the output, with no knob",
        "data.dataset": "c4_test",
    },
}
"""Frameworks that are read and not planned, so that no module of theirs holds a table."""

_MODELS: Mapping[str, Mapping[str, Any]] = {
    "model.norm_epsilon": {
        "megatron": 1e-5,
        "megatron-deepspeed": 1e-5,
        "primus": 1e-6,  # of its examples
        "nemo": 1e-5,
        "maxtext": 1e-5,
        "torchtitan": 1e-5,
    },
    "model.rope_theta": {
        "megatron": 10000,
        "megatron-deepspeed": 10000,
        "primus": 500000,
        "nemo": 500000,
        "maxtext": 10000,
        "torchtitan": 500000,
    },
    "model.rope_scaling": {"megatron": None, "nemo": _LLAMA_31, "maxtext": None, "torchtitan": _LLAMA_31},
    "model.tied_embeddings": {
        "megatron": True,
        "megatron-deepspeed": True,
        "primus": False,
        "nemo": False,
        "maxtext": False,
        "torchtitan": False,
    },
}
"""A plan states every dimension, so that these are for runs of others; as Llama recipes have them."""

TENTHS = {"a tenth of the peak": "training.learning_rate", "a tenth of the steps": "training.steps"}
"""Defaults that follow from another key."""


def default_of(name: str, dotted: str) -> tuple[bool, Any]:
    """Whether a framework's default is known, and what it is; null is one."""
    tables = [framework(name).silent_defaults] if name in MODULES else []
    tables.append(_OTHERS.get(name, {}))
    tables.append({key: values[name] for key, values in _MODELS.items() if name in values})
    return next(((True, table[dotted]) for table in tables if dotted in table), (False, None))
