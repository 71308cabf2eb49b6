"""Settings in a command line that a job script echoes: `pretrain_gpt.py --seq-length 4096 …`."""

import re
import shlex
from collections.abc import Iterator

COMMAND = re.compile(rb"\bpretrain_\w{1,40}\.py\s[^|]*--[a-z]")
_LONGEST = 20_000
_EXCLUSIVE = {"bf16": "fp16", "fp16": "bf16"}
_PLACED = ("nproc_per_node", "nnodes")
"""Options of torchrun whose product is the world size."""


def arguments_of(line: bytes) -> dict[str, str]:
    """Arguments by name, with values as a dump prints them; empty if a variable is not expanded."""
    text = line[:_LONGEST].decode("utf-8", "replace")
    if len(line) > _LONGEST or "$" in text or "`" in text:
        return {}
    try:
        words = shlex.split(text)
    except ValueError:
        return {}
    given: dict[str, str] = {}
    for name, values in _options(words):
        given.setdefault(name, "True" if not values else values[0] if len(values) == 1 else str(values))
    for name, other in _EXCLUSIVE.items():
        if given.get(name) == "True":
            given.setdefault(other, "False")
    placed = [given.get(name, "1" if name == "nnodes" else "") for name in _PLACED]
    if all(size.isascii() and size.isdigit() and len(size) < 6 for size in placed):
        given.setdefault("world_size", str(int(placed[0]) * int(placed[1])))
    return given


def _options(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each option with its values, from `--a-name value …` and `--a-name=value`."""
    name, values = "", list[str]()
    for word in [*words, "--"]:
        if not word.startswith("--") and not word.endswith(".py"):
            values.append(word)
            continue
        if name:
            yield name, values
        name, equals, value = word[2:].partition("=")
        name, values = name.replace("-", "_"), [value] if equals else []
