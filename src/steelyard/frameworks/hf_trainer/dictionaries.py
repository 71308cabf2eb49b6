"""The dictionaries that the Trainer prints: of a step, of an evaluation, and the summary."""

import re
from collections.abc import Mapping

Values = Mapping[str, str]
"""Texts of a dictionary by key, without quotes."""

_DICTIONARY = re.compile(rb"\{(?P<pairs>'[^{}]{1,20000})\}")
_PAIR = re.compile(
    rb"'(?P<name>[^']{1,200})': ?"
    rb"(?:'(?P<quoted>[^']{0,200})'|(?P<plain>[^,'\[\](){}]{1,200}|\[[^\]]{0,5000}\]))(?:, |$)"
)
_NO_EPOCHS = 10**9
"""Epochs in the banner of a training whose number of steps was given."""


def values_of(body: bytes) -> Values | None:
    """A dictionary of the Trainer; None for any other text."""
    match = _DICTIONARY.search(body)
    if match is None:
        return None
    values: dict[str, str] = {}
    for pair in _PAIR.finditer(match["pairs"]):
        text = pair["quoted"] if pair["quoted"] is not None else pair["plain"]
        values[pair["name"].decode("utf-8", "replace")] = text.decode("utf-8", "replace").strip()
        if pair["name"] == b"epoch":
            values["quoted"] = "" if pair["quoted"] is None else "yes"
    of_step = "loss" in values and ("epoch" in values or "learning_rate" in values)
    of_evaluation = "loss" not in values and any(name.startswith("eval_") for name in values)
    return values if of_step or of_evaluation or "train_runtime" in values else None


def number_of(values: Values, name: str) -> float | None:
    """A number; None if it is missing or text."""
    try:
        return float(values.get(name, ""))
    except ValueError:
        return None


def epoch_of(values: Values) -> tuple[float | None, float]:
    """The epoch and its rounding: two decimals, four digits in quotes, or all digits."""
    epoch, text = number_of(values, "epoch"), values.get("epoch", "")
    if epoch is None or not 0 <= epoch < _NO_EPOCHS:
        return None, 0.0
    if values.get("quoted"):
        return epoch, 0.5e-3 * 10.0 ** (len(str(int(epoch))) - 1) if epoch >= 1 else 0.5e-4 * max(epoch * 10, 0.1)
    decimals = len(text.partition(".")[2])
    return epoch, 0.005 if decimals <= 2 and "e" not in text else 0.5 * 10.0**-decimals
