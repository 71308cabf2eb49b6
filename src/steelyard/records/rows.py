"""Consecutive steps by column, converted to steps or to lines of the record on demand."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import msgspec

from steelyard.records.step import Evidence, Step, to_line

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class StepRows:
    """Steps of one log. Each field of `Step` is in `same`, in a column, or missing."""

    same: Mapping[str, Any]
    columns: Mapping[str, Sequence[Any]]
    """Fields that vary: numbers, and texts without commas and quotes."""
    log: str
    numbers: Sequence[int]
    """The log line of each step."""

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Step]:
        return map(self.__getitem__, range(len(self.numbers)))

    def __getitem__(self, at: int) -> Step:
        given = {name: column[at] for name, column in self.columns.items()}
        return Step(**self.same, **given, source=Evidence(self.log, self.numbers[at]))

    def lines(self) -> bytes:
        """The lines that `to_line` makes, without making the steps: keys are inserted between whole columns."""
        texts = {id(column): _encode(column) for column in (*self.columns.values(), self.numbers)}
        if any(b"null" in text for text in texts.values()):  # a non-finite value, which needs `nonfinite`
            return b"".join(map(to_line, self))
        cut = {key: text[1:-1].split(b",") for key, text in texts.items()}
        pieces: list[Iterator[bytes] | Sequence[bytes]] = []
        text = b"{"
        for name in Step.__struct_fields__:
            if name in self.columns:
                pieces += repeat(text + b'"%b":' % name.encode()), cut[id(self.columns[name])]
                text = b","
            elif name == "source":
                pieces += (
                    repeat(text + _encode({"source": {"file": self.log}})[1:-2] + b',"line":'),
                    cut[id(self.numbers)],
                )
                text = b"},"
            elif self.same.get(name) is not None:
                text += _encode({name: self.same[name]})[1:-1] + b","
        pieces.append(repeat(text.removesuffix(b",") + b"}\n"))
        return b"".join(chain.from_iterable(zip(*pieces, strict=False)))
