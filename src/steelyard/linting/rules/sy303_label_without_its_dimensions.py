"""The name of a model does not match its dimensions.

Why: people read a result by the name, but it is computed from the dimensions. With 405B dimensions under the name
70b, every throughput looks wrong.
Fix: use the dimensions of the named model, or the name of the model with these dimensions.
"""

import json
from collections.abc import Mapping
from typing import Any

from steelyard.configs.cvs.keys import DIMENSIONS, LAYER_OF_LLAMA
from steelyard.experiment.presets import PRESETS
from steelyard.linting.rule import Edit, Problems, Reading, Rule, preset_of

RULE = Rule("SY303", "error", on="reading")

SIZES = ("hidden_size", "num_layers", "num_attention_heads", "ffn_hidden_size")


def check(reading: Reading) -> Problems:
    preset, known = preset_of(reading)
    if not known or reading.family == "steelyard":
        return
    yield from _dimensions(reading, preset, known)
    if known["architecture"] == "llama":
        yield from _layer(reading, preset)
    size, billions = reading.params.get("model_size"), preset.rpartition("-")[2].removesuffix("b")
    if size is not None and billions != size.value.lower().removesuffix("b"):
        message = f"model_size is {size.value} under {reading.model_key}"
        yield RULE.at(reading, size, message, f'write "{billions}"', billions, choices=[Edit(size.path, billions)])


def _layer(reading: Reading, preset: str) -> Problems:
    """MaxText's type of layer and its activations, which the preset decides like the dimensions."""
    for name, expected in LAYER_OF_LLAMA.items():
        stated = reading.params.get(name)
        if stated is not None and stated.value != expected:
            written = json.dumps(expected)
            message = f"{name} is {stated.value} under {reading.model_key}"
            fix = f"write {written}, or remove it: the preset {preset} decides"
            edit = Edit(stated.path, expected)
            yield RULE.at(reading, stated, message, fix, f"{written}, the value of {preset}", corrections=[edit])


def _dimensions(reading: Reading, preset: str, known: Mapping[str, Any]) -> Problems:
    stated = {
        dotted.removeprefix("model."): (name, reading.params[name])
        for name, dotted in DIMENSIONS.items()
        if name in reading.params and name != "vocab_size"
    }
    sizes = {key: stated[key][1].value for key in SIZES if key in stated}
    others = (name for name, model in PRESETS.items() if name != preset and sizes and sizes.items() <= model.items())
    other = next(others, None)
    for key, (name, dimension) in stated.items():
        if dimension.value != known[key]:
            owner = f", the value of {other}" if other and key in SIZES else ""
            message = f"{name} is {dimension.value} under {reading.model_key}{owner}"
            fix = f'write "{known[key]}", or remove it: the preset {preset} decides'
            edit = Edit(dimension.path, str(known[key]))
            yield RULE.at(reading, dimension, message, fix, f"{known[key]}, the value of {preset}", corrections=[edit])
