"""A dimension that MaxText's own preset of the model overrides.

Why: model_name comes after the file, so the dimension does nothing, and stays behind when the model is changed.
Fix: remove it, or park it behind an underscore.
"""

from steelyard.configs.suite.keys import DIMENSIONS, JAX
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
    if agreeing:
        message = f"{', '.join(agreeing)}: the model's own preset overrides what the file says, here with the same"
        yield RULE.at(reading, Stated(None, reading.params[agreeing[0]].path), message, "remove them")
