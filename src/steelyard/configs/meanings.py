"""One parameter in every dialect: what each framework calls it and does where nothing is said."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
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
    spellings: dict[str, str] = field(default_factory=dict)
    """By framework: its own name of the parameter, and its own default."""

    def document(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "where": self.where,
            "meaning": self.meaning,
            "default": self.default,
            "reads": self.reads,
            "frameworks": self.spellings,
        }

    def text(self) -> str:
        lines = [f"{self.key}, of {self.where}", f"  {self.meaning}"]
        if self.default:
            lines.append(f"  default: {self.default}")
        if self.reads:
            lines.append(f"  becomes: {self.reads}" if self.reads != NOTHING else "  nothing reads it")
        width = max(map(len, self.spellings), default=0)
        lines += [f"  {name:<{width}}  {words}" for name, words in self.spellings.items()]
        return "\n".join(lines)


_HEAD = """# One parameter in every dialect

Made by `python docs/reference/make.py` from the frameworks' own modules. Under a framework's name stands what it calls
the parameter and, after "else", what it does where nobody says anything. An empty cell is one that means nothing to
it. A plan of a YAML experiment states every one of these that the experiment does not leave null.
"""


def page() -> str:
    """The table of all of them, as Markdown."""
    names = [name for name in planned() if facts(name).names is not None]
    rows = {dotted: [_cell(name, dotted) for name in names] for dotted in documented_keys()}
    return f"{_HEAD}\n" + markdown(["key", *names], ([f"`{key}`", *cells] for key, cells in rows.items() if any(cells)))


def _cell(name: str, dotted: str) -> str:
    own, defaults = facts(name).spelling(dotted), facts(name).silent_defaults
    if own is None:
        return ""
    return f"`{own}`, else {spelt(defaults[dotted])}" if dotted in defaults else f"`{own}`"


def meanings(name: str) -> list[Meaning]:
    """Everything a key may mean, by its dotted or its bare name."""
    found: dict[tuple[str, str, str | None], Meaning] = {}
    every = list(_entries())
    wanted = {name}
    if not any(name in (entry.key, entry.key.rpartition(".")[2]) for entry in every):
        wanted = {entry.key for entry in every if _bare(name) in _own_names(entry)}
    for entry in every:
        if wanted & {entry.key, entry.key.rpartition(".")[2]}:
            same = (entry.key, entry.meaning, entry.reads)
            both = f"{found[same].where} and {entry.where}" if same in found else entry.where
            found[same] = replace(entry, where=both)
    return list(found.values())


def _own_names(entry: Meaning) -> set[str]:
    """What frameworks call it, without dashes and paths."""
    words = (word for spelling in entry.spellings.values() for word in spelling.partition(";")[0].split(","))
    return {_bare(word.strip()) for word in words}


def _bare(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def every_name() -> list[str]:
    """Every key that can be explained."""
    return list(dict.fromkeys(entry.key for entry in _entries()))


def _entries() -> Iterator[Meaning]:
    for dotted, (meaning, default) in documented_keys().items():
        yield Meaning(dotted, "an experiment file", meaning, default, spellings=_spellings(dotted))
    for where, tables in FAMILIES.items():
        for table in tables:
            for name, key in table.items():
                yield Meaning(name, where, key.meaning, key.default, key.reads)


def _spellings(dotted: str) -> dict[str, str]:
    found = {}
    for name in planned():
        framework = facts(name)
        if framework.names is None or (own := framework.spelling(dotted)) is None:
            continue
        defaults = framework.silent_defaults
        silent = f"; where nothing is said: {defaults[dotted]}" if dotted in defaults else ""
        found[name] = f"{own}{silent}"
    return found
