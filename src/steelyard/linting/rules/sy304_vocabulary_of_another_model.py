"""A vocabulary that is not the model's.

Why: it decides the first loss, the size of the embeddings and the FLOPs of the logits; two runs that differ in it are
two jobs. 128526 for 128256 is the slip seen most.
Fix: give the model's own vocabulary.
"""

from steelyard.linting.rule import Problems, Reading, Rule, Stated, preset_of

RULE = Rule("SY304", "error", on="reading")


def check(reading: Reading) -> Problems:
    preset, known = preset_of(reading)
    if not known:
        return
    vocabulary, stated = known["vocab_size"], reading.params.get("vocab_size")
    expected = f"{vocabulary}, as {preset} has"
    if reading.family == "steelyard":
        own = reading.content["model"].get("vocab_size")
        if type(own) is int and own != vocabulary:
            message = f"model.vocab_size is {own} beside preset {preset}"
            fix = "remove it, unless another tokenizer is meant"
            yield RULE.at(reading, Stated(own, ("model", "vocab_size")), message, fix, expected, "warning")
    elif stated is not None and stated.value != vocabulary:
        message = f"vocab_size is {stated.value} under {reading.model_key}"
        fix = f'write "{vocabulary}", or remove it: the preset of {preset} decides'
        yield RULE.at(reading, stated, message, fix, expected)
