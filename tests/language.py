"""Texts that a person reads, and the patterns that docs/reference/glossary.md and plain English leave out.

`python tests/language.py [PATH...]` lists what to rewrite under these paths.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "steelyard"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
MAX_WORDS, MAX_MEDIAN = 30, 16

BANNED = {
    r"\b(is|are) no\b(?! longer)": "write 'not a', 'not found', 'missing'",
    r"\bof no\b": "write 'not of', 'without'",
    r"\b(tokens?|tokens/s|TFLOP/s|[GMK]iB|[MG]B|s|ms|W|J|seconds?|bytes|FLOPs|nats|steps?|runs?|seeds?|repeats|GPUs?|one"
    r"|two|three|once|each|\d+) an? (GPU|step|node|host|side|token|second|hour|minute|day|rank|file|run|line|verb)\b": (
        "write 'per GPU', 'per step', 'per side'"
    ),
    r"\b(besides?|amid|whence|whomever|befalls?|nobody|nowhere|vouch\w*|but for|what nobody)\b": "old word",
    r"\b(speaks? (for|of)|for so long|free to differ|by (its|their) own figures)\b": "old voice",
    r"\b(logs?|records?|lines?|figures?|dumps?|files?|configs?|plans?|data|samples?|steps?|runs?|settings?|intervals?|"
    r"clocks?|kernels?|tables?) (says?|tells?|den(y|ies)|speaks?|claims?|knows?|stands?)\b": (
        "logs contain, show, report, contradict; they do not say or know"
    ),
    r"\b(not|never) (known|told|said)\b": "write 'unknown' or 'not recorded'",
    r"\b(do|does|did) not (say|tell|know)\b": "write 'does not contain', 'does not show'",
    r"\bheld (against|to)\b|\bhold\w* .{0,20}(against|to (its|their))\b": "write 'compared with', 'checked against'",
    r"\b(goes|go|went|going) on\b": "write 'continues', 'resumes'",
    r"\b(ends?|ended) with (status )?\d": "write 'exits with'",
    r"\b(is|are) (none|told)\b|\b(stands?|stood) (at|still|apart)\b": "old voice",
    r"\b(learnt|spelt|burnt|dreamt)\b": "American spelling",
    r"(?i)\b(colour|behaviour|favour|honour|neighbour|catalogue|licence)\w*": "American spelling",
    r"(?i)\b(normal|initial|optim|recogn|organ|summar|serial|synchron|minim|maxim|util|token|quant|regular)is(e|es|ed|"
    r"ing|er|ers|ation)\b": "American spelling",
    r"\d %": "write '36.6%'",
}
_BANNED = {re.compile(pattern): advice for pattern, advice in BANNED.items()}


class Text(NamedTuple):
    place: str
    text: str


def _shown(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def source_texts(path: Path) -> Iterator[Text]:
    """Docstrings and every literal of three words or more, patterns left out."""
    tree = ast.parse(path.read_text())
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"))) | ast.Call(func=ast.Name(id="Pattern")):
                skipped.update(map(id, ast.walk(node)))
            case ast.JoinedStr():
                skipped.update(map(id, ast.walk(node)))
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
                yield Text(f"{_shown(path)}:{node.lineno}", text)
            case ast.Constant(value=str(text)) if text.count(" ") >= 2:
                yield Text(f"{_shown(path)}:{node.lineno}", text)


def data_texts(path: Path) -> Iterator[Text]:
    """Lines of a template, a script, or the comments and values of a packaged config."""
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if line.count(" ") >= 2:
            yield Text(f"{_shown(path)}:{number}", line)


def page_texts(path: Path) -> Iterator[Text]:
    """Lines of prose: code is left out, each cell of a table is a text."""
    fenced = False
    paragraph: list[str] = []
    began = 0
    for number, line in enumerate([*path.read_text().splitlines(), ""], start=1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
            line = ""
        body = re.sub(r"^\s*(?:[-*]|\d+\.|>|!!! \w+|\?\?\? \w+) ", "", line)
        ends = fenced or not line.strip() or line.startswith(("    ", "#", "|", "<")) or body != line
        if ends and paragraph:
            yield Text(f"{_shown(path)}:{began}", " ".join(paragraph))
            paragraph = []
        if fenced or not line.strip() or line.startswith(("    ", "<")):
            continue
        if line.startswith("|"):
            yield from (Text(f"{_shown(path)}:{number}", cell.strip()) for cell in line.split("|"))
        elif line.startswith("#"):
            yield Text(f"{_shown(path)}:{number}", line.lstrip("# "))
        else:
            began = began if paragraph else number
            paragraph.append(body.strip())


def sentences(text: str) -> list[str]:
    """Sentences of prose: code and links count as one word."""
    plain = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", text))
    return [part for part in re.split(r"(?<=[.!?])\s+(?=[A-Z\[*`(]|code)", plain) if len(part.split()) > 2]


def problems(text: str) -> Iterator[str]:
    plain = re.sub(r"`[^`]*`", "code", text)
    for pattern, advice in _BANNED.items():
        for match in pattern.finditer(plain):
            yield f"{match.group()!r}: {advice}"


def under(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.rglob("*")) if path.is_dir() else [path]


def main(paths: list[Path]) -> None:
    count = 0
    lengths = []
    for path in under([path.resolve() for path in paths] or [SOURCE, *PAGES]):
        if path.suffix not in {".py", ".md"}:
            continue
        page = path.suffix == ".md"
        for place, text in page_texts(path) if page else source_texts(path):
            for problem in problems(text):
                count += 1
                sys.stdout.write(f"{place}: {problem}\n    {' '.join(text.split())[:200]}\n")
            for sentence in sentences(text) if page else ():
                lengths.append(len(sentence.split()))
                if lengths[-1] > MAX_WORDS:
                    count += 1
                    sys.stdout.write(f"{place}: {lengths[-1]} words\n    {sentence[:200]}\n")
    sys.stdout.write(f"{count} to rewrite; median sentence {median(lengths or [0])} words\n")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
