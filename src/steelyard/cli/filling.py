"""The questions of --fill on a terminal."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from steelyard.cli import printing
from steelyard.configs.choose import Asked
from steelyard.configs.files import read_config
from steelyard.configs.fill import Gap, filled_text, gaps
from steelyard.errors import InputError
from steelyard.experiment.problems import shown
from steelyard.files import replace_file


def fill_file(path: Path, asked: Asked) -> None:
    """Ask for each value that is not filled in, and write the file once all are answered."""
    file = read_config(path)
    if not file.is_json:
        complaint, next_step = f"{path}: --fill needs a JSON config", "edit the file by hand"
        raise InputError(complaint, key="--fill", value=str(path), next=next_step)
    missing = gaps(file, asked) if file.family != "steelyard" else []
    if not missing:
        printing.note(f"{path}: no value is missing")
        return
    values = f"{len(missing)} value{'s' * (len(missing) != 1)}"
    if not sys.stdin.isatty():
        complaint, next_step = f"{path}: {values} missing", f"steelyard lint {shlex.quote(str(path))}"
        expected = "a terminal for --fill to ask on"
        raise InputError(complaint, key="--fill", value=missing[0].path[-1], expected=expected, next=next_step)
    printing.note(
        f"{path}: {values} to fill in. Return takes the value in brackets. "
        "The file is written after the last answer; Ctrl-C leaves it unchanged."
    )
    answers = {gap.path: _ask(path, gap, f"{at} of {len(missing)}") for at, gap in enumerate(missing, 1)}
    mark = "\ufeff" if path.read_bytes().startswith(b"\xef\xbb\xbf") else ""
    replace_file(path.resolve(), mark + filled_text(file, answers))
    printing.note(f"{path}: {values} filled in")


def _ask(path: Path, gap: Gap, place: str) -> str | None:
    """Ask until an answer is accepted; None removes the key. The end of input and Ctrl-C leave the file unchanged."""
    printing.note(f"{place}: {' / '.join(gap.path)}\n  {' '.join(_explained(gap))}")
    hint = f" [{'remove' if gap.removable else gap.example}]" if gap.removable or gap.example else ""
    while True:
        sys.stderr.write(f"  {gap.path[-1]}{hint}: ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise InputError(f"{path}: the input ended before the last answer; nothing was written")
        if not line.strip() and gap.removable:
            return None
        text = line.strip() or gap.example or ""
        if not text:
            printing.note("  the file has no example: type a value")
        elif (refused := gap.accepts(text)) is None:
            return text
        else:
            printing.note(f"  {shown(text)}: {refused}")


def _explained(gap: Gap) -> Iterator[str]:
    """What the value means, and what Return does unless it takes the example."""
    yield gap.key.meaning
    if gap.choices and not all(choice in gap.key.meaning for choice in gap.choices):
        yield f"One of {', '.join(gap.choices)}."
    if gap.is_threshold:
        example = f" {gap.example} is only the example of the file." if gap.example else ""
        yield f"The value becomes a limit that the run must reach.{example}"
    if gap.removable:
        example = f" Example: {gap.example}." if gap.example else ""
        yield f"Return removes the key; the default is {gap.key.default}.{example}"
