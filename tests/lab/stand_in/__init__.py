"""What stands in for a framework in an image: its entry, the built-in trainer behind it, and the speed it claims."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.images import Content, Executable

HERE = Path(__file__).parent
TRAINER = "/opt/stand_in/stand_in.py"
MEGATRON_ENTRY = "/workspace/Megatron-LM/examples/llama/train_llama3.sh"
OUT_OF_MEMORY = "STAND_IN_OUT_OF_MEMORY"
"""The variable of an image with the size of Llama, such as 70B, that runs out of memory."""
MAXTEXT_ENTRY = "/workspace/maxtext/MaxText/train.py"


@dataclass(frozen=True, slots=True)
class Speed:
    """What the step lines of a stand-in claim; the time of a step follows from the declared batch."""

    tokens_per_s_per_gpu: float
    gflop_per_token: float
    """By the framework's own formula."""
    slow_host: str = ""
    """Which claims a twentieth less."""

    def env_of(self, size: str) -> dict[str, str]:
        """As variables of an image for one size of Llama, such as 70B."""
        return {
            f"STAND_IN_TOKENS_PER_S_PER_GPU_{size}": str(self.tokens_per_s_per_gpu),
            f"STAND_IN_GFLOP_PER_TOKEN_{size}": str(self.gflop_per_token),
        }

    def env(self) -> dict[str, str]:
        """As variables of the image."""
        return {
            "STAND_IN_TOKENS_PER_S_PER_GPU": str(self.tokens_per_s_per_gpu),
            "STAND_IN_GFLOP_PER_TOKEN": str(self.gflop_per_token),
            "STAND_IN_SLOW_HOST": self.slow_host,
            "OMP_NUM_THREADS": "1",
        }


def megatron() -> Mapping[str, Content]:
    """The files of an image whose train_llama3.sh trains."""
    return {TRAINER: _text("stand_in.py"), MEGATRON_ENTRY: Executable(_text("train_llama3.sh"))}


def maxtext() -> Mapping[str, Content]:
    """The files of an image whose MaxText.train trains."""
    return {TRAINER: _text("stand_in.py"), MAXTEXT_ENTRY: _text("maxtext_train.py")}


def _text(name: str) -> str:
    return (HERE / name).read_text()
