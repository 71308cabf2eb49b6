"""Removes what launchers, terminals and log collectors add to a line."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")

_TIME = rb"\d{4}-?\d\d-?\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
TIME = re.compile(_TIME)
"""A timestamp with date."""

_PREFIXES = (
    re.compile(rb"\s*(?P<node>[\w.-]{1,64})/\d+ (?:\[default(?P<rank>\d+)\]:)?"),  # NeMo-Run: job/replica [default0]:
    re.compile(rb"\s*\[default(?P<rank>\d+)\]:"),  # torchrun --tee
    re.compile(rb"\s*\[rank[- ]?(?P<rank>\d+)\]:\s?"),
    re.compile(rb"\s*\[\d+,(?P<rank>\d+)\]<std(?:out|err)>:\s?"),  # mpirun --tag-output
    re.compile(rb"\s*\[pod/(?P<node>[\w.-]+)/[\w.-]+\] "),  # kubectl logs --prefix
    re.compile(rb"\s*\(\w[\w.]* pid=\d+(?:, ip=(?P<node>[\d.]+))?\) "),  # Ray
    re.compile(rb"\s*\[(?P<node>[A-Za-z][\w.-]*):(?P<rank>\d+)\]:\s?"),
    re.compile(rb"\s*\[(?P<node>[A-Za-z][\w.-]*)\]:\s"),
    re.compile(rb"\s*(?P<rank>\d{1,6}): "),  # srun --label
    re.compile(rb"\s*(?P<node>[A-Za-z][A-Za-z_.-]*\d[\w.-]*): "),  # pdsh: hosts are numbered
    re.compile(rb"\s*(?P<node>[a-z][\w.-]*)\s+\| "),  # docker compose
    re.compile(rb"\s*" + _TIME + rb" (?:stdout|stderr) [FP] "),  # the container runtime
    re.compile(rb"\s*\[?" + _TIME + rb"\]?\[rank-(?P<rank>\d+)/\d+\]\[\w+\s*\]\s*\[[^\]]*\] : ?"),  # Primus
    re.compile(rb"\s*\[rank-(?P<rank>\d+)/\d+\]\[\w+\s*\]\s*\[[^\]]*\] : ?"),
    re.compile(rb"\s*[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ \S+\] "),  # absl
    re.compile(rb"\s*\[titan\] " + _TIME + rb" - \w+ - \w+ - "),
    re.compile(rb"\s*\[NeMo \w " + _TIME + rb" [^\]]*\] ?"),
    re.compile(rb"\s*\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z "),  # kubectl logs --timestamps
)
_MOST_PREFIXES = 4
_STRAY = re.compile(
    rb"[^\s\[]{1,16}(?=\[(?:default\d+\]:|rank[- ]?\d+\]:|rank-\d+/\d+\]|\d+,\d+\]<std|titan\] |"
    + _TIME
    + rb"\]\[rank-))"
)
"""Output of another process before an unmistakable prefix."""

_END_BYTES = 8192
"""Bytes at either end of a long line that are examined."""
_MOMENT, _MOMENT_BYTES = re.compile(rb"\[\d{4}-\d\d-\d\d[^\]]*\] $"), 40
"""A timestamp directly before the mark of a step line."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Host and rank of a line, from its prefix."""

    node: str | None = None
    rank: int | None = None

    @property
    def label(self) -> str:
        """The name of its series of steps."""
        return " ".join(filter(None, (self.node, None if self.rank is None else f"rank {self.rank}")))


def ends(line: bytes) -> bytes:
    """The start and end of a long line."""
    return line if len(line) <= 2 * _END_BYTES else line[:_END_BYTES] + b" ... " + line[-_END_BYTES:]


def pieces(raw: bytes) -> Iterator[bytes]:
    """The lines that a terminal would show: without colors, split at carriage returns, long ones cut."""
    text = ANSI.sub(b"", raw if b"\r" in raw else ends(raw))
    if b"\r" in text:
        yield from (ends(part) for part in text.split(b"\r") if part.strip())
    else:
        yield ends(text)


def unglued(text: bytes, marks: Sequence[int]) -> Iterator[bytes]:
    """Split joined lines at their marks; each starts at its timestamp, if it has one."""
    starts = [0]
    for mark in marks[1:]:
        before = text[max(0, mark - _MOMENT_BYTES) : mark]
        moment = _MOMENT.search(before)
        starts.append(mark if moment is None else mark - len(before) + moment.start())
    return (text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True))


def unprefixed(text: bytes) -> tuple[Origin, bytes]:
    """The origin of a line, and the line without prefixes of launchers and loggers."""
    node: str | None = None
    rank: int | None = None
    if stray := _STRAY.match(text):
        text = text[stray.end() :]
    for _ in range(_MOST_PREFIXES):
        for pattern in _PREFIXES:
            if match := pattern.match(text):
                named = match.groupdict()
                if named.get("node"):
                    node = node or named["node"].decode("ascii", "replace")
                if named.get("rank") and len(named["rank"]) < 8:
                    rank = int(named["rank"])
                text = text[match.end() :]
                break
        else:
            break
    return Origin(node, rank), text


def iso(text: bytes) -> str:
    """A timestamp in ISO 8601."""
    word = text.decode("ascii", "replace").replace(" ", "T").replace(",", ".")
    return word if word[4:5] == "-" else f"{word[:4]}-{word[4:6]}-{word[6:]}"


def isos(texts: Sequence[bytes]) -> list[str]:
    """Many timestamps of one format."""
    if texts[0][4:5] != b"-":
        return list(map(iso, texts))
    return iso(b"\n".join(texts)).split("\n")
