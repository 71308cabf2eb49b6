"""Where a value comes from: the text of a run's record and of a plan, as a kind and a name."""

from dataclasses import dataclass
from enum import StrEnum


class Origin(StrEnum):
    """Kinds of sources, as their text begins."""

    DEFAULT = "default"
    """Of Steelyard's own experiment model."""
    CONFIG = "config"
    SET = "set"
    LOG = "log"
    DERIVED = "derived"
    """It follows from other values."""
    PRESET = "preset"
    PLATFORM = "platform"
    """The overrides of a named platform."""
    SCRIPT = "script"
    """A script of an image."""
    FRAMEWORK = "default of"
    OTHER = ""
    """What no version of ours wrote."""


_NAMED = (Origin.PRESET, Origin.PLATFORM, Origin.SCRIPT, Origin.FRAMEWORK)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from; its text is what records and plans hold."""

    origin: Origin
    name: str = ""
    """Of the preset, platform, script or framework; the whole text of another source."""

    @classmethod
    def of(cls, text: str) -> "Source":
        for origin in _NAMED:
            if text.startswith(f"{origin} "):
                return cls(origin, text.removeprefix(f"{origin} "))
        plain = next((origin for origin in Origin if origin == text and origin not in _NAMED), None)
        return cls(Origin.OTHER, text) if plain is None else cls(plain)

    @property
    def is_default(self) -> bool:
        """Whether nobody chose the value."""
        return self.origin in (Origin.DEFAULT, Origin.FRAMEWORK)

    def __str__(self) -> str:
        return f"{self.origin} {self.name}".strip()


DEFAULT, CONFIG, SET = Source(Origin.DEFAULT), Source(Origin.CONFIG), Source(Origin.SET)
LOG, DERIVED = Source(Origin.LOG), Source(Origin.DERIVED)
