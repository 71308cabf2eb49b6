"""The log lines that a finding is based on, read from the files of its run."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from steelyard.files import open_regular
from steelyard.records import Evidence
from steelyard.reporting.page import Excerpt, LogLine

AROUND = 2
"""Lines before and after."""
MOST = 60
"""Excerpts of one run."""
TEXT_BYTES = 400
"""Of one line; the rest of a longer one is cut."""
FILE_BYTES = 1 << 30
"""Of one file; lines after it are not read, which takes about a second."""
_BLOCK_BYTES = 1 << 20


def excerpts(run: Path, places: Iterable[Evidence | None]) -> dict[Evidence, Excerpt]:
    """The lines around each place, in one pass over each file."""
    wanted = list(dict.fromkeys(place for place in places if place is not None))
    by_file: dict[str, set[int]] = defaultdict(set)
    for place in wanted[:MOST]:
        by_file[place.file].update(range(max(place.line - AROUND, 1), place.line + AROUND + 1))
    texts = {file: _lines(run, file, numbers) for file, numbers in by_file.items()}
    return {place: _excerpt(place, texts.get(place.file, {})) for place in wanted}


def _excerpt(place: Evidence, texts: dict[int, str]) -> Excerpt:
    around = range(max(place.line - AROUND, 1), place.line + AROUND + 1)
    lines = [LogLine(number, texts[number]) for number in around if number in texts]
    return Excerpt(place.file, place.line, lines if place.line in texts else ())


def _lines(run: Path, file: str, numbers: set[int]) -> dict[int, str]:
    """Some lines of a file below the run; none where it is elsewhere or cannot be read."""
    parts = PurePosixPath(file)
    if parts.is_absolute() or ".." in parts.parts or "\0" in file:
        return {}
    try:
        return dict(_read(run / parts, run, numbers))
    except OSError:
        return {}


def _read(path: Path, run: Path, numbers: set[int]) -> Iterable[tuple[int, str]]:
    number, last, rest, total = 1, max(numbers), b"", 0
    with open_regular(path, below=run) as log:
        while number <= last and total < FILE_BYTES and (block := log.read(_BLOCK_BYTES)):
            total += len(block)
            ends = block.count(b"\n")
            if any(number <= at < number + ends for at in numbers):
                *whole, tail = (rest + block).split(b"\n")
                yield from ((at, _text(line)) for at, line in enumerate(whole, start=number) if at in numbers)
            else:
                tail = block[block.rfind(b"\n") + 1 :] if ends else rest + block
            number, rest = number + ends, tail[: TEXT_BYTES + 1]
    if rest and number in numbers:
        yield number, _text(rest)


def _text(line: bytes) -> str:
    cut = "\N{HORIZONTAL ELLIPSIS}" if len(line) > TEXT_BYTES else ""
    return line[:TEXT_BYTES].decode(errors="replace").rstrip("\r") + cut
