"""The settings a node's log reports, held against those of the plan."""

from collections.abc import Iterator, Mapping
from typing import Any

from steelyard.experiment.case import Case
from steelyard.experiment.problems import spelt
from steelyard.experiment.resolve import leaves
from steelyard.frameworks.logs.series import Job
from steelyard.frameworks.logs.settings import (
    GPU_NAME,
    PADDED_VOCABULARY,
    TRAINED_SHARE,
    WORLD_SIZE,
    LoggedSettings,
    Setting,
    same,
)
from steelyard.frameworks.planner import expected_vocabulary
from steelyard.frameworks.registry import facts
from steelyard.records import Event

_DERIVED = ("parallelism.data_parallel_size", "training.gradient_accumulation_steps")
"""What follows from batch and world, whether or not the framework can be told it."""

_NULL_IS_A_VALUE = ("precision.fp8",)
"""Elsewhere null leaves the choice to the framework."""


def planned_settings(case: Case) -> dict[str, Any]:
    """What the plan states, by the keys a log says it under; what the framework has no word for is not there."""
    framework, placement = facts(case.resolved.platform.framework), case.placement
    values = {
        key: value
        for key, value in leaves(case.resolved.experiment.model_dump(mode="json"))
        if (key in _DERIVED or framework.spelling(key) is not None) and (value is not None or key in _NULL_IS_A_VALUE)
    }
    if framework.pads_vocabulary:
        values.pop("model.vocab_size", None)  # a tokenizer may count its end token or not; the padded size is one
        values[PADDED_VOCABULARY] = expected_vocabulary(case)
    if values.get("data.source") != "tokens":
        values.pop("data.source", None)  # made data goes by another name in every log
    return {**values, WORLD_SIZE: placement.world_size, GPU_NAME: placement.gpu_name}


class SettingsAgainstPlan:
    """The settings one node's log reports, against those planned."""

    def __init__(self, planned: Mapping[str, Any], job: Job) -> None:
        """`job` takes the batch the log says: what a step's tokens are must not be the plan's own word."""
        self._planned, self.job = planned, job
        self.logged = LoggedSettings()
        self._differing: set[str] = set()

    def take(self, setting: Setting) -> Iterator[Event]:
        """Keep a setting; what a person should know of it, once a key."""
        key, value = setting.key, setting.value
        if key == TRAINED_SHARE:
            return  # told amid the steps, of batches and not of settings
        before = key in self.logged.changed
        self.logged.take(setting)
        self.job.sequence_length = self.logged.whole("training.sequence_length")
        self.job.global_batch_size = self.logged.whole("training.global_batch_size")
        if key in self.logged.changed and not before:
            yield self.logged.changed[key]
        if setting.takes_back or key not in self._planned or key in self._differing:
            return
        planned = self._planned[key]
        if not same(key, planned, value):
            self._differing.add(key)
            message = f"{key} is {spelt(planned)} in the plan, and the log says {spelt(value)}"
            details = {"key": key, "planned": planned, "said": value}
            yield Event(kind="plan_differs", message=message, source=setting.source, details=details)

    def values(self) -> dict[str, Any]:
        """The last word of each."""
        return {key: setting.value for key, setting in self.logged.last.items()}
