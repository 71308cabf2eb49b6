"""How often a growing set of runs has been compared, from the saved comparisons."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from steelyard.comparison.files import FOLDER, names_under, places_of, saved
from steelyard.comparison.intervals import FEWEST
from steelyard.errors import InputError
from steelyard.records import Run

Runs = tuple[frozenset[Path], frozenset[Path]]
"""The directories of both sides."""


def look_at(target: Sequence[Run], baseline: Sequence[Run], out: Path) -> int:
    """1, and one more for each earlier comparison of some of these runs that had an interval."""
    now = frozenset(run.directory.resolve() for run in target), frozenset(run.directory.resolve() for run in baseline)
    earlier: set[Runs] = set()
    for name in names_under(out):
        with suppress(InputError):  # an unreadable comparison gave no answer
            sides = _runs_of(out / FOLDER / name)
            earlier |= {either for either in (sides, sides[::-1]) if _is_part(either, now)}
    return 1 + len(earlier)


def _runs_of(directory: Path) -> Runs:
    content = saved(directory)
    target, baseline = (
        frozenset(place.resolve() for place in side) for side in places_of(content, directory.resolve())
    )
    return target, baseline


def _is_part(earlier: Runs, now: Runs) -> bool:
    if min(map(len, earlier)) < FEWEST or earlier == now:
        return False
    return earlier[0] <= now[0] and earlier[1] <= now[1]
