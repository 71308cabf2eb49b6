"""The data is generated, but a key names a corpus or a tokenizer.

Why: nothing reads that key. The run would carry the name of data that it never used.
Fix: remove the key, or train on a token file (`data.source: tokens`).
"""

from steelyard.frameworks.registry import facts
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY108", "warning")


def check(case: Case) -> Problems:
    data = case.resolved.experiment.data
    if data.source == "tokens":
        return
    tokenizes = facts(case.resolved.platform.framework).takes_tokens_from_tokenizer
    note = f", but nothing reads it when data.source is {data.source}"
    for key in ("path", "dataset", *(() if tokenizes else ("tokenizer", "tokenizer_type"))):
        if (value := getattr(data, key)) is not None:
            yield RULE.wrong(case, f"data.{key}", value, "null", "null", note)
