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
EXPERTS = "num_experts"
EXPERTS_PER_TOKEN = "moe_router_topk"
EXPERT_WIDTH = "moe_ffn_hidden_size"
TOKENS_AHEAD = "mtp_num_layers"
QK_NORM = "qk_layernorm"
OPTIMIZER = "optimizer"
HIDDEN_DROPOUT = "hidden_dropout"
ATTENTION_DROPOUT = "attention_dropout"
VERSION = "version"


def flag(text: str) -> bool:
    """A truth as Python prints it; KeyError for anything else."""
    return {"True": True, "False": False}[text]


def several(text: str) -> int:
    """How many, if more than one (a dense model has one expert, and no key for it); ValueError else."""
    if (number := int(text)) < 2:
        raise ValueError(text)
    return number


def how_many(text: str) -> int:
    """Of what a model may lack: None says so."""
    return 0 if text == "None" else int(text)


SHAPING = (
    PADDED_VOCABULARY,
    MASKED_EOD,
    EXPERTS,
    EXPERTS_PER_TOKEN,
    EXPERT_WIDTH,
    TOKENS_AHEAD,
    QK_NORM,
    OPTIMIZER,
    HIDDEN_DROPOUT,
    ATTENTION_DROPOUT,
)
"""What shapes a run and no experiment has a key for."""

OTHER = (WORLD_SIZE, GPU_NAME, LOG_INTERVAL, VERSION, *SHAPING)
"""What a log may say that is no key of an experiment."""
