"""Cuts blocks into lines in bounded memory; of a very long line only the start is kept."""

from collections.abc import Iterator

LONGEST = 1 << 20
"""Bytes kept of one line."""


class LineCutter:
    """Takes blocks and returns lists of whole lines without newlines."""

    def __init__(self) -> None:
        self._rest = b""
        self._passing = False
        self.raw = b""
        self.whole = True
        """Whether all lines so far were kept whole."""

    def feed(self, block: bytes) -> list[bytes]:
        """The lines that this block completes; `raw` has their bytes."""
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
        if len(self._rest) > LONGEST and (bar := self._rest.rfind(b"\r")) > 0:  # a progress bar that is redrawn
            lines.append(self._rest[: bar + 1])
            self._rest = self._rest[bar + 1 :]
        self.raw = data[: len(data) - len(self._rest)]
        if len(self._rest) > LONGEST:
            self._rest, self._passing, self.whole = self._rest[:LONGEST], True, False
        return lines

    def rest(self) -> Iterator[bytes]:
        """The bytes after the last newline."""
        if self._rest:
            yield self._rest
        self._rest = b""
