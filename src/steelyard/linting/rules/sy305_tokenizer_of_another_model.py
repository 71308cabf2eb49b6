"""The tokenizer belongs to another model, or to one that does not exist.

Why: every node loads the tokenizer when the job starts. A tokenizer with another vocabulary trains another model.
Llama 3 was released with 8B and 70B, Llama 3.1 with 8B, 70B and 405B.
Fix: name the tokenizer of the model.
"""

import re

from steelyard.linting.rule import Case, Edit, Problems, Rule, Stated

RULE = Rule("SY305", "error")

RELEASED = {
    "2": ("7", "13", "70"),
    "3": ("8", "70"),
    "3.0": ("8", "70"),
    "3.1": ("8", "70", "405"),
    "3.2": ("1", "3", "11", "90"),
    "3.3": ("70",),
}
"""Sizes, in billions, of Meta's models; tokenizers of the models with vision (11B, 90B) are those of the others."""
VOCABULARIES = {r"\bgpt-?2": (50257, 50304), r"qwen[-_]?2": (151643, 152064), r"mistral": (32000, 131072)}
"""Fewest and most entries, including padding, of common tokenizers."""

_LLAMA = re.compile(r"llama[-_ ]?(?P<version>[23](?:[._]\d)?)[-_ ]?(?P<size>\d+)[-_ ]?b", re.IGNORECASE)
_LLAMA_31 = "llama3.1-"


def check(case: Case) -> Problems:
    name = case.resolved.experiment.data.tokenizer
    own = Stated(name, case.reading.paths.get("data.tokenizer", ("data", "tokenizer")))
    stated = case.reading.params.get("tokenizer_model", own)
    if not isinstance(stated.value, str):
        return
    if llama := _LLAMA.search(stated.value):
        yield from _llama(case, stated, llama["version"].replace("_", "."), llama["size"])
    else:
        yield from _other_family(case, Stated(stated.value, own.path))


def _llama(case: Case, stated: Stated, version: str, size: str) -> Problems:
    model, reading = case.resolved.experiment.model, case.reading
    preset, tokenizer = model.preset or "", f"the tokenizer is {stated.value}"
    own_size = preset.removeprefix(_LLAMA_31).removesuffix("b") if preset.startswith(_LLAMA_31) else None
    repository = f"meta-llama/Llama-3.1-{own_size}B"
    own = f'write "{repository}"' if own_size else "name the tokenizer of the model"
    edits = [Edit(stated.path, repository)] if own_size else []
    if size not in RELEASED.get(version, ()):
        sizes = ", ".join(f"{billions}B" for billions in RELEASED.get(version, ()))
        expected = f"Llama {version} with {sizes}" if sizes else "a released Llama"
        message, same_size = f"{tokenizer}, but Llama {version} was not released with {size}B", size == own_size
        corrections, choices = (edits, []) if same_size else ([], edits)
        yield RULE.at(reading, stated, message, own, expected, corrections=corrections, choices=choices)
    elif not preset.startswith("llama") and not 128000 <= model.vocab_size <= 129024 and version != "2":
        message = f"{tokenizer}, but the vocabulary of the model is {model.vocab_size:,}"
        yield RULE.at(reading, stated, message, own, "a tokenizer with that vocabulary", choices=edits)
    elif own_size and version.startswith("2"):
        message = f"{tokenizer} with a vocabulary of 32,000, but the model is {preset}"
        yield RULE.at(reading, stated, message, own, "a tokenizer of Llama 3", choices=edits)
    elif own_size and size != own_size:
        message, expected = f"{tokenizer}, but the model is {preset}", repository
        yield RULE.at(reading, stated, message, own, expected, "warning", choices=edits)


def _other_family(case: Case, stated: Stated) -> Problems:
    vocabulary = case.resolved.experiment.model.vocab_size
    for pattern, (fewest, most) in VOCABULARIES.items():
        if re.search(pattern, stated.value, re.IGNORECASE) and not fewest <= vocabulary <= most:
            message = f"the tokenizer is {stated.value}, but the vocabulary of the model is {vocabulary:,}"
            fix = "name the tokenizer of the model, or set model.vocab_size"
            yield RULE.at(case.reading, stated, message, fix, f"a vocabulary of {fewest:,} to {most:,}")
