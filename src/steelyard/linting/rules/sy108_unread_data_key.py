"""The data are made up as they are needed, and a key names a corpus or a tokenizer.

Why: nothing reads it; the run would carry the name of data it never saw.
Fix: remove the key, or train on a token file.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.frameworks.registry import facts
from steelyard.linting.rule import Rule

RULE = Rule("SY108", "warning")


def check(case: Case) -> Iterator[Problem]:
    data = case.resolved.experiment.data
    if data.source == "tokens":
        return
    tokenizes = facts(case.resolved.platform.framework).takes_tokens_from_tokenizer
    for key in ("path", "dataset", *(() if tokenizes else ("tokenizer", "tokenizer_type"))):
        if (value := getattr(data, key)) is not None:
            yield RULE.problem(
                case,
                f"data.{key}",
                message=f"data.{key} is {value}, which nothing reads where data.source is {data.source}",
                fix=f"--set data.{key}=null",
                value=value,
                expected="null",
            )
