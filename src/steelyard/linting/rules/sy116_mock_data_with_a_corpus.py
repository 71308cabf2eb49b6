"""Mock data is on although a corpus is named, or `mock_data` contradicts `dataset_type`.

Why: mock data wins without a warning. The run would carry the name of data that it never used.
Fix: choose one: mock data or the corpus.
"""

from steelyard.linting.rule import Edit, Problems, Reading, Rule, Stated

RULE = Rule("SY116", "warning", on="reading")


def check(reading: Reading) -> Problems:
    if reading.family == "steelyard":
        return
    data = reading.content.get("data", {})
    mock, kind = reading.config.get("mock_data"), reading.params.get("dataset_type")
    if kind and mock and not kind.assumed and mock.value != (synthetic := kind.value == "synthetic"):
        message = f"mock_data is {mock.value}, but dataset_type is {kind.value}, and dataset_type decides"
        fix = f'write "{synthetic}", or change dataset_type'
        yield RULE.at(reading, mock, message, fix, str(synthetic), "error", choices=[Edit(mock.path, str(synthetic))])
    if data.get("source") == "tokens":
        return
    for name in ("hf_train_files", "hf_path", "dataset_path"):
        if stated := reading.params.get(name):
            message = f"{name} is {stated.value}, but the run uses mock data"
            fix = f"rename it to _{name}, or turn mock data off"
            yield RULE.at(reading, stated, message, fix, corrections=[Edit(stated.path, rename=True)])
    if data.get("path") is not None:
        corpus = Stated(None, reading.paths.get("data.path", ("config", "dataset_source")))
        fix = 'write "mock_data": "False", or remove the corpus'
        yield RULE.at(reading, corpus, "dataset_source names a corpus, but mock_data is on", fix)
