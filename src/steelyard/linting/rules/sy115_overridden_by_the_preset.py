"""A model dimension that MaxText's own preset overrides.

Why: MaxText applies the preset of `model_name` after the file, so the dimension has no effect. It stays behind when
the model is changed.
Fix: remove it, or put an underscore in front of its name, which disables it.
"""

from steelyard.configs.cvs.keys import DIMENSIONS, JAX, LAYER_OF_LLAMA
from steelyard.linting.rule import Problems, Reading, Rule, Stated, preset_of

RULE = Rule("SY115", "info", on="reading")


def check(reading: Reading) -> Problems:
    if reading.family != JAX:
        return
    _, preset = preset_of(reading)
    agreeing = [
        name
        for name, dotted in DIMENSIONS.items()
        if name in reading.params and preset.get(dotted.partition(".")[2]) == reading.params[name].value
    ]
    if preset.get("architecture") == "llama":
        layer = LAYER_OF_LLAMA.items()
        agreeing += [name for name, value in layer if name in reading.params and reading.params[name].value == value]
    if agreeing:
        message = f"{', '.join(agreeing)}: the preset of the model overrides them with the same values"
        yield RULE.at(reading, Stated(None, reading.params[agreeing[0]].path), message, "remove them")
