"""Compares target runs with baseline runs."""

from steelyard.comparison.comparison import Comparison, weigh
from steelyard.comparison.contract import Comparability, Ruling
from steelyard.comparison.files import find, load_runs, save
from steelyard.comparison.looks import look_at
from steelyard.comparison.ratios import NAME_OF, Ratio
from steelyard.experiment.policy import Metric

__all__ = [
    "NAME_OF",
    "Comparability",
    "Comparison",
    "Metric",
    "Ratio",
    "Ruling",
    "find",
    "load_runs",
    "look_at",
    "save",
    "weigh",
]
