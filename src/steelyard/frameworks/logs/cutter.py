"""Cuts blocks into lines in bounded memory: of a line that never ends, the beginning is kept."""

from collections.abc import Iterator

LONGEST = 1 << 20
"""What is kept of one line."""


class LineCutter:
    """Blocks in, lists of whole lines out, without their newlines."""

    def __init__(self) -> None:
        self._rest = b""
        self._passing = False
        self.raw = b""
        self.whole = True
        """Whether every line so far was kept whole."""

    def feed(self, block: bytes) -> list[bytes]:
        """The lines this block completes; `raw` is all of them as they were."""
        if self._passing:
            end = block.find(b"\n")
            if end < 0:
                self.raw = b""
                return []
            self._passing = False
            data = self._rest + block[end:]
        else:
            data = self._rest + block if self._rest else block
        lines = data.split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LONGEST and (bar := self._rest.rfind(b"\r")) > 0:  # a progress bar, drawn again and again
            lines.append(self._rest[: bar + 1])
            self._rest = self._rest[bar + 1 :]
        self.raw = data[: len(data) - len(self._rest)]
        if len(self._rest) > LONGEST:
            self._rest, self._passing, self.whole = self._rest[:LONGEST], True, False
        return lines

    def rest(self) -> Iterator[bytes]:
        """What came after the last newline."""
        if self._rest:
            yield self._rest
        self._rest = b""
