"""A vocabulary that is not the model's.

Why: it decides the first loss, the size of the embeddings and the FLOPs of the logits; two runs that differ in it are
two jobs. 128526 for 128256 is the slip seen most.
Fix: give the model's own vocabulary.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem, Reading
from steelyard.experiment.presets import PRESETS
from steelyard.linting.rule import Rule

RULE = Rule("SY304", "error", on="reading")


def check(reading: Reading) -> Iterator[Problem]:
    model = reading.content.get("model")
    preset = model.get("preset") if isinstance(model, dict) else None
    known = PRESETS.get(preset) if isinstance(preset, str) else None
    stated = reading.params.get("vocab_size")
    if reading.family == "steelyard" and isinstance(model, dict) and known is not None:
        own = model.get("vocab_size")
        if type(own) is int and own != known["vocab_size"]:
            yield RULE.at(
                reading,
                ("model", "vocab_size"),
                message=f"model.vocab_size is {own} beside preset {preset}",
                fix="remove it, unless another tokenizer is meant",
                value=own,
                expected=f"{known['vocab_size']}, as {preset} has",
                severity="warning",
            )
        return
    if known is not None and stated is not None and stated.value != known["vocab_size"]:
        yield RULE.at(
            reading,
            stated.path,
            message=f"vocab_size is {stated.value} under {reading.model_key}",
            fix=f'write "{known["vocab_size"]}", or remove it: the preset of {preset} decides',
            value=stated.value,
            expected=f"{known['vocab_size']}, as {preset} has",
        )
