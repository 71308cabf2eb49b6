"""Takes secrets out of a line before anything of it is kept."""

import re

_TOKENS = re.compile(
    rb"\b(?:hf_[A-Za-z0-9]{20,200}|gh[pousr]_[A-Za-z0-9]{20,200}|github_pat_\w{20,200}"
    rb"|glpat-[\w-]{16,100}|xox[bp]-[\w-]{16,200}|nvapi-[\w-]{20,200}|sk-[\w-]{20,200}|AKIA[0-9A-Z]{16}"
    rb"|eyJ[\w-]{10,2000}\.[\w-]{10,2000}\.[\w-]{5,2000})"
)
_NAMED = re.compile(
    rb"((?<![a-z])(?:token|secret(?:[_-]?(?:access[_-]?)?key)?|passw(?:or)?d|api[_-]?(?:secret[_-]?)?key"
    rb"|access[_-]?key|wandb[_-]?key|accountkey|credentials?|signature)"
    rb"[\"']?(?:\s{0,3}[=:]\s{0,3}|\s?\.{2,80}\s|\s{1,3}(?=[^\s=:]{8}))[\"']?)([^\s\"',;&)]{6,2000})",
    re.IGNORECASE,
)
_HEADERS = re.compile(rb"((?:bearer|basic)\s{1,3})([A-Za-z0-9._~+/-]{8,2000}={0,2})", re.IGNORECASE)
_IN_A_URL = re.compile(rb"(://[^/\s:@]{1,100}:)([^/\s@]{1,200})(@)")
_LOGIN = re.compile(rb"(wandb login\s{1,3}(?:--relogin\s{1,3})?)([0-9a-f]{20,80})")
_NO_SECRET = re.compile(
    rb"(?:none|null|true|false|[*x.]+|<.*|[\d.,]{1,7}|\$\{?\w+\}?|~?/[a-z]\S*|\w+=\S*|\S*\.json|\(.*)", re.IGNORECASE
)
_WORDS = re.compile(rb"[a-z]+(?:[_/-][a-z/_-]*)?", re.IGNORECASE)
_SPECIAL = re.compile(
    rb"(?:bos|eos|pad|unk|sep|cls|mask|special|add|num|max|per|each|first|last|next)[_-]?$", re.IGNORECASE
)

HIDDEN = b"[redacted]"


def redact(line: bytes) -> tuple[bytes, bool]:
    """The line without secrets, and whether it held one."""
    hidden = _TOKENS.sub(HIDDEN, line)
    hidden = _NAMED.sub(_name_kept, hidden)
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
    if _SPECIAL.search(before) or _NO_SECRET.fullmatch(value) or value.startswith(HIDDEN[:5]):
        return found[0]
    stated = b"=" in name or b":" in name
    if _WORDS.fullmatch(value) and not (stated and (b"passw" in name or b"secret" in name)):
        return found[0]  # prose
    return found[1] + HIDDEN


def _if_random(found: re.Match[bytes]) -> bytes:
    """What follows `Bearer` or `Basic` in plain prose is a word, and no secret."""
    return found[0] if found[2].isalpha() and found[2].islower() else found[1] + HIDDEN
