"""What the sides of a comparison are called, what they trained on what, and their figures next to each other."""

from collections.abc import Callable, Iterable, Sequence

from steelyard.comparison import Comparison
from steelyard.comparison.intervals import geometric_mean
from steelyard.comparison.side import Side
from steelyard.files import place_of
from steelyard.records import unstamped
from steelyard.reporting.checks import Judged
from steelyard.reporting.curves import number, per_device
from steelyard.reporting.page import Cell, Table, Tone
from steelyard.verdict import Status, Subject

_TONES = {Status.PASS: Tone.GOOD, Status.FAIL: Tone.BAD, Status.UNKNOWN: Tone.UNSURE}


def side_names(made: Comparison) -> tuple[str, str]:
    """Target and baseline by the names that sentences use."""
    return made.target.called, made.baseline.called


def titles_of(made: Comparison) -> tuple[str, str]:
    """The names of both sides, each with the directory that contains it if these differ."""
    names = side_names(made)
    places = [side.directory for side in made.sides]
    if None in places or len({place.parent for place in places if place}) < len(places):
        return names
    target, baseline = (f"{place.parent.name}/{unstamped(place.name)}" for place in places if place)
    return (target, baseline) if target != baseline else names


def labeled(made: Comparison) -> list[Judged]:
    """Every run with a label that no other has: its side's name, and its own where the side has several."""
    runs: list[Judged] = []
    for name, side in zip(side_names(made), made.sides, strict=True):
        labels = _run_labels(name, side)
        runs += zip(labels, side.subjects, side.verdicts, strict=True)
    return runs


def _run_labels(name: str, side: Side) -> list[str]:
    places = [subject.run.directory for subject in side.subjects]
    if len(places) == 1:
        return [name]
    for names in ([unstamped(place.resolve().name) for place in places], [place.resolve().name for place in places]):
        if len(set(names)) == len(names):
            return [f"{name}/{own}" for own in names]
    return list(map(place_of, places))


def subject_line(subjects: Sequence[Subject], dates: str | None = None) -> str:
    """Model, GPUs, framework, precision, batch x sequence and date of one run, or of the repeats of one plan.

    `dates` replace that of the runs.
    """
    facts = (_shared(map(fact, subjects)) for fact in _FACTS if dates is None or fact is not _date)
    return _joined((*facts, dates))


def subject_line_of(made: Comparison) -> str:
    """The same for both sides; where they differ, the target first."""
    parts = []
    for fact in _FACTS:
        values = [_shared(map(fact, side.subjects)) for side in made.sides]
        if values[0] == values[1]:
            parts.append(values[0])
        else:
            parts.append(" vs ".join(value or "not recorded" for value in values))
    return _joined(parts)


def _joined(parts: Iterable[str | None]) -> str:
    return " \N{MIDDLE DOT} ".join(filter(None, parts))


def _shared(values: Iterable[str | None]) -> str:
    return ", ".join(dict.fromkeys(filter(None, values)))


def _model(subject: Subject) -> str | None:
    preset, name = subject.value("model.preset"), subject.run.manifest.experiment.name
    return str(preset) if preset else name


def _gpus(subject: Subject) -> str | None:
    platform = subject.run.manifest.platform
    name = platform.gpu_name
    if subject.gpu is not None and name and name.lower() == subject.gpu.name:
        name = name.upper()
    if platform.world_size is None:
        return name
    unit = "GPU, kind not recorded" if platform.world_size == 1 else "GPUs, kind not recorded"
    if subject.on_cpu:
        unit = "CPU rank" if platform.world_size == 1 else "CPU ranks"
    nodes = f" ({platform.nodes:,} nodes)" if (platform.nodes or 1) > 1 else ""
    if subject.on_cpu or name is None:
        return f"{platform.world_size:,} {unit}{nodes}"
    return f"{platform.world_size:,} \N{MULTIPLICATION SIGN} {name}{nodes}"


def _framework(subject: Subject) -> str | None:
    return subject.run.manifest.framework


