"""The data are made up as they are needed, and a key names a corpus or a tokenizer.

Why: nothing reads it; the run would carry the name of data it never saw.
Fix: remove the key, or train on a token file.
"""

from steelyard.frameworks.registry import facts
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY108", "warning")


def check(case: Case) -> Problems:
    data = case.resolved.experiment.data
    if data.source == "tokens":
        return
    tokenizes = facts(case.resolved.platform.framework).takes_tokens_from_tokenizer
    note = f", which nothing reads where data.source is {data.source}"
    for key in ("path", "dataset", *(() if tokenizes else ("tokenizer", "tokenizer_type"))):
        if (value := getattr(data, key)) is not None:
            yield RULE.wrong(case, f"data.{key}", value, "null", "null", note)
