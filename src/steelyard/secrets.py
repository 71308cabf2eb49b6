"""Finds secrets: the shapes of tokens, the names of secrets, and the ways programs print them."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

HIDDEN = b"[redacted]"
"""Replaces a secret."""

TOKENS = re.compile(
    rb"\b(?:hf_[A-Za-z0-9]{20,200}|gh[pousr]_[A-Za-z0-9]{20,200}|github_pat_\w{20,200}"
    rb"|glpat-[\w-]{16,100}|xox[bp]-[\w-]{16,200}|nvapi-[\w-]{20,200}|sk-(?=[\w-]{0,199}\d)[\w-]{20,200}"
    rb"|AKIA[0-9A-Z]{16}|eyJ[\w-]{10,2000}\.[\w-]{10,2000}\.[\w-]{5,2000})"
)
NAMED = re.compile(
    rb"((?<![a-z])(?:token|secret(?:[_-]?(?:access[_-]?)?key)?|passw(?:or)?d|api[_-]?(?:secret[_-]?)?key"
    rb"|access[_-]?key|wandb[_-]?key|accountkey|credentials?|signature)"
    rb"[\"']?(?:\s{0,3}[=:]\s{0,3}|\s?\.{2,80}\s|\s{1,3}(?=[^\s=:]{8}))[\"']?)([^\s\"',;&)]{6,2000})",
    re.IGNORECASE,
)
STAND_IN = re.compile(
    rb"(?:none|null|true|false|yes|no|on|off|[*x.]+|<.*|[\d.,]{1,7}|\$\{?\w+\}?|\{[\w.-]+\}|~?/[a-z]\S*|\S*\.json|\(.*)",
    re.IGNORECASE,
)
"""Harmless values under a secret's name: a flag, a count, a placeholder, the path of a file."""
WORDS = re.compile(rb"[a-z]+(?:[_/-][a-z/_-]*)?", re.IGNORECASE)
SPECIAL = re.compile(
    rb"(?:bos|eos|pad|unk|sep|cls|mask|special|add|num|max|per|each|first|last|next|start|end|stop|eod|text|image)[_-]?$",
    re.IGNORECASE,
)
"""Prefixes of `token` that mean a vocabulary token or a count."""

_KEY_BLOCK = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_MARKER = re.compile(rb"-----(?:BEGIN|END) [A-Z0-9 ]{1,40}-----")
_SECRET_NAME = re.compile(
    r"(?P<kind>token|secret|passwo?r?d|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|credentials?"
    r"|(?:^|(?<=[_-]))(?:key|pat|pass|pwd))$",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"password(?!.*_(?:file|path|dir)$)", re.IGNORECASE)
_OPEN = re.compile(rb"<[^<>]*>|\$\{?\w+\}?|\{[\w.-]+\}|~?/[a-z]\S*", re.IGNORECASE)
"""Values that are not a password: a placeholder, or the path of a file."""
_HEADERS = re.compile(rb"((?:bearer|basic)\s{1,3})([A-Za-z0-9._~+/-]{8,2000}={0,2})", re.IGNORECASE)
_IN_A_URL = re.compile(rb"(://[^/\s:@]{1,100}:)([^/\s@]{1,200})(@)")
_LOGIN = re.compile(rb"(wandb login\s{1,3}(?:--relogin\s{1,3})?)([0-9a-f]{20,80})")
_ASSIGNMENT = re.compile(rb"\w+=\S*")
LOG_WORDS = (
    rb"hf_|gh[pousr]_|github_pat_|glpat-|xox[bp]-|nvapi-|\bsk-|AKIA|eyJ|[Bb]earer|Basic |://[^/ ]{1,100}@|wandb login",
    rb"[Tt]oken[\"' =:.]|TOKEN|[Ss]ecret|SECRET|PASSW|[Pp]assw|[Aa][Pp][Ii][-_]?[Kk][Ee][Yy]|[Kk]ey[=:]|_key|-key",
    rb"[Aa]ccess_?[Kk]ey|ACCESS_?KEY|AccountKey|CREDENTIAL|Signature=",
)
"""Quick test for lines that may contain a secret. Matches digits only inside addresses."""
_EVERYDAY = ("token", "key", "pat", "pass", "pwd")
"""Name endings that mean a secret in an environment variable, and often something else in an option."""
_SHORTEST = 6
"""Shorter words are not hidden: they occur by chance."""


