"""A selection of a file, and its reading while it is made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from steelyard.configs.files import ConfigFile
from steelyard.configs.suite.section import Report, Section
from steelyard.configs.suite.values import left_open
from steelyard.experiment.problems import PLACEHOLDER, shown
from steelyard.experiment.reading import Bound, PointerPath, Reading, Stated
from steelyard.experiment.sources import Source

SectionName = Literal["single_node", "multi_node"]
SECTIONS: tuple[SectionName, ...] = ("single_node", "multi_node")

OPTIONAL = ("JAX_COORDINATOR_IP", "MASTER_ADDR")
"""Variables the plan fills in whatever the file says."""


@dataclass(frozen=True, slots=True)
class Selection:
    """One model on one GPU, on one node or over several."""

    section: SectionName
    model: str
    gpu: str
    both_sections: bool
    """Whether the file has the other section too, so that nothing general can say which is meant."""

    @property
    def path(self) -> PointerPath:
        return ("model_params", self.section, self.model, self.gpu)

    @property
    def name(self) -> str:
        """What `--platform` calls it."""
        return "-".join(self.path[1 if self.both_sections else 2 :])


def selections(file: ConfigFile) -> list[Selection]:
    """Every model and GPU of the file that is not parked, in its order."""
    params = dict(_entries(file.content.get("model_params")))
    places = [
        (section, model, gpu)
        for section in SECTIONS
        for model, gpus in _entries(params.get(section))
        for gpu, _ in _entries(gpus)
    ]
    both_sections = len({section for section, _, _ in places}) > 1
    return [Selection(*place, both_sections) for place in places]


def _entries(value: Any) -> list[tuple[str, Any]]:
    return [(key, inner) for key, inner in value.items() if not key.startswith("_")] if isinstance(value, dict) else []


class Draft:
    """What was understood so far: the experiment in the shape of its YAML file, with a place for each value."""

    def __init__(self, selection: Selection, config: Section, params: Section, report: Report) -> None:
        self.selection, self.config, self.params, self.report = selection, config, params, report
        self.content: dict[str, Any] = {"schema_version": 1}
        self.platform: dict[str, Any] = {}
        self.network: dict[str, Any] = {}
        self.paths: dict[str, PointerPath] = {}
        self.sources: dict[str, Source] = {}
        self.env: dict[str, Stated] = {}
        self.env_copies: list[tuple[str, Stated]] = []
        self.bounds: list[Bound] = []
        self.nodes, self.gpus_per_node = 1, 8
        self.nodes_open = False
        self.copies: int | None = 1
        self.example_nodes: int | None = None

    @property
    def world_size(self) -> int:
        return self.nodes * self.gpus_per_node

    def put(self, dotted: str, value: Any, origin: PointerPath | Source) -> None:
        """Give the experiment a value, with its place in the file or what else it comes from."""
        group, _, key = dotted.partition(".")
        self.content.setdefault(group, {})[key] = value
        if isinstance(origin, Source):
            self.sources[dotted] = origin
        else:
            self.paths[dotted] = origin
            self.sources.pop(dotted, None)

    def put_all(self, values: dict[str, Any], source: Source) -> None:
        """Values that the file does not state and something else does."""
        for dotted, value in values.items():
            self.put(dotted, value, source)

    def take(self, name: str, required: bool = False, meaning: Callable[[Any], Any] | None = None) -> Any:
        """Give the experiment a parameter of the model, under the key that reads it, as it stands or as it is meant."""
        stated = self.params.get(name, required)
        if stated is None:
            return None
        value = meaning(stated.value) if meaning else stated.value
        self.put(self.params.keys[name].reads, value, stated.path)
        return value

    def take_steps(self, name: str) -> int:
        """Steps to train, by the family's name; 1 stands in where the file does not say."""
        steps = self.config.get(name, required=True)
        self.put("training.steps", steps.value if steps else 1, (*self.config.path, name))
        return steps.value if steps else 1

    def place(self, section: Section, *names: str) -> None:
        """Note where the file has values of the platform."""
        self.paths |= {section.keys[name].reads: (*section.path, name) for name in names}

    def state_variable(self, name: str, stated: Stated) -> None:
        """Remember a variable; one that was given before is a copy."""
        if name in self.env:
            self.env_copies.append((name, stated))
        else:
            self.env[name] = stated

    def variable(self, name: str, raw: Any, path: PointerPath) -> str | None:
        """A variable as text, remembered; None and a problem where it is open or no scalar."""
        if raw is None or isinstance(raw, dict | list):
            self.report.wrong(path, raw, "a text or a number", "write text", name)
            return None
        if left_open(raw):
            if name not in OPTIONAL:
                message, fix = f"{name} is left open ({shown(raw)})", f"write it, or park it as _{name}"
                self.report.add(PLACEHOLDER, path, message, fix, raw)
            self.state_variable(name, Stated(raw, path))
            return None
        text = self.config.filled(str(raw).lower() if isinstance(raw, bool) else str(raw), path)
        self.state_variable(name, Stated(text, path))
        return text

    def reading(self, file: ConfigFile) -> Reading:
        platform = {key: value for key, value in self.platform.items() if value is not None}
        platform["network"] = {key: value for key, value in self.network.items() if value is not None}
        name = self.selection.name
        return Reading(
            file=file.path,
            sha256=file.sha256,
            content={**self.content, "platforms": {name: platform}},
            platform=name,
            family=file.family,
            paths=self.paths,
            sources=self.sources,
            problems=(*file.problems, *self.report.problems),
            section=self.selection.section,
            both_sections=self.selection.both_sections,
            copies=self.copies,
            nodes_open=self.nodes_open,
            config=self.config.stated,
            params=self.params.stated,
            params_path=self.params.path,
            env=self.env,
            env_copies=tuple(self.env_copies),
            bounds=tuple(self.bounds),
            model_key=self.selection.model,
            example_nodes=self.example_nodes,
        )
