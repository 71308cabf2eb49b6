"""The data source is a token file, but no file is named.

Why: the experiment cannot run. Two sides that choose different files train on different data.
Fix: set `data.path` to the file.
"""

from steelyard.frameworks.registry import facts
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY106", "error", may_be_allowed=False)


def check(case: Case) -> Problems:
    data = case.resolved.experiment.data
    framework = facts(case.resolved.platform.framework)
    if data.source != "tokens" or data.path or (framework.reads_named_datasets and data.dataset is not None):
        return
    file, expected = "/data/corpus_text_document", "the path of the tokenized corpus"
    if not framework.takes_tokens_from_tokenizer:
        file, expected = "corpus.npy", "a .npy file of token ids"
    message = "data.source is tokens, but data.path is missing"
    yield RULE.problem(case, "data.path", message, f"--set data.path=FILE, such as {file}", None, expected)