def secret_kind(name: str, value: Any) -> str | None:
    """The kind of secret that a config value is, by its shape or its name; None if it is not a secret."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        return _kind_by_name(name, str(value)) if numeric else None
    raw = value.encode("utf-8", "replace")
    if _KEY_BLOCK.search(raw):
        return "a private key"
    if TOKENS.search(raw):
        return "a token"
    return None if name.startswith("_") else _kind_by_name(name, value)  # keys with _ are examples


def _kind_by_name(name: str, value: str) -> str | None:
    raw = value.strip().encode("utf-8", "replace")
    if _PASSWORD.search(name):
        harmless = _OPEN if name.lower().endswith("password") else STAND_IN
        return None if not raw or harmless.fullmatch(raw) else "a password"
    match = _SECRET_NAME.search(name)
    if match is None or not raw or STAND_IN.fullmatch(raw):
        return None
    kind = match["kind"].lower()
    if kind == "token" and SPECIAL.search(name[: match.start()].encode("utf-8", "replace")):
        return None
    if not name.isupper() and kind in _EVERYDAY:  # an option such as text_key, not a variable
        return "a secret" if _looks_random(value.strip()) else None
    is_prose = WORDS.fullmatch(raw) is not None and (kind == "key" or not name.isupper())
    return None if is_prose else "a secret"


def without_secrets(content: Any) -> tuple[Any, list[tuple[tuple[str, ...], str]]]:
    """A config without its secrets, and the place and kind of each; aliases of one value are visited once."""
    places: list[tuple[tuple[str, ...], str]] = []
    return _without(content, (), "", places, {}), places


def _without(
    value: Any, path: tuple[str, ...], name: str, places: list[tuple[tuple[str, ...], str]], seen: dict[int, Any]
) -> Any:
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, dict):
        cleaned: dict[Any, Any] = {}
        seen[id(value)] = cleaned
        for key, inner in value.items():
            kept = key
            if isinstance(key, str) and (kind := secret_kind("", key)) is not None:
                kept = HIDDEN.decode()
                places.append(((*path, kept), kind))
            cleaned[kept] = _without(inner, (*path, str(kept)), str(kept), places, seen)
        return cleaned
    if isinstance(value, list | tuple | set):
        items: list[Any] = []
        seen[id(value)] = items
        items += [_without(inner, (*path, str(at)), name, places, seen) for at, inner in enumerate(value)]
        return items if isinstance(value, list) else type(value)(items)
    kind = secret_kind(name, value)
    if kind is None:
        return value
    places.append((path, kind))
    return HIDDEN.decode()


def spellings(secret: bytes) -> set[bytes]:
    """All texts of one secret to hide: as programs print it, each of its lines, and named secrets in those lines.

    Logs are read line by line, so each line of a key file is hidden. Braces and markers of a key file are not secret.
    """
    whole = secret.strip()
    lines = [line.strip().rstrip(b",") for line in whole.splitlines()]
    texts = {whole, *_escaped(whole)}
    if len(lines) > 1:
        texts |= {line for line in lines if not _MARKER.fullmatch(line) and len(re.findall(rb"\w", line)) >= _SHORTEST}
        texts |= {named[2] for line in lines for named in NAMED.finditer(line) if not STAND_IN.fullmatch(named[2])}
    if whole[:1] in b"{[" and len(whole) > 1:
        for text in _secret_texts(whole):
            texts |= spellings(text)
    return {text for text in texts if len(text) >= _SHORTEST}


def _escaped(text: bytes) -> Iterator[bytes]:
    """The text as JSON, `repr` and a URL print it."""
    decoded = text.decode("utf-8", "replace")
    once = json.dumps(decoded)[1:-1]
    yield from (form.encode() for form in (once, json.dumps(once)[1:-1], quote(decoded, safe="")))
    yield repr(decoded)[1:-1].encode("utf-8", "replace")


def _secret_texts(document: bytes) -> Iterator[bytes]:
    """Secrets inside a JSON document, such as the key of a service account."""
    try:
        left = [("", json.loads(document))]
    except (ValueError, RecursionError):
        return
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            left += value.items()
        elif isinstance(value, list):
            left += [(name, inner) for inner in value]
        elif isinstance(value, str) and (secret_kind(name, value) or _looks_random(value)):
            yield value.encode("utf-8", "replace")


def _looks_random(text: str) -> bool:
    """Whether a text is long, without spaces, of letters and digits: neither a word nor a count."""
    return bool(re.fullmatch(r"(?=[^A-Za-z]*[A-Za-z])(?=[^0-9]*[0-9])[A-Za-z0-9+/=_-]{16,}", text))


def redact(line: bytes) -> tuple[bytes, bool]:
    """The line without secrets, and whether it contained one."""
    hidden = TOKENS.sub(HIDDEN, line)
    hidden = NAMED.sub(_name_kept, hidden)
    hidden = _HEADERS.sub(_if_random, hidden)
    hidden = _IN_A_URL.sub(rb"\1" + HIDDEN + rb"\3", hidden)
    hidden = _LOGIN.sub(rb"\1" + HIDDEN, hidden)
    return hidden, hidden != line


_LOG_WORD = re.compile(b"|".join(LOG_WORDS))
_DIGITS = b"0123456789"
_MOST_SHAPES = 4096
_STRING = rb'"((?:[^"\\]|\\.)*)"'
_JSON_STRINGS = re.compile(_STRING + rb"(?:(\s*:\s*)" + _STRING + rb")?", re.DOTALL)
"""A string of a JSON text, with the string that it names, if it names one."""


class Redactor:
    """Removes secrets from the lines of a file; JSON stays valid."""

    def __init__(self, as_json: bool = False) -> None:
        self.changed = 0
        """Lines that contained a secret."""
        self._redact = _redact_json if as_json else redact
        self._clean: set[bytes] = set()
        """Lines without their digits that contain no secret, whatever the digits."""

    def __call__(self, line: bytes) -> bytes:
        shape = line.translate(None, _DIGITS)
        if shape in self._clean:
            return line
        if not _LOG_WORD.search(line):
            if len(self._clean) < _MOST_SHAPES:
                self._clean.add(shape)
            return line
        hidden, secret = self._redact(line)
        self.changed += secret
        return hidden


def _redact_json(line: bytes) -> tuple[bytes, bool]:
    hidden = _JSON_STRINGS.sub(_strings_hidden, line)
    return hidden, hidden != line


def _strings_hidden(match: re.Match[bytes]) -> bytes:
    if match[3] is None:
        return _string_hidden("", match[1])
    try:
        name = json.loads(b'"%b"' % match[1])
    except ValueError:
        return match[0]
    return _string_hidden("", match[1]) + match[2] + _string_hidden(name, match[3])


def _string_hidden(name: str, literal: bytes) -> bytes:
    """A string of a JSON text without secrets; `name` is its key."""
    whole = b'"%b"' % literal
    try:
        text = json.loads(whole)
    except ValueError:  # not JSON
        return whole
    hidden, secret = redact(text.encode("utf-8", "surrogatepass"))
    if secret_kind(name, text):
        hidden, secret = HIDDEN, True
    return json.dumps(hidden.decode("utf-8", "surrogatepass")).encode() if secret else whole


def redacted(text: str) -> str:
    """A text that is not a log line, such as the output of a host's tools, without secrets."""
    return redact(text.encode("utf-8", "replace"))[0].decode("utf-8", "replace")


def _name_kept(match: re.Match[bytes]) -> bytes:
    before = match.string[max(0, match.start() - 12) : match.start()]
    name, value = match[1].lower(), match[2]
    harmless = STAND_IN.fullmatch(value) or _ASSIGNMENT.fullmatch(value) or value.startswith(HIDDEN[:5])
    if harmless or SPECIAL.search(before):
        return match[0]
    stated = b"=" in name or b":" in name
    if WORDS.fullmatch(value) and not (stated and (b"passw" in name or b"secret" in name)):
        return match[0]  # prose
    return match[1] + HIDDEN


def _if_random(match: re.Match[bytes]) -> bytes:
    """Keep a lower-case word after `Bearer` or `Basic`: it is prose."""
    return match[0] if match[2].isalpha() and match[2].islower() else match[1] + HIDDEN
