"""WHAT is trained: the experiment file, its presets, and how its layers resolve to one experiment."""

from steelyard.experiment.experiment import Data, Experiment, Kernels, Parallelism, Platform, Precision, Training
from steelyard.experiment.model import Model, RopeScaling
from steelyard.experiment.problems import InvalidExperimentError, Problem
from steelyard.experiment.resolve import Resolved, choose_platform, parse_settings, platform_names, resolve
from steelyard.experiment.yaml_file import YamlFile, read_yaml

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
    "Resolved",
    "RopeScaling",
    "Training",
    "YamlFile",
    "choose_platform",
    "parse_settings",
    "platform_names",
    "read_yaml",
    "resolve",
]
