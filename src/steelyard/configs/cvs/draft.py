"""A selection of a file, and the reading that is built from it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from steelyard.configs.cvs.section import Report, Section
from steelyard.configs.cvs.values import left_open
from steelyard.configs.files import ConfigFile
from steelyard.experiment.problems import PLACEHOLDER, shown
from steelyard.experiment.reading import Bound, PointerPath, Reading, Stated
from steelyard.experiment.sources import SET, Source

SectionName = Literal["single_node", "multi_node"]
SECTIONS: tuple[SectionName, ...] = ("single_node", "multi_node")

OPTIONAL = ("JAX_COORDINATOR_IP", "MASTER_ADDR", "NNODES", "NODE_RANK")
"""Variables that the plan always sets, whatever the file contains."""


@dataclass(frozen=True, slots=True)
class Selection:
    """One model on one GPU, on one node or over several."""

    section: SectionName
    model: str
    gpu: str
    both_sections: bool
    """Whether the file has the other section too, so that `config` cannot tell which one is meant."""

    @property
    def path(self) -> PointerPath:
        return ("model_params", self.section, self.model, self.gpu)

    @property
    def name(self) -> str:
        """Its name for `--platform`."""
        return "-".join(self.path[1 if self.both_sections else 2 :])


def selections(file: ConfigFile) -> list[Selection]:
    """Every model and GPU of the file that is not disabled, in the order of the file."""
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
    """The experiment as read so far, in the structure of a YAML file, with a place for each value."""

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
        """Set a value of the experiment, with its place in the file or its source."""
        group, _, key = dotted.partition(".")
        self.content.setdefault(group, {})[key] = value
        if isinstance(origin, Source):
            self.sources[dotted] = origin
        else:
            self.paths[dotted] = origin
            self.sources.pop(dotted, None)

    def put_all(self, values: dict[str, Any], source: Source) -> None:
        """Set values that come from another source than the file."""
        for dotted, value in values.items():
            self.put(dotted, value, source)

    def take(self, name: str, required: bool = False, meaning: Callable[[Any], Any] | None = None) -> Any:
        """Set the experiment's key for a parameter of the model, to its value or to its `meaning`."""
        stated = self.params.get(name, required)
        if stated is None:
            return None
        value = meaning(stated.value) if meaning else stated.value
        self.put(self.params.keys[name].reads, value, stated.path)
        return value

    def take_steps(self, name: str) -> int:
        """Set the steps, by the name in this family; 1 if the file does not have them."""
        steps = self.config.get(name, required=True)
        self.put("training.steps", steps.value if steps else 1, (*self.config.path, name))
        return steps.value if steps else 1

    def place(self, section: Section, *names: str) -> None:
        """Record the places of the platform's values."""
        self.paths |= {section.keys[name].reads: (*section.path, name) for name in names}

    def state_variable(self, name: str, stated: Stated) -> None:
        """Record a variable; a second one of that name is a copy."""
        if name in self.env:
            self.env_copies.append((name, stated))
        else:
            self.env[name] = stated

    def variable(self, name: str, raw: Any, path: PointerPath) -> str | None:
        """Record a variable and return its text; None and a problem if it is not a filled-in scalar."""
        if raw is None or isinstance(raw, dict | list):
            self.report.wrong(path, raw, "text or a number", "write text", name)
            return None
        if left_open(raw):
            if name not in OPTIONAL:
                message, fix = f"{name} is not filled in ({shown(raw)})", f"write the value, or rename it to _{name}"
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
        places = file.set_places
        self.sources |= {key: SET for key, path in self.paths.items() if any(path[: len(at)] == at for at in places)}
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
