"""The tokenizer is another model's, or that of a model there is none of.

Why: the repository is asked for when the job starts, on every node; and a tokenizer of another vocabulary trains
another model. Llama 3 came in 8B and 70B, Llama 3.1 in 8B, 70B and 405B.
Fix: name the model's own tokenizer.
"""

import re

from steelyard.linting.rule import Case, Problems, Rule, Stated

RULE = Rule("SY305", "error")

RELEASED = {"3": ("8", "70"), "3.1": ("8", "70", "405"), "3.2": ("1", "3"), "3.3": ("70",), "2": ("7", "13", "70")}
"""Sizes, in billions, of Meta's text models."""
VOCABULARIES = {r"\bgpt-?2": (50257, 50304), r"qwen[-_]?2": (151643, 152064), r"mistral": (32000, 131072)}
"""Fewest and most entries, padding included, of the tokenizers people name most."""

_LLAMA = re.compile(r"llama[-_ ]?(?P<version>[23](?:[._]\d)?)[-_ ]?(?P<size>\d+)[-_ ]?b", re.IGNORECASE)


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
    model, of_meta = case.resolved.experiment.model, f'write "meta-llama/Llama-3.1-{size}B"'
    preset, tokenizer = model.preset or "", f"the tokenizer is {stated.value}"
    if size not in RELEASED.get(version, ()):
        message = f"{tokenizer}, and there is no Llama {version} of {size}B"
        fix = of_meta if size in RELEASED["3.1"] else "name one that was released"
        sizes = ", ".join(f"{billions}B" for billions in RELEASED.get(version, ()))
        yield RULE.at(
            case.reading, stated, message, fix, f"Llama {version} of {sizes}" if sizes else "a released Llama"
        )
    elif not preset.startswith("llama") and not 128000 <= model.vocab_size <= 129024 and version != "2":
        message, fix = f"{tokenizer}, and the model's vocabulary {model.vocab_size:,}", "name the model's own tokenizer"
        yield RULE.at(case.reading, stated, message, fix, "a tokenizer of the model's vocabulary")
    elif preset.startswith("llama3") and version.startswith("2"):
        message = f"{tokenizer}, whose vocabulary of 32,000 is not {preset}'s"
        yield RULE.at(case.reading, stated, message, of_meta, "a tokenizer of Llama 3")
    elif preset.startswith("llama3.1-") and size != preset.removeprefix("llama3.1-").removesuffix("b"):
        message, expected = f"{tokenizer} under {preset}", f"a repository of {preset.removeprefix('llama3.1-').upper()}"
        yield RULE.at(case.reading, stated, message, "name the model's own", expected, "warning")


def _other_family(case: Case, stated: Stated) -> Problems:
    vocabulary = case.resolved.experiment.model.vocab_size
    for pattern, (fewest, most) in VOCABULARIES.items():
        if re.search(pattern, stated.value, re.IGNORECASE) and not fewest <= vocabulary <= most:
            message = f"the tokenizer is {stated.value}, and the model's vocabulary {vocabulary:,}"
            fix = "name the model's own tokenizer, or set model.vocab_size"
            yield RULE.at(case.reading, stated, message, fix, f"a vocabulary of {fewest:,} to {most:,} for it")
