"""The source of a value, as a type and a name; records and plans contain its text."""

from dataclasses import dataclass
from enum import StrEnum


class Origin(StrEnum):
    """Types of sources; their text starts with the value."""

    DEFAULT = "default"
    """The default of an experiment key."""
    CONFIG = "config"
    SUITE = "suite"
    """The cell of a suite."""
    SET = "set"
    OVERRIDE = "override"
    """Set against the log."""
    ASSUMED = "assumed"
    """Supplied for one comparison."""
    LOG = "log"
    DERIVED = "derived"
    """Computed from other values."""
    PRESET = "preset"
    PLATFORM = "platform"
    """Overrides of a platform."""
    SCRIPT = "script"
    """A script in an image."""
    FRAMEWORK = "default of"
    OTHER = ""
    """Text that Steelyard did not write."""


_NAMED = (Origin.PRESET, Origin.PLATFORM, Origin.SCRIPT, Origin.FRAMEWORK)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a value; records and plans contain its text."""

    origin: Origin
    name: str = ""
    """Name of the preset, platform, script or framework; the whole text of another source."""

    @classmethod
    def of(cls, text: str) -> "Source":
        for origin in _NAMED:
            if text.startswith(f"{origin} "):
                return cls(origin, text.removeprefix(f"{origin} "))
        plain = next((origin for origin in Origin if origin == text and origin not in _NAMED), None)
        return cls(Origin.OTHER, text) if plain is None else cls(plain)

    @property
    def is_default(self) -> bool:
        """Whether the value is a default."""
        return self.origin in (Origin.DEFAULT, Origin.FRAMEWORK)

    @property
    def is_chosen(self) -> bool:
        """Whether the value replaces that of the file for this run."""
        return self.origin in (Origin.SET, Origin.SUITE)

    def __str__(self) -> str:
        return f"{self.origin} {self.name}".strip()


DEFAULT, CONFIG, SUITE, SET = map(Source, (Origin.DEFAULT, Origin.CONFIG, Origin.SUITE, Origin.SET))
OVERRIDE, ASSUMED = Source(Origin.OVERRIDE), Source(Origin.ASSUMED)
LOG, DERIVED = Source(Origin.LOG), Source(Origin.DERIVED)
