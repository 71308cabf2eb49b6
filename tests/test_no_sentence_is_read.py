"""Sentences are for people: code decides by codes and values, and reads no sentence of ours."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import steelyard

SOURCE = Path(steelyard.__file__).parent
SENTENCES = {
    *("message", "words", "reason", "reasons", "sentence", "fix", "note", "notes"),
    *("why", "meaning", "expected", "summary", "headline"),
}
"""What a sentence is called in the code."""
RENDERERS = {"sentence", "headline", "words_for"}
"""Functions that make one."""
ERRORS = {"error", "reason", "wrong", "known", "unknown", "failure"}
"""What an exception is called: its text, and its arguments, are sentences."""
OF_TEXT = {
    "startswith",
    "endswith",
    "removeprefix",
    "removesuffix",
    "partition",
    "rpartition",
    "find",
    "index",
    "count",
    "split",
    "rsplit",
    "splitlines",
    "replace",
}
OF_PATTERNS = {"match", "fullmatch", "search", "findall", "finditer"}

FOREIGN = {
    ("verdict/subject.py", "first['msg'].removeprefix('Input should be ')"): "pydantic's",
    ("experiment/parsing.py", "str(reason).splitlines()"): "ruamel.yaml's",
}
"""Places that read a text of somebody else's, and whose it is."""


def readings(code: str) -> Iterator[str]:
    """The expressions of a module that look into a sentence."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Call(args=[ast.Constant(value="\n")]):
                continue  # lines are laid out, whatever they contain
            case ast.Call(func=ast.Attribute(attr=method, value=text)) if method in OF_TEXT and _is_sentence(text):
                yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(attr=method), args=arguments) if method in OF_PATTERNS:
                if any(map(_is_sentence, arguments)):
                    yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]) if _is_sentence(key):
                yield ast.unparse(node)
            case ast.Subscript(slice=key, ctx=ast.Load()) if _is_sentence(key):
                yield ast.unparse(node)
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() | ast.In() | ast.NotIn()], comparators=[right]):
                if (_is_sentence(left) and _is_text(right)) or (_is_text(left) and _is_sentence(right)):
                    yield ast.unparse(node)
            case ast.Match(subject=subject, cases=cases) if _is_sentence(subject):
                if any(isinstance(case.pattern, ast.MatchValue) and _is_text(case.pattern.value) for case in cases):
                    yield f"match {ast.unparse(subject)}"


def _is_sentence(node: ast.expr) -> bool:
    """A name or an attribute of that name, or an entry of it: `problem["message"]`, `reasons[0]`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in SENTENCES
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="args")) if name in ERRORS:
            return True
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key in {*SENTENCES, "msg"}
        case ast.Subscript(value=value):  # of several sentences, but not the words of a line
            return _is_sentence(value) and ast.unparse(value) != "words"
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]):
            return name in ERRORS
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in RENDERERS:
            return True
        case ast.Call(func=ast.Attribute(value=value)):  # reason.message.lower()
            return _is_sentence(value)
    return False


def _is_text(node: ast.expr) -> bool:
    """A text that is written out, a constant that holds one, or several of them."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, str)
        case ast.JoinedStr():
            return True
        case ast.Name(id=name):
            return name.isupper()
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return any(map(_is_text, items))
    return False


def test_no_code_reads_a_sentence() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), expression)
        for path in SOURCE.rglob("*.py")
        for expression in readings(path.read_text(encoding="utf-8"))
    }
    assert found == FOREIGN.keys()


@pytest.mark.parametrize(
    "line",
    [
        'if finding.message.startswith("qualified: "): pass',
        'if ratio.words == "inconclusive": pass',
        "if ratio.words != INCONCLUSIVE: pass",
        'if "maybe" in ratio.words: pass',
        'if reason in ("one", "other"): pass',
        'short = error.message.removeprefix(f"{file}: ")',
        r'found = re.match(r"line (\d+)", reason)',
        "found = _NOT_KNOWN.fullmatch(ruling.reasons[0])",
        'if problem["fix"].lower().startswith("nothing"): pass',
        'match words:\n    case "yes": pass',
        'short = finding.message.split(": ")[0]',
        'short = reason.message.replace("qualified: ", "")',
        "tone = TONES.get(ratio.words)",
        "tone = TONES[ratio.words]",
        'if figure.why == "no tokens": pass',
        'if "refused" in str(error): pass',
        'if "refused" in error.args[0]: pass',
        'if sentence(reason).startswith("qualified"): pass',
        'meaning = key.meaning.removeprefix("Nothing: ")',
    ],
)
def test_a_line_that_reads_one_is_found(line: str) -> None:
    assert list(readings(line))


@pytest.mark.parametrize(
    "line",
    [
        "if reason.code == INCONCLUSIVE: pass",
        "if reason is None: pass",
        "if reason not in seen: pass",
        'if name.startswith("_"): pass',
        'printing.say(f"{reason.message}: {note}")',
    ],
)
def test_a_line_that_reads_none_is_not(line: str) -> None:
    assert not list(readings(line))
