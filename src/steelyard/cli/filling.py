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
        complaint = f"{path}: --fill writes into JSON configs"
        raise InputError(complaint, key="--fill", value=str(path), next="write the places by hand")
    open_ = gaps(file, asked) if file.family != "steelyard" else []
    if not open_:
        printing.note(f"{path}: nothing is left open")
        return
    places = f"{len(open_)} place{'s' * (len(open_) != 1)}"
    if not sys.stdin.isatty():
        complaint = f"{path}: {places} {'are' if len(open_) != 1 else 'is'} left open, and there is no terminal"
        way_on = f"steelyard lint {path}, which names each of them"
        raise InputError(complaint, key="--fill", value=open_[0].path[-1], expected="a terminal", next=way_on)
    printing.note(
        f"{path}: {places} to fill. Return alone takes what stands in brackets; "
        "nothing is written before the last answer, and Ctrl-C writes nothing."
    )
    answers = {gap.path: _ask(path, gap) for gap in open_}
    mark = "\ufeff" if path.read_bytes().startswith(b"\xef\xbb\xbf") else ""
    replace_file(path.resolve(), mark + filled_text(file, answers))
    printing.note(f"{path}: {places} filled")


def _ask(path: Path, gap: Gap) -> str:
    """One answer that does; the end of the input, and Ctrl-C, leave the file as it was."""
    unnamed = gap.choices and not all(choice in gap.key.meaning for choice in gap.choices)
    listed = f" One of {', '.join(gap.choices)}." if unnamed else ""
    printing.note(f"{' / '.join(gap.path)}\n  {gap.key.meaning}{listed}")
    hint = f" [{gap.example}]" if gap.example else ""
    while True:
        sys.stderr.write(f"  {gap.path[-1]}{hint}: ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise InputError(f"{path}: the answers ended before every place was filled; nothing was written")
        text = line.strip() or gap.example or ""
        if not text:
            printing.note("  nothing suggests a value here")
        elif (refused := gap.accepts(text)) is None:
            return text
        else:
            printing.note(f"  {shown(text)}: {refused}")
