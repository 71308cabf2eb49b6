"""Settings that a record lacks: their names for people, and the options that add them."""

from collections.abc import Iterable

_NAMES = {
    "training.global_batch_size": "batch size",
    "training.sequence_length": "sequence length",
    "training.steps": "planned steps",
    "training.init_method_std": "init std",
    "precision.dtype": "precision",
    "precision.fp8": "use of fp8",
    "model.preset": "model",
    "model.vocab_size": "vocabulary",
}
"""Plain names; any other setting is shown by its key."""


def name_of(setting: str) -> str:
    """The name of a setting such as `training.steps=N`."""
    key = setting.partition("=")[0]
    return _NAMES.get(key, key)


def not_recorded(settings: Iterable[str]) -> str:
    """What is missing, and the options of `ingest` that add it."""
    settings = tuple(settings)
    *others, last = map(name_of, settings)
    names = f"{', '.join(others)} and {last}" if others else last
    return f"{names} not recorded; ingest with {' '.join(f'--set {setting}' for setting in settings)}"
