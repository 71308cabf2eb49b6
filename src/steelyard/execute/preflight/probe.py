"""Runs the probe on a host: all queries in one round trip, with one section of output per tool."""

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
    """The output of `probe.sh` with these arguments; limits: `tool_s` per tool, `timeout_s` in total."""
    script = resources.files(__package__).joinpath("probe.sh").read_bytes()
    mark = secrets.token_hex(16)
    done = await host.run(["sh", "-s", "--", mark, str(tool_s), *words], stdin=script, timeout_s=timeout_s)
    return read_sections(done.out, mark)


@dataclass(frozen=True, slots=True)
class Section:
    """The output of one tool."""

    status: int | None
    """None if the tool is not installed."""
    lines: tuple[str, ...]
    complaint: str = ""
    """The last line of its standard error."""

    @property
    def answered(self) -> bool:
        return self.status == 0

    @property
    def reason(self) -> str:
        """Why it did not answer, for a message."""
        if self.status is None:
            return "not installed"
        if self.status in (124, 137):
            return "timed out"
        return (self.complaint or _last(self.lines))[:_LONGEST] or f"status {self.status}"

    def json(self) -> Any:
        """Its output as JSON, from the first line that can start a document; None if it is not JSON."""
        if not self.answered:
            return None
        starts = (at for at, line in enumerate(self.lines) if line.lstrip().startswith(("[", "{")))
        try:
            return json.loads("\n".join(self.lines[next(starts, len(self.lines)) :]))
        except (ValueError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class Sections:
    """All sections of a host, by name."""

    by_name: dict[str, Section]

    def __getitem__(self, name: str) -> Section:
        return self.by_name.get(name, Section(None, ()))

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def unreadable(self, reason: str) -> "Sections":
        """The same sections, with every answer replaced by this error."""
        unread = Section(1, (), f"unreadable output: {reason}")
        return Sections({name: unread if section.answered else section for name, section in self.by_name.items()})


def read_sections(out: bytes, mark: str) -> Sections:
    """Cut the probe's output into sections; an incomplete section is dropped."""
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
    """A line of a tool, without secrets and without control characters."""
    text = redact(line[1:])[0].decode("utf-8", "replace")
    return inert(text.rstrip("\r").replace("\t", " "))


def known(text: object) -> str | None:
    """A value of a tool; None for values such as N/A."""
    word = str(text).strip() if isinstance(text, str | int | float) else ""
    return None if word.strip("[]").lower() in ("", "n/a", "none", "not supported", "unknown error") else word


def number(text: object) -> float | None:
    """A number of a tool, with or without its unit; None if it is not a finite number."""
    word = known(text)
    try:
        value = float(word.split()[0].rstrip("%")) if word else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


LARGEST = 2**63 - 1
"""Drivers use larger values for a count that they do not have."""


def count(text: object) -> int | None:
    """A count of a tool; None if it is not one."""
    word = known(text)
    return int(word) if word and word.isdecimal() and len(word) < 20 and int(word) <= LARGEST else None
