"""Takes secrets out of a line before anything of it is kept."""

import re

_TOKENS = re.compile(rb"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16})\b")
_NAMED = re.compile(
    rb"((?:[A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|CREDENTIALS?)|password|(?:\w*_)?api_?key)"
    rb"[\"']?\s*(?:[=:]|\.{2,})\s*[\"']?)([^\s\"',;]{6,})"
)
_BEARER = re.compile(rb"(Bearer\s+)([A-Za-z0-9._~+/-]{8,}=*)")
_NO_SECRET = re.compile(rb"(?:none|null|true|false|\*+|<\w+>|[\d.]+|\$\{?\w+\}?|/\S*)", re.I)

HIDDEN = b"[redacted]"


def redact(line: bytes) -> tuple[bytes, bool]:
    """The line without secrets, and whether it held one."""
    hidden = _TOKENS.sub(HIDDEN, line)
    hidden = _NAMED.sub(_name_kept, hidden)
    hidden = _BEARER.sub(lambda found: found[1] + HIDDEN, hidden)
    return hidden, hidden != line


def _name_kept(found: re.Match[bytes]) -> bytes:
    return found[0] if _NO_SECRET.fullmatch(found[2]) or found[2] == HIDDEN else found[1] + HIDDEN
