"""A price sheet: what a GPU costs an hour, by its name."""

import difflib
from pathlib import Path

from steelyard.configs.files import read_mapping
from steelyard.errors import InputError
from steelyard.hardware.catalog import known_names, lookup

EXAMPLE = "{h100: 2.5, mi300x: 2.0}"


def read_prices(path: Path) -> dict[str, float]:
    """A YAML or JSON file such as EXAMPLE, in any one currency."""
    found: dict[str, float] = {}
    content = read_mapping(path, "a price sheet", EXAMPLE, as_yaml=True).content
    if not content:
        raise InputError(f"{path}: is empty", value=str(path), expected="a price sheet", next=EXAMPLE)
    for name, price in content.items():
        gpu = lookup(str(name))
        if gpu is None:
            raise InputError(
                f"{path}: {name!r} is not in the catalog of GPUs",
                key=str(name),
                value=str(name),
                expected=f"one of {', '.join(known_names())}",
                next=f"{next(iter(difflib.get_close_matches(str(name), known_names(), n=1, cutoff=0.0)))}: 2.5",
            )
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 < price < 1e6:
            raise InputError(
                f"{path}: {name} is {price!r}",
                key=str(name),
                value=str(price),
                expected="a price an hour of one GPU",
                next=f"{name}: 2.5",
            )
        if gpu.name in found:
            raise InputError(
                f"{path}: {name!r} is the {gpu.name}, which has a price already",
                key=str(name),
                value=str(price),
                expected="one price a GPU",
                next=f"{gpu.name}: {found[gpu.name]:g}",
            )
        found[gpu.name] = float(price)
    return found
