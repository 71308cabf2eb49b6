"""A reading while it is made."""

from typing import Any

from steelyard.configs.files import ConfigFile
from steelyard.configs.suite.section import Report, Section
from steelyard.configs.suite.select import Selection
from steelyard.configs.suite.values import left_open
from steelyard.experiment.problems import PLACEHOLDER, WRONG_VALUE, shown
from steelyard.experiment.reading import Bound, PointerPath, Reading, Stated
from steelyard.experiment.sources import Source

OPTIONAL = ("JAX_COORDINATOR_IP", "MASTER_ADDR")
"""Variables the plan fills in whatever the file says."""


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

    def put(self, dotted: str, value: Any, path: PointerPath | None = None, source: Source | None = None) -> None:
        """Give the experiment a value, with its place in the file or what else it comes from."""
        group, _, key = dotted.partition(".")
        self.content.setdefault(group, {})[key] = value
        if path is not None:
            self.paths[dotted] = path
            self.sources.pop(dotted, None)
        if source is not None:
            self.sources[dotted] = source

    def put_all(self, values: dict[str, Any], source: Source) -> None:
        """Values that the file does not state and something else does."""
        for dotted, value in values.items():
            self.put(dotted, value, source=source)

    def state_variable(self, name: str, stated: Stated) -> None:
        """Remember a variable; one that was given before is a copy."""
        if name in self.env:
            self.env_copies.append((name, stated))
        else:
            self.env[name] = stated

    def variable(self, name: str, raw: Any, path: PointerPath) -> str | None:
        """A variable as text, remembered; None and a problem where it is open or no scalar."""
        if raw is None or isinstance(raw, dict | list):
            self.report.add(WRONG_VALUE, path, f"{name} is {shown(raw)}", "write text", raw, "a text or a number")
            return None
        if left_open(raw):
            if name not in OPTIONAL:
                self.report.add(
                    PLACEHOLDER, path, f"{name} is left open ({shown(raw)})", "write it, or park it as _" + name, raw
                )
            self.state_variable(name, Stated(raw, path))
            return None
        text = self.config.filled(str(raw).lower() if isinstance(raw, bool) else str(raw), path)
        self.state_variable(name, Stated(text, path))
        return text

    def take(self, name: str, dotted: str, required: bool = False) -> Any:
        """Read a parameter of the model and give it to the experiment."""
        found = self.params.get(name, required)
        if found is None:
            return None
        self.put(dotted, found.value, found.path)
        return found.value

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
            both_sections=self.selection.name.startswith(("single_node-", "multi_node-")),
            copies=self.copies,
            nodes_open=self.nodes_open,
            config=self.config.stated,
            params=self.params.stated,
            params_path=self.params.path,
            volumes_path=("config", "container_config", "volume_dict"),
            env=self.env,
            env_copies=tuple(self.env_copies),
            bounds=tuple(self.bounds),
            model_key=self.selection.model,
            example_nodes=self.example_nodes,
        )
