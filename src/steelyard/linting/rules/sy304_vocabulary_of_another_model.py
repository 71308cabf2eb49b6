"""The vocabulary is not that of the model.

Why: it decides the first loss, the size of the embeddings and the FLOPs of the logits. Runs with different
vocabularies are different jobs. 128526 instead of 128256 is the most common slip.
Fix: use the vocabulary of the model.
"""

from steelyard.linting.rule import Edit, Problems, Reading, Rule, Stated, preset_of

RULE = Rule("SY304", "error", on="reading")


def check(reading: Reading) -> Problems:
    preset, known = preset_of(reading)
    if not known:
        return
    vocabulary, stated = known["vocab_size"], reading.params.get("vocab_size")
    expected = f"{vocabulary}, the value of {preset}"
    if reading.family == "steelyard":
        own = reading.content["model"].get("vocab_size")
        if type(own) is int and own != vocabulary:
            message = f"model.vocab_size is {own}, but the preset is {preset}"
            fix = "remove it, unless you use another tokenizer"
            yield RULE.at(reading, Stated(own, ("model", "vocab_size")), message, fix, expected, "warning")
    elif stated is not None and stated.value != vocabulary:
        message = f"vocab_size is {stated.value} under {reading.model_key}"
        fix = f'write "{vocabulary}", or remove it: the preset {preset} decides'
        yield RULE.at(reading, stated, message, fix, expected, corrections=[Edit(stated.path, str(vocabulary))])
