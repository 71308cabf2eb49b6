"""Tells at a glance which lines are worth looking at, from what dialects, failures and secrets declare of theirs."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from steelyard import secrets
from steelyard.frameworks.logs import failures, other_lines
from steelyard.frameworks.logs.dialect import Dialect

_NOT_A_STEP = re.compile(rb"\bsaved|\bsaving|checkpoint", re.I)
_STEP = re.compile(rb"(?i:\b(?:global_?)?(?:steps?|it|iter|iterations?)\b[^A-Za-z]{0,4}\d)")
_LOSS = re.compile(rb"(?i:loss\b[^A-Za-z]{0,4}(?:\d|nan\b|inf\b))")
_NOT_OF_TRAINING = re.compile(rb"\bsaved|\bsaving|checkpoint|ckpt|eval|valid|\bval_|\btest", re.I)
_GROUP_NAME = re.compile(rb"\?P<\w+>")


@dataclass(frozen=True, slots=True)
class Interest:
    """What some dialects' lines are told by."""

    interesting: re.Pattern[bytes]
    """What a line that says anything holds. It looks at no digit, so one answer serves every line of a shape."""
    telltale: re.Pattern[bytes]
    """What tells a dialect, marks a step or may be a step that nobody knows; asked as long as no step was read."""
    opening: re.Pattern[bytes]

    def looks_like_a_step(self, body: bytes) -> bool:
        """Whether a line starts as step lines do; one that then cannot be read is not passed over."""
        return bool(self.opening.search(body)) and not _NOT_A_STEP.search(body)


def names_step_and_loss(body: bytes) -> bool:
    """Whether a line gives a step's number and its loss, as step lines of a version nobody knows still do."""
    return bool(_STEP.search(body) and _LOSS.search(body) and not _NOT_OF_TRAINING.search(body))


@cache
def interest(dialects: tuple[Dialect, ...]) -> Interest:
    """Built once for each set of dialects."""
    words = (pattern for one in dialects for pattern in one.words)
    marks = (_GROUP_NAME.sub(b"?:", one.mark.pattern) for one in dialects)
    telltales = (pattern for one in dialects for pattern in one.telltales)
    return Interest(
        _any((*words, *failures.WORDS, *other_lines.NETWORK_WORDS, *secrets.LOG_WORDS)),
        _any((*telltales, *marks, _LOSS.pattern)),
        _any(one.opening for one in dialects),
    )


def _any(patterns: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(dict.fromkeys(patterns)))
