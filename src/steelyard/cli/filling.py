"""The questions of --fill, asked on a terminal."""

import sys
from pathlib import Path

from steelyard.cli import printing
from steelyard.configs.choose import Asked
from steelyard.configs.files import read_config
from steelyard.configs.fill import Gap, filled_text, gaps
from steelyard.errors import InputError
from steelyard.experiment.problems import shown
from steelyard.files import replace_file


def fill_file(path: Path, asked: Asked) -> None:
    """Ask for what the file leaves open and write it there; nothing is written unless all of it is answered."""
    file = read_config(path)
    if not file.is_json:
        raise InputError(
            f"{path}: --fill writes into JSON configs", key="--fill", value=str(path), next="write the places by hand"
        )
    found = gaps(file, asked) if file.family != "steelyard" else []
    if not found:
        printing.note(f"{path}: nothing is left open")
        return
    if not sys.stdin.isatty():
        raise InputError(
            f"{path}: {len(found)} place{'s are' if len(found) != 1 else ' is'} left open, and there is no terminal",
            key="--fill",
            value=found[0].path[-1],
            expected="a terminal",
            next=f"steelyard lint {path}, which names each of them",
        )

    printing.note(
        f"{path}: {len(found)} place{'s' * (len(found) != 1)} to fill. Return alone takes what stands in brackets; "
        "nothing is written before the last answer, and Ctrl-C writes nothing."
    )

    answers = {gap.path: _ask(path, gap) for gap in found}
    mark = "\ufeff" if path.read_bytes().startswith(b"\xef\xbb\xbf") else ""
    replace_file(path.resolve(), mark + filled_text(file, answers))
    printing.note(f"{path}: {len(found)} place{'s' * (len(found) != 1)} filled")


def _ask(path: Path, gap: Gap) -> str:
    """One answer that does; the end of the input, and Ctrl-C, leave the file as it was."""
    place = " / ".join(gap.path)
    listed = (
        f" One of {', '.join(gap.choices)}."
        if gap.choices and not all(c in gap.key.meaning for c in gap.choices)
        else ""
    )
    printing.note(f"{place}\n  {gap.key.meaning}{listed}")
    while True:
        hint = f" [{gap.example}]" if gap.example else ""
        sys.stderr.write(f"  {gap.path[-1]}{hint}: ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise InputError(f"{path}: the answers ended before every place was filled; nothing was written")
        text = line.strip() or gap.example or ""
        if not text:
            printing.note("  nothing suggests a value here")
            continue
        refused = gap.accepts(text)
        if refused is None:
            return text
        printing.note(f"  {shown(text)}: {refused}")
