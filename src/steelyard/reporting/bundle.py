"""The manifest of an evidence bundle: its files, and what made them."""

import importlib.metadata
import platform
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from steelyard import __version__
from steelyard.records.manifest import Record
from steelyard.reporting.archive import Content
from steelyard.reporting.documents import KINDS
from steelyard.reporting.figures import FORMS

FILE = "bundle.json"
REPORT = "report"
"""The directory of the files of the report."""
ROOT = "bundle"
"""The name of the directory in which a bundle is made and unpacked: texts can contain it."""
SCHEMA_VERSION = 1
MARK = '"format": "steelyard bundle"'
"""Near the start of every bundle: its manifest comes first and is not compressed."""
WITH_RECORDS = ("page", "paper")
"""Parts of a report that name the digest of its records; a bundle has at least one of them."""
_TOOLS = ("jinja2", "matplotlib", "typst")

Observe = Callable[[str, int], None]
"""Called during long work with what is done, and for how many bytes."""


class Environment(Record):
    """What a report was made with."""

    steelyard: str = Field(pattern=r"\A[0-9A-Za-z.+!_-]{1,100}\z")
    """A version as pip takes it, since it is part of a command that is shown."""
    python: str
    numpy: str
    scipy: str
    machine: str
    """The processor with its vector units, which decide the last digits of sums."""
    tools: dict[str, str]
    """Versions of what writes some of the formats."""

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """What decides the last digits of figures."""
        return self.python, self.numpy, self.scipy, self.machine


class BundleManifest(Record):
    """The content of bundle.json."""

    format: Literal["steelyard bundle"] = "steelyard bundle"
    schema_version: int = SCHEMA_VERSION
    kind: Annotated[str, Field(pattern=rf"\A({'|'.join(KINDS)})\z")]
    home: str
    """The place of what the report is about."""
    formats: list[str] = Field(min_length=1)
    figures: list[Annotated[str, Field(pattern=rf"\A({'|'.join(FORMS)})\z")]]
    texts: dict[str, str]
    """Texts of the author in a paper, by section."""
    environment: Environment
    redacted: dict[str, int]
    """Lines of these files from which a secret was removed when the bundle was made."""
    left_out: list[str]
    """Binary logs that are not in the bundle, because they contain text like a secret."""
    files: dict[str, Content]
    """Every other file of the bundle."""

    @property
    def removed(self) -> list[str]:
        """What was removed from the records, in words."""
        lines = [
            f"{name}: removed secrets from {count:,} line{'s' * (count != 1)}" for name, count in self.redacted.items()
        ]
        return [*lines, *(f"{name}: left out, it contains text like a secret" for name in self.left_out)]


def this_environment() -> Environment:
    vector_units = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return Environment(
        steelyard=__version__,
        python=platform.python_version(),
        numpy=np.__version__,
        scipy=importlib.metadata.version("scipy"),
        machine=" ".join([platform.machine(), *vector_units]),
        tools={name: version for name in _TOOLS if (version := _version(name)) is not None},
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
