"""The data are a file of tokens and no file is named.

Why: the experiment cannot be run as it stands, and two sides that fill the gap differently train on different data.
Fix: name the file under `data.path`.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.frameworks.registry import facts
from steelyard.linting.rule import Rule

RULE = Rule("SY106", "error")


def check(case: Case) -> Iterator[Problem]:
    data = case.resolved.experiment.data
    framework = facts(case.resolved.platform.framework)
    plain_ids = not framework.takes_tokens_from_tokenizer
    named = data.path or (data.dataset if framework.reads_named_datasets else None)
    if data.source == "tokens" and named is None:
        yield RULE.problem(
            case,
            "data.path",
            message="data.source is tokens and data.path is missing",
            fix=f"--set data.path={'corpus.npy' if plain_ids else '/data/corpus_text_document'}",
            expected="the .npy file of token ids" if plain_ids else "where the tokenized corpus lies",
        )
