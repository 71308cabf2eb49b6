"""Runs the console blocks of the pages as a reader would, and compares what is printed with what the page shows.

`python tests/docs/consoles.py [--write] [PAGE...]`: without --write it lists the differences, with it the pages are
refreshed. The blocks of a page run in order in one directory, which has the folders of `FIXTURES`.

    ```console                                   the output must be the same
    ```console title="Figures vary by machine"   the output must be the same but for its numbers
    ```console title="Example: on a cluster"     is not run; its verbs and options must exist

`…` alone on a line stands for any lines, within a line for any text. A command of which the page shows no output may
print anything.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FIXTURES = ("docs/cases", "tests/frameworks/logs/real")
ANY = "…"
VARYING, EXAMPLE = 'title="Figures vary by machine"', 'title="Example'
TRAINS = re.compile(r"\bsteelyard (run\b|demo\b(?!.*--recorded))")
LIMIT_S = 900
_SIMILAR = 0.5
"""A line of the page and a line that was printed are taken for the same above this share of equal characters."""


@dataclass
class Command:
    text: str
    shown: list[str]
    first: int
    """Index of the first line of its output in the page."""


@dataclass
class Block:
    info: str
    line: int
    indent: str
    commands: list[Command] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        return EXAMPLE not in self.info

    @property
    def varies(self) -> bool:
        return VARYING in self.info


@dataclass
class Outcome:
    page: Path
    block: Block
    command: Command
    printed: list[str]

    @property
    def differs(self) -> bool:
        return bool(self.command.shown) and not matches(self.command.shown, self.printed, self.block.varies)


def blocks(lines: list[str]) -> Iterator[Block]:
    """The console blocks of a page."""
    block: Block | None = None
    for index, line in enumerate(lines):
        opening = re.match(r"(\s*)```console\b(.*)$", line)
        if block is None:
            if opening:
                block = Block(opening[2].strip(), index + 1, opening[1])
            continue
        text = line.removeprefix(block.indent)
        if text.startswith("```"):
            yield block
            block = None
        elif block.commands and block.commands[-1].text.endswith("\\") and not block.commands[-1].shown:
            block.commands[-1].text += "\n" + text
            block.commands[-1].first = index + 1
        elif text.startswith("$ "):
            block.commands.append(Command(text[2:], [], index + 1))
        elif block.commands:
            block.commands[-1].shown.append(text)


def _masked(line: str, varies: bool) -> str:
    line = line.rstrip()
    if not varies:
        return line
    return re.sub(r"\s+", " ", re.sub(r"\d[\dT:,.+-]*(?:e[+-]?\d+)?", "0", line))


def matches(shown: list[str], printed: list[str], varies: bool) -> bool:
    parts = []
    for line in shown:
        if line.strip() == ANY:
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            text = _masked(line, varies).replace(ANY, "\0")
            parts.append(re.escape(text).replace(re.escape("\0"), r"[^\n]*?").replace("\0", r"[^\n]*?") + r"\n")
    text = "".join(_masked(line, varies) + "\n" for line in printed)
    return re.fullmatch("".join(parts), text) is not None


def refreshed(shown: list[str], printed: list[str]) -> list[str]:
    """What was printed, with the parts left out that the page leaves out."""
    wanted = [index for index, line in enumerate(shown) if line.strip() != ANY]
    pairs = _aligned([shown[index] for index in wanted], printed)
    place = {at: shown[wanted[which]] for which, at in pairs.items()}
    if len(wanted) == len(shown):
        return [_without_the_same(place[at], line) if at in place else line for at, line in enumerate(printed)]
    result: list[str] = []
    before = -1
    skips = ""
    for index, line in enumerate(shown):
        if line.strip() == ANY:
            skips = line
            continue
        at = pairs.get(wanted.index(index))
        if at is None:
            continue
        if skips and at > before + 1:
            result.append(skips)
        elif not skips:
            result += printed[before + 1 : at]
        result.append(_without_the_same(line, printed[at]))
        before, skips = at, ""
    if skips and before + 1 < len(printed):
        result.append(skips)
    elif not skips:
        result += printed[before + 1 :]
    return result


def _aligned(shown: list[str], printed: list[str]) -> dict[int, int]:
    """Which printed line is which shown one, in order, as alike as can be."""
    alike = [
        [SequenceMatcher(None, _masked(a, True), _masked(b, True), autojunk=False).ratio() for b in printed]
        for a in shown
    ]
    best = [[0.0] * (len(printed) + 1) for _ in range(len(shown) + 1)]
    for i in reversed(range(len(shown))):
        for j in reversed(range(len(printed))):
            pair = alike[i][j] + best[i + 1][j + 1] if alike[i][j] > _SIMILAR else 0.0
            best[i][j] = max(pair, best[i + 1][j], best[i][j + 1])
    pairs = {}
    i = j = 0
    while i < len(shown) and j < len(printed):
        if alike[i][j] > _SIMILAR and best[i][j] == alike[i][j] + best[i + 1][j + 1]:
            pairs[i] = j
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _without_the_same(shown: str, printed: str) -> str:
    """A printed line, with `…` where the page has it."""
    if ANY not in shown:
        return printed
    if matches([shown], [printed], False):
        return shown
    old, new = re.findall(r"\s+|\S+", shown), re.findall(r"\s+|\S+", printed)
    parts: list[str] = []
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        parts.append(ANY if kind != "equal" and any(ANY in token for token in old[a:b]) else "".join(new[c:d]))
    return "".join(parts)


def outcomes(page: Path) -> Iterator[Outcome]:
    """Run a page."""
    with tempfile.TemporaryDirectory(prefix="steelyard-page-") as name:
        here = Path(name).resolve()
        for fixture in FIXTURES:
            shutil.copytree(ROOT / fixture, here / fixture)
        status = 0
        for block in blocks(page.read_text().splitlines()):
            for command in block.commands if block.runs else ():
                status, here, printed = _run(command.text, here, status, Path(name))
                yield Outcome(page, block, command, printed)


def _run(text: str, here: Path, status: int, home: Path) -> tuple[int, Path, list[str]]:
    """One command, in the directory and with the `$?` that the one before it left."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("STEELYARD_", "FORCE_COLOR"))}
    env |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}",
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "80",
        "NO_COLOR": "1",
        "TZ": "UTC",
    }
    with tempfile.NamedTemporaryFile() as left:
        script = f"(exit {status})\n{text}\nstatus=$?\npwd > {left.name}\nexit $status\n"
        done = subprocess.run(
            ["timeout", "--kill-after=30", str(LIMIT_S), "bash", "-c", script],  # ends what bash started too
            cwd=here,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        here = Path(Path(left.name).read_text().strip() or here)
    return done.returncode, here, done.stdout.replace(f"{home.resolve()}/", "").splitlines()


def write(page: Path, results: Iterable[Outcome]) -> None:
    """Put what was printed in place of what the page shows, from the last block to the first."""
    lines = page.read_text().splitlines()
    for result in sorted(results, key=lambda each: -each.command.first):
        command, indent = result.command, result.block.indent
        new = [f"{indent}{line}".rstrip() for line in refreshed(command.shown, result.printed)]
        lines[command.first : command.first + len(command.shown)] = new
    page.write_text("\n".join(lines) + "\n")


def difference(result: Outcome) -> str:
    shown = "\n".join(f"  page:    {line}" for line in result.command.shown)
    printed = "\n".join(f"  printed: {line}" for line in result.printed)
    return f"{result.page.relative_to(ROOT)}:{result.block.line}: $ {result.command.text}\n{shown}\n{printed}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="refresh the pages")
    parser.add_argument("pages", nargs="*", type=Path)
    asked = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # one core, as in the tests: threads that share busy cores wait for each other
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    count = 0
    for page in [page.resolve() for page in asked.pages] or PAGES:
        wrong = [result for result in outcomes(page) if result.differs]
        count += len(wrong)
        for result in wrong:
            sys.stdout.write(difference(result))
        if asked.write:
            write(page, wrong)
    sys.stdout.write(f"{count} {'refreshed' if asked.write else 'differ'}\n")
    return 1 if count and not asked.write else 0


if __name__ == "__main__":
    sys.exit(main())
