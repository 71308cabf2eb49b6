"""The demo: three runs, their verdicts, a comparison that holds and one that is refused, all reports."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard import comparison, records, reporting, verdict
from steelyard.comparison import Comparability, Comparison, Metric
from steelyard.errors import InfrastructureError
from steelyard.records import Run
from steelyard.reporting.documents import Topic, read
from steelyard.reporting.rendering import Asked, rendered
from steelyard.verdict import Status, Verdict

RECORDED = Path(__file__).parent / "recorded"
"""Runs recorded on an H200, for machines without torch."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """One run of the demo, the recorded run that can replace it, and its settings."""

    name: str
    recording: str
    settings: tuple[str, ...]


CONFIG = "tiny-llama"
_FORMATS = ("html", "md")
SHORT = ("training.steps=100", "training.global_batch_size=32", "training.warmup_steps=10")
"""Fewer and smaller steps than the packaged tiny Llama."""
CHAPTERS = (
    Chapter("baseline", "baseline", SHORT),
    Chapter("again", "again", SHORT),
    Chapter("other-batch", "half-batch", (*SHORT, "training.global_batch_size=64")),
)
"""The same job twice, and once with another batch size, which naive tools report as a speedup."""


@dataclass(frozen=True, slots=True)
class Story:
    verdicts: tuple[Verdict, ...]
    fair: Comparison
    refused: Comparison
    comparisons: tuple[Path, Path]
    """Directories of both comparisons, with their reports."""

    @property
    def succeeded(self) -> bool:
        """Whether the demo went as expected: three passes, one comparison that holds and one refused."""
        held = self.fair.comparable[Metric.THROUGHPUT].holds
        refused = self.refused.comparable[Metric.THROUGHPUT].status == Comparability.NOT_COMPARABLE
        return held and refused and all(judged.status == Status.PASS for judged in self.verdicts)


def copy_recorded(out: Path, prefix: str) -> list[Run]:
    """Copy the recorded runs under --out, without the file modes of the installation."""
    runs = []
    for chapter in CHAPTERS:
        recording = RECORDED / chapter.recording
        directory = records.new_directory(out, None, f"{prefix}-{chapter.recording}")
        try:
            for path in sorted(recording.rglob("*")):
                place = directory / path.relative_to(recording)
                if path.is_dir():
                    place.mkdir()
                else:
                    shutil.copyfile(path, place)
        except OSError as reason:
            raise InfrastructureError(f"{directory} cannot be written ({reason})", key="--out") from None
        runs.append(records.load(directory))
    return runs


def make_story(runs: Sequence[Run], out: Path) -> Story:
    """Check three runs, compare the second and third with the first, and write all reports."""
    verdicts = []
    for run in runs:
        subject = verdict.read_subject(run)
        judged = verdict.judge(subject)
        verdict.save(judged)
        _write(Topic("run", run.directory))
        verdicts.append(judged)
    fair, refused = (comparison.weigh([run], [runs[0]], [Metric.THROUGHPUT], None, 0) for run in runs[1:])
    directories = comparison.save(fair, out, None), comparison.save(refused, out, None)
    for directory in directories:
        _write(Topic("comparison", directory))
    return Story(tuple(verdicts), fair, refused, directories)


def _write(topic: Topic) -> None:
    report = read(topic).report
    for file in rendered(report, Asked([reporting.format_of(name) for name in _FORMATS])):
        reporting.write_report(report.directory / file.name, file.content(), file.mark)
