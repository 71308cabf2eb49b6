"""Made-up tokens are asked for beside a corpus, or a corpus without one.

Why: mock data wins without a word, and the run carries the name of data it never saw.
Fix: choose one: mock data, or the corpus.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem, Reading
from steelyard.linting.rule import Rule

RULE = Rule("SY116", "warning", on="reading")


def check(reading: Reading) -> Iterator[Problem]:
    if reading.family == "steelyard":
        return
    source = reading.content.get("data", {}).get("source")
    mock = reading.config.get("mock_data")
    kind = reading.params.get("dataset_type")
    if kind and mock and not kind.assumed and mock.value != (kind.value == "synthetic"):
        yield RULE.at(
            reading,
            mock.path,
            message=f"mock_data is {mock.value} and dataset_type is {kind.value}, which is what MaxText reads",
            fix=f'write "{kind.value == "synthetic"}", or change dataset_type',
            value=mock.value,
            expected=str(kind.value == "synthetic"),
            severity="error",
        )
    if source == "tokens":
        return
    for name in ("hf_train_files", "hf_path", "dataset_path"):
        if name in reading.params:
            yield RULE.at(
                reading,
                reading.params[name].path,
                message=f"{name} is {reading.params[name].value}, and the data are made up",
                fix=f"park it as _{name}, or train on it",
                value=reading.params[name].value,
            )
    if reading.content.get("data", {}).get("path") is not None:
        yield RULE.at(
            reading,
            reading.paths.get("data.path", ("config", "dataset_source")),
            message="dataset_source names a corpus, and mock_data is on",
            fix='write "mock_data": "False", or remove the corpus',
        )
