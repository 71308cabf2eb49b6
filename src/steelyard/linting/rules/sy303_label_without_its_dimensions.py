"""A model's label and its dimensions are those of different models.

Why: figures are read by the label and computed from the dimensions; a "70b" with the dimensions of the 405B makes every
throughput in the file look impossible, or possible.
Fix: give the label's own dimensions, or the dimensions' own label.
"""

from collections.abc import Mapping
from typing import Any

from steelyard.configs.suite.keys import DIMENSIONS
from steelyard.experiment.presets import PRESETS
from steelyard.linting.rule import Problems, Reading, Rule, preset_of

RULE = Rule("SY303", "error", on="reading")

SIZES = ("hidden_size", "num_layers", "num_attention_heads", "ffn_hidden_size")


def check(reading: Reading) -> Problems:
    preset, known = preset_of(reading)
    if not known or reading.family == "steelyard":
        return
    yield from _dimensions(reading, preset, known)
    size, billions = reading.params.get("model_size"), preset.rpartition("-")[2].removesuffix("b")
    if size is not None and billions != size.value.lower().removesuffix("b"):
        message = f"model_size is {size.value} under {reading.model_key}"
        yield RULE.at(reading, size, message, f'write "{billions}"', billions)


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
            whose = f", which is {other}'s" if other and key in SIZES else ""
            message = f"{name} is {dimension.value} under {reading.model_key}{whose}"
            fix = f'write "{known[key]}", or remove it: the preset of {preset} decides'
            yield RULE.at(reading, dimension, message, fix, f"{known[key]}, as {preset} has")
