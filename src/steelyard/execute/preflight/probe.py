"""Runs the probe on a host: several questions, one round trip, an answer cut into sections, one a tool."""

import json
import math
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from steelyard.execute.host import Host
from steelyard.inert import inert
from steelyard.secrets import redact

_LONGEST = 300
_STATUS = re.compile(rb"(?<= )\d{1,9}$")


async def probe(host: Host, words: Sequence[str], tool_s: int, timeout_s: float) -> "Sections":
    """What the host answers to words of `probe.sh`; one tool of it may take `tool_s`, all of it `timeout_s`."""
    script = resources.files(__package__).joinpath("probe.sh").read_bytes()
    mark = secrets.token_hex(16)
    done = await host.run(["sh", "-s", "--", mark, str(tool_s), *words], stdin=script, timeout_s=timeout_s)
    return read_sections(done.out, mark)


@dataclass(frozen=True, slots=True)
class Section:
    """One tool's answer."""

    status: int | None
    """None where the tool is not installed."""
    lines: tuple[str, ...]
    complaint: str = ""
    """What it wrote on its standard error, the last line."""

    @property
    def answered(self) -> bool:
        return self.status == 0

    @property
    def reason(self) -> str:
        """Why it did not answer, for a sentence."""
        if self.status is None:
            return "not installed"
        if self.status in (124, 137):
            return "it took too long"
        return (self.complaint or _last(self.lines))[:_LONGEST] or f"status {self.status}"

    def json(self) -> Any:
        """What it printed as JSON, from the first line that can begin a document; None where it is none."""
        if not self.answered:
            return None
        starts = (at for at, line in enumerate(self.lines) if line.lstrip().startswith(("[", "{")))
        try:
            return json.loads("\n".join(self.lines[next(starts, len(self.lines)) :]))
        except (ValueError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class Sections:
    """All of a host's answers, by name."""

    by_name: dict[str, Section]

    def __getitem__(self, name: str) -> Section:
        return self.by_name.get(name, Section(None, ()))

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def unreadable(self, reason: str) -> "Sections":
        """The same tools, none of which answered what can be read."""
        unread = Section(1, (), f"what it answered cannot be read ({reason})")
        return Sections({name: unread if section.answered else section for name, section in self.by_name.items()})


def read_sections(out: bytes, mark: str) -> Sections:
    """Cut the probe's output; a section that did not end is none."""
    sections: dict[str, Section] = {}
    name, lines, complaints = "", list[str](), list[str]()
    begins, ends = f"{mark} begin ".encode(), f"{mark} end ".encode()
    for line in out.split(b"\n"):
        if line.startswith(b" "):
            lines.append(_plain(line))
        elif line.startswith(b"!"):
            complaints.append(_plain(line))
        elif line.startswith(begins):
            name, lines, complaints = line.removeprefix(begins).decode("utf-8", "replace"), [], []
        elif line.startswith(ends) and name:
            status = _STATUS.search(line)
            complaint = _last(complaints)[:_LONGEST]
            sections[name] = Section(int(status[0]) if status else None, tuple(lines), complaint)
            name = ""
    return Sections(sections)


def _last(lines: Sequence[str]) -> str:
    """The last line that is not empty."""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _plain(line: bytes) -> str:
    """A tool's own line, without secrets, and with nothing in it that a terminal would act on."""
    text = redact(line[1:])[0].decode("utf-8", "replace")
    return inert(text.rstrip("\r").replace("\t", " "))


def known(text: object) -> str | None:
    """A word of a tool; None where it says that it does not know."""
    word = str(text).strip() if isinstance(text, str | int | float) else ""
    return None if word.strip("[]").lower() in ("", "n/a", "none", "not supported", "unknown error") else word


def number(text: object) -> float | None:
    """A figure of a tool, with or without its unit; None where it is none, or not finite."""
    word = known(text)
    try:
        value = float(word.split()[0].rstrip("%")) if word else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


LARGEST = 2**63 - 1
"""Beyond it stands what a driver gives for a count it has not."""


def count(text: object) -> int | None:
    """A count of a tool; None where it is none."""
    word = known(text)
    return int(word) if word and word.isdecimal() and len(word) < 20 and int(word) <= LARGEST else None
