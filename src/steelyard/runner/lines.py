"""Cuts a stream of bytes into lines, in bounded memory."""

from collections.abc import Iterator

LONGEST = 1 << 20
"""A longer line is cut here: a program that never ends its line must not fill our memory."""


class Lines:
    """Bytes in, whole lines out, each with its newline."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._rest += data
        *whole, self._rest = self._rest.split(b"\n")
        for line in whole:
            yield line + b"\n"
        if len(self._rest) > LONGEST:
            cut, self._rest = self._rest, b""
            yield cut + b"\n"

    def rest(self) -> bytes:
        """What came after the last newline."""
        rest, self._rest = self._rest, b""
        return rest
