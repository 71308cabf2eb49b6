"""What the probe printed, cut into sections: one a tool, with how the tool ended."""

import json
from dataclasses import dataclass
from typing import Any

from steelyard.inert import inert

_LONGEST = 300


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
        said = self.complaint or next((line.strip() for line in reversed(self.lines) if line.strip()), "")
        return said[:_LONGEST] or f"status {self.status}"

    def json(self) -> Any:
        """What it printed as JSON, from the first line that can begin a document; None where it is none."""
        if not self.answered:
            return None
        starts = (at for at, line in enumerate(self.lines) if line.lstrip().startswith(("[", "{")))
        try:
            return json.loads("\n".join(self.lines[next(starts, len(self.lines)) :]))
        except (ValueError, RecursionError):
            return None


UNASKED = Section(None, ())


@dataclass(frozen=True, slots=True)
class Sections:
    """All of a host's answers, by name."""

    by_name: dict[str, Section]

    def __getitem__(self, name: str) -> Section:
        return self.by_name.get(name, UNASKED)

    def __contains__(self, name: str) -> bool:
        return name in self.by_name


def read_sections(out: bytes, mark: str) -> Sections:
    """Cut the probe's output; a section that did not end is none."""
    found: dict[str, Section] = {}
    name, lines, complaints = "", list[str](), list[str]()
    for line in out.decode("utf-8", "replace").split("\n"):
        if line.startswith(" "):
            lines.append(_plain(line))
        elif line.startswith("!"):
            complaints.append(_plain(line))
        elif line.startswith(f"{mark} begin "):
            name, lines, complaints = line.split(" ", 2)[2], [], []
        elif line.startswith(f"{mark} end ") and name:
            status = line.rpartition(" ")[2]
            last = next((one.strip() for one in reversed(complaints) if one.strip()), "")
            found[name] = Section(int(status) if status.isdecimal() else None, tuple(lines), last[:_LONGEST])
            name = ""
    return Sections(found)


def _plain(line: str) -> str:
    """A tool's own line, with nothing in it that a terminal would act on."""
    return inert(line[1:].rstrip("\r").replace("\t", " "))
