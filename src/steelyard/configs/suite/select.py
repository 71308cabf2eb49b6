"""What a file of several models, GPUs and node counts offers to run."""

from dataclasses import dataclass
from typing import Any, Literal

from steelyard.configs.files import ConfigFile
from steelyard.experiment.reading import PointerPath

SectionName = Literal["single_node", "multi_node"]
SECTIONS: tuple[SectionName, ...] = ("single_node", "multi_node")


@dataclass(frozen=True, slots=True)
class Selection:
    """One model on one GPU, on one node or over several."""

    section: SectionName
    model: str
    gpu: str
    name: str
    """What `--platform` calls it."""

    @property
    def path(self) -> PointerPath:
        return ("model_params", self.section, self.model, self.gpu)


def selections(file: ConfigFile) -> list[Selection]:
    """Every model and GPU of the file that is not parked, in its order."""
    found = [
        (section, model, gpu)
        for section in SECTIONS
        for model, gpus in _entries(_mapping(file.content.get("model_params")).get(section))
        for gpu, _ in _entries(gpus)
    ]
    sections = {section for section, _, _ in found}
    return [
        Selection(section, model, gpu, "-".join((*([section] if len(sections) > 1 else []), model, gpu)))
        for section, model, gpu in found
    ]


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _entries(value: Any) -> list[tuple[str, Any]]:
    return [(str(key), inner) for key, inner in _mapping(value).items() if not str(key).startswith("_")]
