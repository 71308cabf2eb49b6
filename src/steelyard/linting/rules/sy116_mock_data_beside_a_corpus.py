"""Made-up tokens are asked for beside a corpus, or a corpus without one.

Why: mock data wins without a word, and the run carries the name of data it never saw.
Fix: choose one: mock data, or the corpus.
"""

from steelyard.linting.rule import Problems, Reading, Rule, Stated

RULE = Rule("SY116", "warning", on="reading")


def check(reading: Reading) -> Problems:
    if reading.family == "steelyard":
        return
    data = reading.content.get("data", {})
    mock, kind = reading.config.get("mock_data"), reading.params.get("dataset_type")
    if kind and mock and not kind.assumed and mock.value != (made_up := kind.value == "synthetic"):
        message = f"mock_data is {mock.value} and dataset_type is {kind.value}, which is what the run reads"
        fix = f'write "{made_up}", or change dataset_type'
        yield RULE.at(reading, mock, message, fix, str(made_up), "error")
    if data.get("source") == "tokens":
        return
    for name in ("hf_train_files", "hf_path", "dataset_path"):
        if stated := reading.params.get(name):
            message = f"{name} is {stated.value}, and the data are made up"
            yield RULE.at(reading, stated, message, f"park it as _{name}, or train on it")
    if data.get("path") is not None:
        corpus = Stated(None, reading.paths.get("data.path", ("config", "dataset_source")))
        fix = 'write "mock_data": "False", or remove the corpus'
        yield RULE.at(reading, corpus, "dataset_source names a corpus, and mock_data is on", fix)
