"""Takes secrets out of a line before anything of it is kept."""

import re

from steelyard.secrets import HIDDEN, NAMED, SPECIAL, STAND_IN, TOKENS, WORDS

_HEADERS = re.compile(rb"((?:bearer|basic)\s{1,3})([A-Za-z0-9._~+/-]{8,2000}={0,2})", re.IGNORECASE)
_IN_A_URL = re.compile(rb"(://[^/\s:@]{1,100}:)([^/\s@]{1,200})(@)")
_LOGIN = re.compile(rb"(wandb login\s{1,3}(?:--relogin\s{1,3})?)([0-9a-f]{20,80})")
_ASSIGNMENT = re.compile(rb"\w+=\S*")


__all__ = ["HIDDEN", "redact", "redacted"]


def redact(line: bytes) -> tuple[bytes, bool]:
    """The line without secrets, and whether it held one."""
    hidden = TOKENS.sub(HIDDEN, line)
    hidden = NAMED.sub(_name_kept, hidden)
    hidden = _HEADERS.sub(_if_random, hidden)
    hidden = _IN_A_URL.sub(rb"\1" + HIDDEN + rb"\3", hidden)
    hidden = _LOGIN.sub(rb"\1" + HIDDEN, hidden)
    return hidden, hidden != line


def redacted(text: str) -> str:
    """The same of a text that stands in no log: what a host says, or its tools."""
    return redact(text.encode("utf-8", "replace"))[0].decode("utf-8", "replace")


def _name_kept(found: re.Match[bytes]) -> bytes:
    before = found.string[max(0, found.start() - 12) : found.start()]
    name, value = found[1].lower(), found[2]
    harmless = STAND_IN.fullmatch(value) or _ASSIGNMENT.fullmatch(value) or value.startswith(HIDDEN[:5])
    if harmless or SPECIAL.search(before):
        return found[0]
    stated = b"=" in name or b":" in name
    if WORDS.fullmatch(value) and not (stated and (b"passw" in name or b"secret" in name)):
        return found[0]  # prose
    return found[1] + HIDDEN


def _if_random(found: re.Match[bytes]) -> bytes:
    """What follows `Bearer` or `Basic` in plain prose is a word, and no secret."""
    return found[0] if found[2].isalpha() and found[2].islower() else found[1] + HIDDEN
