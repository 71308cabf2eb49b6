"""Cuts blocks into lines in bounded memory: of a line that never ends, the beginning is kept."""

from collections.abc import Iterator

LONGEST = 1 << 20
"""What is kept of one line."""


class LineCutter:
    """Blocks in, lists of whole lines out, without their newlines."""

    def __init__(self) -> None:
        self._rest = b""
        self._passing = False

    def feed(self, block: bytes) -> list[bytes]:
        """The lines this block completes."""
        if self._passing:
            end = block.find(b"\n")
            if end < 0:
                return []
            self._passing = False
            lines = [self._rest, *block[end + 1 :].split(b"\n")]
        else:
            lines = (self._rest + block).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LONGEST:
            self._rest, self._passing = self._rest[:LONGEST], True
        return lines

    def rest(self) -> Iterator[bytes]:
        """What came after the last newline."""
        if self._rest:
            yield self._rest
        self._rest = b""
