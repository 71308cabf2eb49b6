"""The starts of a training program in one log, and the runs they belong to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Attempt:
    """What one start of the program printed."""

    first_line: int
    announced: bool = False
    """Whether the program said that it starts; what comes before that is of launchers and other tools."""
    first_step: int | None = None
    last_step: int | None = None
    resumed: bool = False
    """Whether it loaded a checkpoint."""
    ended: bool = False
    """Whether it failed or finished."""

    @property
    def blank(self) -> bool:
        """Whether nothing has happened since its start; several processes of one start print the same texts."""
        return self.first_step is None and not (self.announced and self.ended)


class Attempts:
    """The attempts of one log, in order."""

    def __init__(self) -> None:
        self.all = [Attempt(1)]

    @property
    def last(self) -> Attempt:
        return self.all[-1]

    def begin(self, line: int) -> bool:
        """Note the start of a program; False if it belongs to the last attempt."""
        if self.last.blank:
            self.last.announced = True
            return False
        self.all.append(Attempt(line, announced=True))
        return True

    def step(self, number: int) -> None:
        """Note a step line that is read alone, as the first after a start is."""
        if self.last.first_step is None:
            self.last.first_step = number
        self.last.last_step = number


@dataclass(frozen=True, slots=True)
class RunLines:
    """The lines of one run in a file, and its steps."""

    lines: range
    first_step: int | None
    last_step: int | None


def runs_of(attempts: Sequence[Attempt], lines: int) -> list[RunLines]:
    """Group the attempts of a log by run.

    An attempt continues the run before it if it loaded a checkpoint, or if its first step is later than the first step
    of that run. A start without steps belongs to the run that it continues, or is a run that never stepped.
    """
    groups: list[list[Attempt]] = []
    waiting: list[list[Attempt]] = []
    """Starts without steps, until it is clear whether the next start continues the run before them."""
    for attempt in attempts:
        before = groups[-1] if groups else None
        if before is not None and _continues(before, attempt):
            before += [*(start for starts in waiting for start in starts), attempt]
        elif attempt.first_step is None:
            waiting.append([attempt])
            continue
        else:
            groups += [*waiting, [attempt]]
        waiting = []
    groups += waiting
    ends = [*(group[0].first_line for group in groups[1:]), lines + 1]
    return [_run(group, end) for group, end in zip(groups, ends, strict=True)]


def _continues(before: Sequence[Attempt], attempt: Attempt) -> bool:
    first = next(_first_steps(before), None)
    if first is None:
        return False
    return attempt.resumed or (attempt.first_step is not None and attempt.first_step > first)


def _first_steps(group: Sequence[Attempt]) -> Iterator[int]:
    return (attempt.first_step for attempt in group if attempt.first_step is not None)


def _run(group: Sequence[Attempt], end: int) -> RunLines:
    last = [attempt.last_step for attempt in group if attempt.last_step is not None]
    return RunLines(range(group[0].first_line, end), next(_first_steps(group), None), last[-1] if last else None)
