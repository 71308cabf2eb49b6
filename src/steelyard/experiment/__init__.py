"""What is trained: the typed experiment, presets, and how config layers resolve to one experiment."""

from steelyard.experiment.experiment import Data, Experiment, Kernels, Parallelism, Precision, Training
from steelyard.experiment.model import Model, RopeScaling
from steelyard.experiment.platform import Platform
from steelyard.experiment.problems import InvalidExperimentError, Problem
from steelyard.experiment.reading import Reading
from steelyard.experiment.resolve import Resolved, parse_settings, resolve

__all__ = [
    "Data",
    "Experiment",
    "InvalidExperimentError",
    "Kernels",
    "Model",
    "Parallelism",
    "Platform",
    "Precision",
    "Problem",
    "Reading",
    "Resolved",
    "RopeScaling",
    "Training",
    "parse_settings",
    "resolve",
]
