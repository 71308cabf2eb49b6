"""One parameter in every dialect: what each framework calls it and does where nothing is said."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from steelyard.configs.suite.keys import CONTAINER, DATASET, JAX, MEGATRON, NOTHING, RESULTS, TABLES
from steelyard.experiment.problems import spelt
from steelyard.experiment.reference import documented_keys, markdown
from steelyard.frameworks.registry import facts, planned

FAMILIES = {
    "a Megatron config": (*TABLES[MEGATRON], CONTAINER, DATASET, RESULTS),
    "a JAX config": (*TABLES[JAX], CONTAINER, DATASET, RESULTS),
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """A key in words."""

    key: str
    where: str
    meaning: str
    default: str | None = None
    reads: str | None = None
    """What reads it, in a family of other files."""
    frameworks: dict[str, str] = field(default_factory=dict)
    """By framework: its own name of the parameter, and its own default."""

    def document(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        lines = [f"{self.key}, of {self.where}", f"  {self.meaning}"]
        if self.default:
            lines.append(f"  default: {self.default}")
        if self.reads:
            lines.append(f"  becomes: {self.reads}" if self.reads != NOTHING else "  nothing reads it")
        width = max(map(len, self.frameworks), default=0)
        lines += [f"  {name:<{width}}  {words}" for name, words in self.frameworks.items()]
        return "\n".join(lines)


_HEAD = """# One parameter in every dialect

Made by `python docs/reference/make.py` from the frameworks' own modules. Under a framework's name stands what it calls
the parameter and, after "else", what it does where nobody says anything. An empty cell is one that means nothing to
it. A plan of a YAML experiment states every one of these that the experiment does not leave null.
"""


def page() -> str:
    names = [name for name in planned() if facts(name).names is not None]
    rows = []
    for dotted in documented_keys():
        cells = {name: f"`{own}`" for name, own in _own_names(dotted).items()}
        for name in cells:
            if dotted in (defaults := facts(name).silent_defaults):
                cells[name] += f", else {spelt(defaults[dotted])}"
        if cells:
            rows.append([f"`{dotted}`", *(cells.get(name, "") for name in names)])
    return f"{_HEAD}\n{markdown(['key', *names], rows)}"


def _own_names(dotted: str) -> dict[str, str]:
    """What each framework calls a key, of those that have a name for it."""
    every = {name: facts(name).spelling(dotted) for name in planned() if facts(name).names is not None}
    return {name: own for name, own in every.items() if own is not None}


def meanings(name: str) -> list[Meaning]:
    """Everything a key may mean, by its dotted or its bare name, or by what a framework calls it."""
    entries = list(_entries())
    keys = {name}
    if not any(name in (entry.key, entry.key.rpartition(".")[2]) for entry in entries):
        keys = {dotted for dotted in documented_keys() if _bare(name) in _bare_names(dotted)}
    merged: dict[tuple[str, str, str | None], Meaning] = {}
    for entry in entries:
        if keys & {entry.key, entry.key.rpartition(".")[2]}:
            same = (entry.key, entry.meaning, entry.reads)
            where = f"{merged[same].where} and {entry.where}" if same in merged else entry.where
            merged[same] = replace(entry, where=where)
    return list(merged.values())


def _bare_names(dotted: str) -> set[str]:
    """What frameworks call a key, without dashes."""
    return {_bare(word.strip()) for own in _own_names(dotted).values() for word in own.split(",")}


def _bare(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def every_name() -> list[str]:
    return list(dict.fromkeys(entry.key for entry in _entries()))


def _entries() -> Iterator[Meaning]:
    for dotted, (meaning, default) in documented_keys().items():
        frameworks = _own_names(dotted)
        for name in frameworks:
            if dotted in (defaults := facts(name).silent_defaults):
                frameworks[name] += f"; where nothing is said: {defaults[dotted]}"
        yield Meaning(dotted, "an experiment file", meaning, default, frameworks=frameworks)
    for where, tables in FAMILIES.items():
        for table in tables:
            for name, key in table.items():
                yield Meaning(name, where, key.meaning, key.default, key.reads)
