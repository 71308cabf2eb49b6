"""What a log says beside steps and events: a setting that was in force, with the line that says so."""

from dataclasses import dataclass
from typing import Any

from steelyard.records.step import Evidence


@dataclass(frozen=True, slots=True)
class Setting:
    """One value the training program printed about itself: what was in force, whatever a config asked."""

    key: str
    """A dotted key of the experiment, or one of `OTHER`."""
    value: Any
    source: Evidence

    @property
    def takes_back(self) -> bool:
        """Whether it says that what was said before does not hold: a step beyond the last one announced."""
        return self.value is None and self.key == "training.steps"


WORLD_SIZE = "platform.world_size"
GPU_NAME = "platform.gpu_name"
LOG_INTERVAL = "log_interval"
PADDED_VOCABULARY = "padded_vocab_size"
MASKED_EOD = "eod_mask_loss"
VERSION = "version"


def flag(text: str) -> bool:
    """A truth as Python prints it; KeyError for anything else."""
    return {"True": True, "False": False}[text]


def several(text: str) -> int:
    """How many, if more than one (a dense model has one expert, and no key for it); ValueError else."""
    if (number := int(text)) < 2:
        raise ValueError(text)
    return number


OTHER = (WORLD_SIZE, GPU_NAME, LOG_INTERVAL, PADDED_VOCABULARY, MASKED_EOD, VERSION)
"""What a log may say that is no key of an experiment."""
