"""Why two sides differ, from evidence: one file a cause, the most telling first."""

import importlib

from steelyard.comparison.diagnoses.diagnosis import Diagnosis
from steelyard.comparison.tiers import Pair

DIAGNOSES = (
    "uniform_data",
    "counting_data",
    "fixed_batch",
    "tokens_per_step",
    "untrained_loss",
    "learning_rate",
    "silent_default",
    "different_setting",
    "seed",
    "parting",
)
"""In the order of what they explain: data that cannot be learnt explains more than a setting."""


def diagnose(pair: Pair) -> tuple[Diagnosis, ...]:
    """Every cause there is evidence for."""
    return tuple(found for name in DIAGNOSES for found in importlib.import_module(f"{__name__}.{name}").diagnose(pair))


__all__ = ["DIAGNOSES", "Diagnosis", "diagnose"]
