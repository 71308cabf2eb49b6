"""Changes keys in the text of a JSON file and keeps all its other bytes."""

import json
import re
from collections.abc import Iterable

from steelyard.experiment.parsing import json_places, parse_json
from steelyard.experiment.problems import Edit
from steelyard.experiment.reading import PointerPath

_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder(strict=False)


def rewritten(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits made. A missing key is added; of two edits of a key the first counts."""
    by_path: dict[PointerPath, Edit] = {}
    for edit in edits:
        by_path.setdefault(edit.path, edit)
    spans = {place.path: place.at for place in json_places(text)}
    added = [edit for path, edit in by_path.items() if path not in spans]
    for edit in sorted(by_path.values(), key=lambda edit: spans.get(edit.path, -1), reverse=True):
        if edit.path in spans:
            text = _changed(text, spans[edit.path], edit, set(spans))
    for edit in added:
        text = _with_entry(text, edit)
    parse_json(text)
    return text


def _changed(text: str, start: int, edit: Edit, taken: set[PointerPath]) -> str:
    """The text with one entry changed, renamed or removed."""
    key_end, value_start, end = _entry(text, start)
    if edit.rename:
        name = f"_{edit.path[-1]}"
        while (*edit.path[:-1], name) in taken:
            name = f"_{name}"
        return f"{text[:start]}{json.dumps(name)}{text[key_end:]}"
    if edit.value is None:
        return _without(text, start, end)
    return f"{text[:value_start]}{json.dumps(edit.value)}{text[end:]}"


def _entry(text: str, start: int) -> tuple[int, int, int]:
    """The end of the key, and the start and the end of the value."""
    _, key_end = _DECODER.raw_decode(text, start)
    value_start = _end_of_space(text, text.index(":", key_end) + 1)
    return key_end, value_start, _DECODER.raw_decode(text, value_start)[1]


def _end_of_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _without(text: str, start: int, end: int) -> str:
    """The text without an entry of a mapping: with its comma and line, or with the comma before the last entry."""
    before, after = text[:start].rstrip(), text[end:].lstrip()
    if after.startswith(","):
        return before + after[1:] if before.endswith(("{", ",")) else text
    return before.removesuffix(",") + text[end:]


def _with_entry(text: str, edit: Edit) -> str:
    """The text with a new entry below the last one of its mapping, indented like it."""
    siblings = [place.at for place in json_places(text) if place.path[:-1] == edit.path[:-1]]
    if not siblings or edit.value is None:
        return text
    line_start = text.rfind("\n", 0, siblings[-1]) + 1
    indent = text[line_start : _end_of_space(text, line_start)]
    end = _entry(text, siblings[-1])[2]
    return f"{text[:end]},\n{indent}{json.dumps(edit.path[-1])}: {json.dumps(edit.value)}{text[end:]}"
