"""A model's label and its dimensions are those of different models.

Why: figures are read by the label and computed from the dimensions; a "70b" with the dimensions of the 405B makes every
throughput in the file look impossible, or possible.
Fix: give the label's own dimensions, or the dimensions' own label.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from steelyard.configs.suite.keys import DIMENSIONS
from steelyard.experiment import Problem, Reading
from steelyard.experiment.presets import PRESETS
from steelyard.linting.rule import Rule

RULE = Rule("SY303", "error", on="reading")

SIZES = ("hidden_size", "num_layers", "num_attention_heads", "ffn_hidden_size")


def check(reading: Reading) -> Iterator[Problem]:
    preset = reading.content.get("model", {}).get("preset") if isinstance(reading.content.get("model"), dict) else None
    known = PRESETS.get(preset) if isinstance(preset, str) else None
    if known is None or reading.family == "steelyard":
        return
    yield from _dimensions(reading, str(preset), known)
    size = reading.params.get("model_size")
    if size is not None and _billions(str(preset)) != size.value.lower().removesuffix("b"):
        yield RULE.at(
            reading,
            size.path,
            message=f"model_size is {size.value} under {reading.model_key}",
            fix=f'write "{_billions(str(preset))}"',
            value=size.value,
            expected=_billions(str(preset)),
        )


def _dimensions(reading: Reading, preset: str, known: Mapping[str, Any]) -> Iterator[Problem]:
    stated = {
        dotted.removeprefix("model."): (name, reading.params[name])
        for name, dotted in DIMENSIONS.items()
        if name in reading.params and name != "vocab_size"
    }
    other = next((name for name, theirs in PRESETS.items() if name != preset and _all_of(stated, theirs)), None)
    for key, (name, found) in stated.items():
        if found.value != known[key]:
            whose = f", which is {other}'s" if other and key in SIZES else ""
            yield RULE.at(
                reading,
                found.path,
                message=f"{name} is {found.value} under {reading.model_key}{whose}",
                fix=f'write "{known[key]}", or remove it: the preset of {preset} decides',
                value=found.value,
                expected=f"{known[key]}, as {preset} has",
            )


def _all_of(stated: Mapping[str, tuple[str, Any]], theirs: Mapping[str, Any]) -> bool:
    sizes = [key for key in SIZES if key in stated]
    return bool(sizes) and all(stated[key][1].value == theirs[key] for key in sizes)


def _billions(preset: str) -> str:
    return preset.rpartition("-")[2].removesuffix("b")
