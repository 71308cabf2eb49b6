"""The reference pages of the suite's configs and of cluster files, from the tables that read them."""

from typing import Literal

from steelyard.configs.inventory import OUR_KEYS, SUITE_KEYS
from steelyard.configs.suite.keys import CONTAINER, DATASET, JAX, NOTHING, RESULTS, TABLES, UNREAD_ENV, Key, Keys
from steelyard.experiment.reference import table

_HEADS = {
    "megatron": """# Keys of a Megatron config

The JSON that ROCm's cluster validation suite trains Megatron-LM from. Made by `python docs/reference/make.py` from
the tables that read it.

A file has `config` and `model_params`; under `model_params`, `single_node` (every node runs a job of its own) or
`multi_node` (one job over all nodes), then a model such as `llama3_1_8b`, then a GPU such as `mi300x`. `--model`,
`--gpu` and `--nodes` select. The plan drives the image's `train_llama3.sh`, which fixes what a file cannot say:
learning rate 1e-4 to 1e-5 by a cosine over 320,000 steps, weight decay 0.1, betas 0.9 and 0.95, initial weights
0.02, rotary base 10,000. Those are in the plan's experiment with the script as their source.
""",
    "jax": """# Keys of a JAX config

The JSON that ROCm's cluster validation suite trains MaxText from. Made by `python docs/reference/make.py` from the
tables that read it.

A file has `config` and `model_params`; under `model_params`, `single_node` or `multi_node`, then a model, then a
GPU. The plan writes a YAML over MaxText's own `base.yml`. MaxText takes the model's dimensions from its preset of
that name, which comes after the file: dimensions in the file can only agree with it. Keys not listed are passed on
as they stand, with a warning.
""",
}

_RULES = """
Numbers and booleans may be text (`"500_000"`, `"1.0e-5"`, `"True"`, `"FALSE"`), `"''"` is empty. A key behind an
underscore is parked; `_example_KEY` suggests a value. `{user-id}`, `{user}`, `{home}`, `{home-mount-dir}` and
`{node-dir-name}` are filled in, in keys too. `<changeme>`, with or without text around it, must be filled where
the selection needs it: `steelyard lint FILE --fill` asks.
"""

_CLUSTER = """# Keys of a cluster file

Made by `python docs/reference/make.py` from the tables that read it. `steelyard lint` and `plan` take it as
`--cluster FILE`; `steelyard lint FILE` says what is wrong with it. The order of the hosts is the order of the
ranks, and the first is the head.
"""


def family_page(family: Literal["megatron", "jax"]) -> str:
    config, model = TABLES[family]
    parts = [
        _HEADS[family] + _RULES,
        _keys("config", config),
        _keys("config.container_config", CONTAINER),
        _keys("config.dataset_source", DATASET),
        _keys("model_params / section / model / GPU", model),
        _keys("result_dict", RESULTS),
    ]
    if family == JAX:
        rows = ((f"`{name}`", f"`{instead}` of the model" if instead else "") for name, instead in UNREAD_ENV.items())
        parts.append(table("Variables nothing reads", "variable, instead", rows))
    return "\n".join(parts)


def _keys(title: str, keys: Keys) -> str:
    rows = ((f"`{name}`", key.kind, key.default or "", key.meaning, _reads(key)) for name, key in keys.items())
    return table(title, "key, kind, default, meaning, what reads it", rows)


def _reads(key: Key) -> str:
    return f"`{key.reads}`" if " " not in key.reads and key.reads != NOTHING else key.reads


def cluster_page() -> str:
    parts = [_CLUSTER]
    for title, keys in (("Our own, in YAML", OUR_KEYS), ("The validation suite's, in JSON", SUITE_KEYS)):
        parts.append(table(title, "key, meaning", ((f"`{name}`", meaning) for name, meaning in keys.items())))
    return "\n".join(parts)
