"""The runs that files hold: a file may contain several, one after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.frameworks.logs.attempts import Attempts, RunLines, runs_of
from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Sink
from steelyard.frameworks.logs.settings import Setting
from steelyard.records import Event, Step
from steelyard.records.manifest import RunInFiles
from steelyard.records.rows import StepRows


@dataclass(frozen=True, slots=True)
class ChosenRun:
    """One of several runs."""

    number: int
    """From 1."""
    every: Sequence[RunInFiles]
    lines: Mapping[int, range]
    """Its lines by index of the file; a file that is not listed is read whole."""
    paths: Sequence[str]
    """The files to read; for standard input and pipes, their copies."""

    def notice(self) -> Event:
        """What else the files hold."""
        others = (f"{run.number} ({run.words})" for run in self.every if run.number != self.number)
        message = (
            f"this is run {self.number} of {len(self.every)} in the file; others: {', '.join(others)}; "
            "import them with --run N or --run all"
        )
        return Event(kind="several_runs", message=message)


@dataclass(slots=True)
class Runs:
    """The runs of all files so far."""

    _by_file: dict[int, list[RunLines]] = field(default_factory=dict)

    def add(self, file: int, attempts: Attempts, lines: int) -> None:
        self._by_file[file] = runs_of(attempts.all, lines)

    @property
    def count(self) -> int:
        """How many runs the files hold together.

        The runs of several files are separated only if each file with steps holds the same number of them. Files
        without steps, such as those with error messages, belong to the last run.
        """
        counts = {len(runs) for runs in self._stepped().values()}
        return counts.pop() if len(counts) == 1 else 1

    def _stepped(self) -> dict[int, list[RunLines]]:
        stepped = {at: runs for at, runs in self._by_file.items() if any(run.first_step is not None for run in runs)}
        return stepped or self._by_file

    def every(self) -> list[RunInFiles]:
        """All runs, with lines and steps in the first file that has steps."""
        first = next(iter(self._stepped().values()))
        return [
            RunInFiles(
                number=number,
                first_line=run.lines.start,
                last_line=run.lines.stop - 1,
                first_step=run.first_step,
                last_step=run.last_step,
            )
            for number, run in enumerate(first, 1)
        ]

    def choose(self, number: int, paths: Sequence[str]) -> ChosenRun:
        stepped = self._stepped()
        lines = {at: runs[number - 1].lines for at, runs in stepped.items()}
        if number < self.count:
            lines |= {at: range(0) for at in self._by_file if at not in stepped}
        return ChosenRun(number, self.every(), lines, paths)


class _Nothing:
    """Receives lines that are not of the run."""

    def step(self, series: str, step: Step) -> None: ...
    def steps(self, series: str, steps: StepRows) -> None: ...
    def restart(self, series: str, step: int) -> None: ...
    def event(self, event: Event) -> None: ...
    def setting(self, setting: Setting) -> None: ...


class LinesOfRun:
    """Reads the lines of one run; all other lines are only searched for secrets."""

    def __init__(self, reader: LogReader, lines: range) -> None:
        sink: Sink = _Nothing()
        self._reader, self._lines, self._others = reader, lines, LogReader("", sink)
        self.line = 0
        self.redacted: dict[int, bytes] = {}

    def feed(self, lines: Sequence[bytes]) -> None:
        """Take the next lines, without newlines."""
        first, self.line = self.line + 1, self.line + len(lines)
        begin, end = (min(max(at - first, 0), len(lines)) for at in (self._lines.start, self._lines.stop))
        self.redacted.clear()
        for reader, start, stop in ((self._others, 0, begin), (self._reader, begin, end), (self._others, end, None)):
            reader.line = first + start - 1
            reader.feed(lines[start:stop])
            self.redacted |= reader.redacted

    @property
    def unread(self) -> int:
        return self._reader.unread

    @property
    def steps_read(self) -> int:
        return self._reader.steps_read
