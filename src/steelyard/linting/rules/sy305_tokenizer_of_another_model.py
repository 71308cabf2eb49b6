"""The tokenizer is another model's, or that of a model there is none of.

Why: the repository is asked for when the job starts, on every node; and a tokenizer of another vocabulary trains
another model. Llama 3 came in 8B and 70B, Llama 3.1 in 8B, 70B and 405B.
Fix: name the model's own tokenizer.
"""

import re
from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY305", "error")

RELEASED = {"3": ("8", "70"), "3.1": ("8", "70", "405"), "3.2": ("1", "3"), "3.3": ("70",), "2": ("7", "13", "70")}
"""Sizes, in billions, of Meta's text models."""

_LLAMA = re.compile(r"llama[-_ ]?(?P<version>[23](?:[._]\d)?)[-_ ]?(?P<size>\d+)[-_ ]?b", re.IGNORECASE)


def check(case: Case) -> Iterator[Problem]:
    experiment = case.resolved.experiment
    stated = case.reading.params.get("tokenizer_model")
    name = stated.value if stated else experiment.data.tokenizer
    preset = experiment.model.preset or ""
    if not isinstance(name, str):
        return
    if not (found := _LLAMA.search(name)):
        yield from _other_family(case, name)
        return
    version, size = found["version"].replace("_", "."), found["size"]
    path = stated.path if stated else case.reading.paths.get("data.tokenizer", ("data", "tokenizer"))
    if size not in RELEASED.get(version, ()):
        sizes = ", ".join(f"{one}B" for one in RELEASED.get(version, ()))
        yield RULE.at(
            case.reading,
            path,
            message=f"the tokenizer is {name}, and there is no Llama {version} of {size}B",
            fix=f'write "meta-llama/Llama-3.1-{size}B"' if size in RELEASED["3.1"] else "name one that was released",
            value=name,
            expected=f"Llama {version} of {sizes}" if sizes else "a released Llama",
        )
    elif not preset.startswith("llama") and not 128000 <= experiment.model.vocab_size <= 129024 and version != "2":
        yield RULE.at(
            case.reading,
            path,
            message=f"the tokenizer is {name}, and the model's vocabulary {experiment.model.vocab_size:,}",
            fix="name the model's own tokenizer",
            value=name,
            expected="a tokenizer of the model's vocabulary",
        )
    elif preset.startswith("llama3") and version.startswith("2"):
        yield RULE.at(
            case.reading,
            path,
            message=f"the tokenizer is {name}, whose vocabulary of 32,000 is not {preset}'s",
            fix=f'write "meta-llama/Llama-3.1-{size}B"',
            value=name,
            expected="a tokenizer of Llama 3",
        )
    elif preset.startswith("llama3.1-") and size != preset.removeprefix("llama3.1-").removesuffix("b"):
        yield RULE.at(
            case.reading,
            path,
            message=f"the tokenizer is {name} under {preset}",
            fix="name the model's own",
            value=name,
            expected=f"a repository of {preset.removeprefix('llama3.1-').upper()}",
            severity="warning",
        )


VOCABULARIES = {r"\bgpt-?2": (50257, 50304), r"qwen[-_]?2": (151643, 152064), r"mistral": (32000, 131072)}
"""Fewest and most entries, padding included, of the tokenizers people name most."""


def _other_family(case: Case, name: str) -> Iterator[Problem]:
    vocabulary = case.resolved.experiment.model.vocab_size
    path = case.reading.paths.get("data.tokenizer", ("data", "tokenizer"))
    for pattern, (fewest, most) in VOCABULARIES.items():
        if re.search(pattern, name, re.IGNORECASE) and not fewest <= vocabulary <= most:
            yield RULE.at(
                case.reading,
                path,
                message=f"the tokenizer is {name}, and the model's vocabulary {vocabulary:,}",
                fix="name the model's own tokenizer, or set model.vocab_size",
                value=name,
                expected=f"a vocabulary of {fewest:,} to {most:,} for it",
            )
