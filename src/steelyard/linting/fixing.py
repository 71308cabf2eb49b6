"""Makes the corrections of lint in a copy of a config."""

import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.configs.files import ConfigFile, read_mapping
from steelyard.configs.rewrite import rewritten
from steelyard.errors import InputError
from steelyard.experiment import Problem
from steelyard.experiment.parsing import json_places
from steelyard.experiment.problems import Edit, plain, pointer, shown

_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Correction:
    """One change, with the code that asks for it."""

    code: str
    edit: Edit
    was: Any
    """The value before; None if the key is new."""

    @property
    def words(self) -> str:
        was, place = shown(self.was), pointer(self.edit.path)
        if self.edit.rename:
            return f"{place} renamed to _{self.edit.path[-1]}"
        if self.edit.value is None:
            return f"{place} removed (was {was})"
        return f"{place} = {shown(self.edit.value)} ({'new' if self.was is None else f'was {was}'})"

    def document(self) -> dict[str, Any]:
        """For `--json`; `now` is null for a key that is removed or renamed."""
        return {"code": self.code, "pointer": pointer(self.edit.path), "was": plain(self.was), "now": self.edit.value}


def fixed_path(path: Path) -> Path:
    """Where the corrected copy is written: `config.json` becomes `config.fixed.json`."""
    return path.with_name(f"{path.stem}.fixed{path.suffix}")


def can_fix(path: Path, problems: Iterable[Problem]) -> bool:
    """Whether there is something to correct, and no earlier copy."""
    return any(problem.corrections and not problem.allowed for problem in problems) and not fixed_path(path).exists()


def fix_file(path: Path, problems: Iterable[Problem]) -> tuple[Path, Sequence[Correction]]:
    """Write a copy of the file with every correction made; without corrections, nothing is written."""
    file, target = read_mapping(path), fixed_path(path)
    corrections = _corrections(file, problems) if file.is_json else []
    if not corrections:
        return path, []
    data = path.read_bytes()
    text = rewritten(file.text, (correction.edit for correction in corrections))
    try:
        with target.open("xb") as copy:
            target.chmod(stat.S_IMODE(path.stat().st_mode) & 0o777)
            copy.write(_MARK * data.startswith(_MARK) + text.encode())
    except FileExistsError:
        complaint, way_on = f"{target} exists, and --fix does not overwrite it", f"steelyard lint {target}"
        raise InputError(complaint, key="--fix", value=str(target), expected="a new file", next=way_on) from None
    except OSError as reason:
        complaint = f"{target} cannot be written ({reason.strerror})"
        raise InputError(complaint, key="--fix", value=str(target), expected="a writable directory") from None
    return target, corrections


def _corrections(file: ConfigFile, problems: Iterable[Problem]) -> list[Correction]:
    """The corrections of all problems, each place once; none inside a key that appears twice."""
    repeated = {place.path for place in json_places(file.text) if place.again}
    by_path: dict[tuple[str, ...], Correction] = {}
    for problem in problems:
        for edit in problem.corrections if not problem.allowed else ():
            if not any(edit.path[: len(path)] == path for path in repeated):
                by_path.setdefault(edit.path, Correction(problem.code, edit, file.at(edit.path)))
    return list(by_path.values())
