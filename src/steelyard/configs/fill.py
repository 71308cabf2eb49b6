"""Finds the placeholders of a JSON file, and fills them in."""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.configs.choose import Asked, readings
from steelyard.configs.cvs.keys import DATASET, JAX, MEGATRON, RESULTS, TABLES, Key
from steelyard.configs.cvs.megatron import PRECISIONS
from steelyard.configs.cvs.section import example_name
from steelyard.configs.cvs.values import converted, left_open
from steelyard.configs.files import ConfigFile
from steelyard.configs.rewrite import rewritten
from steelyard.experiment.platform import names_a_host
from steelyard.experiment.problems import PLACEHOLDER, Edit
from steelyard.experiment.reading import PointerPath
from steelyard.hardware.nics import NICS

MAY_BE_ZERO = ("nccl_ib_gid_index", "nccl_ib_sl")


@dataclass(frozen=True, slots=True)
class Gap:
    """One placeholder."""

    path: PointerPath
    key: Key
    example: str | None
    """The example in the file."""
    choices: tuple[str, ...] = ()

    @property
    def removable(self) -> bool:
        """Whether the key has a default, so that it can be removed instead."""
        return self.key.default is not None

    @property
    def is_threshold(self) -> bool:
        return "result_dict" in self.path

    def accepts(self, text: str) -> str | None:
        """Why a value is not accepted; None if it is."""
        if left_open(text) or not text.strip():
            return "not a value"
        if self.choices and text.strip() not in self.choices:
            return f"expected one of {', '.join(self.choices)}"
        try:
            value = converted(text, self.key.kind)
        except ValueError as expected:
            return f"expected {expected}"
        if self.key.reads == "platform.network.head" and not names_a_host(text.strip()):
            return "expected a host's name or address"
        if self.key.kind == "whole" and self.path[-1] not in MAY_BE_ZERO and value < 1:
            return "expected 1 or more"
        return None


def gaps(file: ConfigFile, asked: Asked) -> list[Gap]:
    """The placeholders that the selection needs, and unknown precisions, each once."""
    by_place: dict[PointerPath, Gap] = {}
    config, model = TABLES[JAX if file.family == JAX else MEGATRON]
    for reading in readings(file, asked):
        for problem in reading.problems:
            path = problem.place
            table = config if path[0] == "config" else RESULTS if "result_dict" in path else model
            if "dataset_source" in path[:-1]:
                table = DATASET
            if problem.code == PLACEHOLDER and path[-1] in table and left_open(file.at(path)):
                choices = tuple(NICS) if path[-1] == "nic_type" else ()
                example = None if choices else _example(file, path)
                by_place.setdefault(path, Gap(path, table[path[-1]], example, choices))
        precision = reading.params.get("precision")
        if file.family == MEGATRON and precision and precision.value.strip().upper() not in PRECISIONS:
            by_place.setdefault(precision.path, Gap(precision.path, model["precision"], None, tuple(PRECISIONS)))
    return list(by_place.values())


def _example(file: ConfigFile, path: PointerPath) -> str | None:
    around = file.at(path[:-1])
    name = example_name(around, path[-1]) if isinstance(around, dict) else None
    return None if name is None else str(around[name])


def filled_text(file: ConfigFile, values: Mapping[PointerPath, str | None]) -> str:
    """The text of the file with the values in their places; a key whose value is None is removed."""
    return rewritten(file.text, (Edit(path, value and value.strip()) for path, value in values.items()))
