"""Where runs come from: one table for all of them."""

from collections.abc import Sequence

from steelyard.files import place_of
from steelyard.records import RunPlatform
from steelyard.reporting.page import Table
from steelyard.verdict import Subject

_OF_THE_RUNNER = ("host", "system", "python", "started", "ended")


def provenance_table(
    runs: Sequence[tuple[str, Subject]], sides: Sequence[int] = (), names: Sequence[str] = ()
) -> Table:
    """A row per fact, a column per side; runs that differ in it are listed with their labels."""
    sides = sides or [0] * len(runs)
    facts = [_facts(subject) for _, subject in runs]
    columns = sorted(set(sides))
    rows = []
    for key in dict.fromkeys(key for own in facts for key in own):
        values = []
        for column in columns:
            own = [
                (label, fact.get(key))
                for (label, _), fact, side in zip(runs, facts, sides, strict=True)
                if side == column
            ]
            values.append(_together(own))
        rows.append([key, *values])
    heads = [names[column] for column in columns] if names else ["value"]
    return Table("Provenance", ["fact", *heads], rows, folded=True)


def _together(values: Sequence[tuple[str, str | None]]) -> str:
    different = dict.fromkeys(value for _, value in values)
    if len(different) == 1:
        return values[0][1] or "not recorded"
    if len(different) == len(values):
        return "; ".join(f"{label}: {value or 'not recorded'}" for label, value in values)
    labels = {value: [label for label, own in values if own == value] for value in different}
    return "; ".join(f"{', '.join(runs)}: {value or 'not recorded'}" for value, runs in labels.items())


def _facts(subject: Subject) -> dict[str, str]:
    manifest = subject.run.manifest
    platform, provenance, allowed = manifest.platform, manifest.provenance, manifest.allowed
    facts = {
        "run": place_of(subject.run.directory),
        "status": subject.run.status + (f": {manifest.failure.message}" if manifest.failure else ""),
        "platform": f"{platform.name}: {platform.words}",
        **_gpu(platform),
        "framework": manifest.framework,
        **_read_from(subject),
        **{f"software: {key}": value for key, value in manifest.software.items()},
        **({"allowed lint codes": "; ".join(problem.words for problem in allowed)} if allowed else {}),
        "experiment file": provenance.file or "not recorded",
        "sha256 of the file": provenance.sha256 or "not recorded",
        "host": provenance.host,
        "system": provenance.system,
        "python": provenance.python,
        "recorded by": f"steelyard {provenance.steelyard}",
        "started": provenance.started,
        "ended": provenance.ended or "not recorded",
    }
    if manifest.ingested is not None:  # an import has its own time and machine, which are not those of the run
        facts["imported"] = f"{provenance.started} on {provenance.host}"
        facts = {key: value for key, value in facts.items() if key not in _OF_THE_RUNNER}
    return facts


def _gpu(platform: RunPlatform) -> dict[str, str]:
    """Peaks and memory of the GPU, with who states them."""
    facts = {"GPU": f"{platform.gpu_name} (by {platform.gpu_by})"} if platform.gpu_by else {}
    if platform.peaks_tflops:
        peaks = ", ".join(f"{name} {peak:,}" for name, peak in platform.peaks_tflops.items())
        facts["peaks per GPU"] = f"{peaks} TFLOP/s ({platform.peaks_by})"
    if platform.memory_gib is not None:
        facts["memory per GPU"] = f"{platform.memory_gib:g} GiB ({platform.memory_by})"
    return facts


def _read_from(subject: Subject) -> dict[str, str]:
    ingested = subject.run.manifest.ingested
    if ingested is None:
        return {}
    others = f"; also lines of {', '.join(ingested.others)}" if ingested.others else ""
    files = {f"read from: {file.path}": file.words for file in ingested.files}
    return {"read as": f"{ingested.dialect}{f', {ingested.era}' if ingested.era else ''}{others}", **files}
