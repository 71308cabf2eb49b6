"""The data are a file of tokens and no file is named.

Why: the experiment cannot be run as it stands, and two sides that fill the gap differently train on different data.
Fix: name the file under `data.path`.
"""

from steelyard.frameworks.registry import facts
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY106", "error")


def check(case: Case) -> Problems:
    data = case.resolved.experiment.data
    framework = facts(case.resolved.platform.framework)
    if data.source != "tokens" or data.path or (framework.reads_named_datasets and data.dataset is not None):
        return
    file, expected = "/data/corpus_text_document", "where the tokenized corpus lies"
    if not framework.takes_tokens_from_tokenizer:
        file, expected = "corpus.npy", "the .npy file of token ids"
    message = "data.source is tokens and data.path is missing"
    yield RULE.problem(case, "data.path", message, f"--set data.path={file}", None, expected)
