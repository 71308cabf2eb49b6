"""A dimension that MaxText's own preset of the model overrides.

Why: model_name comes after the file, so the dimension does nothing, and stays behind when the model is changed.
Fix: remove it, or park it behind an underscore.
"""

from collections.abc import Iterator

from steelyard.configs.suite.keys import DIMENSIONS, JAX
from steelyard.experiment import Problem, Reading
from steelyard.experiment.presets import PRESETS
from steelyard.linting.rule import Rule

RULE = Rule("SY115", "info", on="reading")


def check(reading: Reading) -> Iterator[Problem]:
    if reading.family != JAX:
        return
    preset = PRESETS.get(reading.content.get("model", {}).get("preset", ""), {})
    agreeing = [
        name
        for name, dotted in DIMENSIONS.items()
        if name in reading.params and preset.get(dotted.partition(".")[2]) == reading.params[name].value
    ]
    if agreeing:
        yield RULE.at(
            reading,
            reading.params[agreeing[0]].path,
            message=f"{', '.join(agreeing)}: the model's own preset overrides what the file says, here with the same",
            fix="remove them",
        )