def _precision(subject: Subject) -> str | None:
    return subject.precision


def _batch(subject: Subject) -> str | None:
    batch, length = subject.whole("training.global_batch_size"), subject.whole("training.sequence_length")
    if batch is None or length is None:
        return "batch unknown"
    return f"batch {batch:,} \N{MULTIPLICATION SIGN} {length:,}"


def _date(subject: Subject) -> str | None:
    """The day on which it ran; an import without timestamps has none."""
    manifest = subject.run.manifest
    if manifest.ingested is not None and manifest.ingested.first_moment is None:
        return None
    return manifest.began[:10]


_FACTS = (_model, _gpus, _framework, _precision, _batch, _date)


_FIGURES: tuple[tuple[str, str, float], ...] = (
    ("Throughput, tokens/s per GPU", "tokens_per_s_per_gpu", 1.0),
    ("Step time, s (median)", "step_time_s", 1.0),
    ("MFU, %", "mfu", 100.0),
    ("Peak memory, GiB per GPU", "memory_peak_gib", 1.0),
)
_SETTINGS: tuple[tuple[str, Callable[[Subject], str | None]], ...] = (
    ("GPUs", _gpus),
    ("Framework", _framework),
    ("Precision", _precision),
    ("Global batch \N{MULTIPLICATION SIGN} sequence", _batch),
)


def summary_table(made: Comparison) -> Table:
    """A column per side. Settings that are equal are in the subject line."""
    names = side_names(made)
    roles, subjects = ("target", "baseline"), [subject for side in made.sides for subject in side.subjects]
    heads = [name if role in name else f"{name} ({role})" for name, role in zip(names, roles, strict=True)]
    rows: list[list[str | Cell]] = [
        [
            _measured(per_device(label, subjects), metric, subjects),
            *(_figure(side, metric, scale) for side in made.sides),
        ]
        for label, metric, scale in _FIGURES
    ]
    rows.append(["Last loss, nats per token", *(_last_loss(side) for side in made.sides)])
    rows.append(["Runs and verdicts", *(_verdicts(side) for side in made.sides)])
    for label, setting in _SETTINGS:
        values = [_shared(map(setting, side.subjects)) or "not recorded" for side in made.sides]
        values = [value.removeprefix("batch ") for value in values]
        if values[0] != values[1]:
            rows.append([label, *values])
    return Table("Side by side", ["", *heads], rows)


def _measured(label: str, metric: str, subjects: Sequence[Subject]) -> str:
    """The label of memory names its kind, if all runs measure one."""
    kinds = {subject.figures.memory_kind for subject in subjects} if metric == "memory_peak_gib" else set()
    kind = kinds.pop() if len(kinds) == 1 else None
    return f"{label} ({kind.replace('_', ' ')})" if kind else label


def _figure(side: Side, metric: str, scale: float) -> str:
    values = [subject.figures.metric(metric).value for subject in side.subjects]
    known = [value * scale for value in values if value is not None]
    return number(geometric_mean(known), 4, padded=True) if len(known) == len(values) and min(known) > 0 else "unknown"


def _last_loss(side: Side) -> str:
    losses = [last_loss(subject) for subject in side.subjects]
    known = [loss for loss in losses if loss is not None]
    if len(known) < len(losses):
        return "not recorded"
    return number(sum(known) / len(known), 4, padded=True)


def last_loss(subject: Subject) -> float | None:
    """NaN where it was recorded as NaN; None where the last record has none."""
    losses = subject.steps.loss
    return float(losses.values[-1]) if len(losses.values) and losses.given[-1] else None


def _verdicts(side: Side) -> Cell:
    counts = {status: sum(verdict.status == status for verdict in side.verdicts) for status in Status}
    words = ", ".join(f"{count} {status.value}" for status, count in counts.items() if count)
    worst = next((status for status in (Status.FAIL, Status.UNKNOWN) if counts[status]), Status.PASS)
    return Cell(words, _TONES[worst])
