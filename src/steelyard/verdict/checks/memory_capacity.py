"""No run holds more than its card: the highest memory against what the runtimes report as the card's total."""

from collections.abc import Iterator

from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("memory_capacity", required=True)
HOST_KINDS = ("process_rss_peak",)
"""Kinds of measurement that speak of the host's memory, not of the card's."""


def check(subject: Subject) -> Iterator[Found]:
    figure, kind, gpu = subject.figures.memory_peak_gib, subject.figures.memory_kind, subject.gpu
    if subject.on_cpu:
        yield CHECK.not_applicable("a CPU has no card")
    elif gpu is None:
        unnamed = subject.run.manifest.platform.gpu_name is None
        why = "which GPU it ran on is not known" if unnamed else "the GPU is not in the catalog"
        yield CHECK.not_applicable(f"{why}, so what it holds is not known")
    elif figure.value is None and not subject.steps.memory_gib.given.any():
        yield CHECK.not_applicable("the log gives no memory")
    elif figure.value is None or kind in HOST_KINDS or gpu.usable_gib is None:
        why = figure.reason or (f"{kind} is the host's memory" if kind in HOST_KINDS else f"two {gpu.name} sizes exist")
        yield CHECK.unknown(f"memory cannot be held against the card: {why}", figure.value, gpu.usable_gib)
    else:
        holds = figure.value <= gpu.usable_gib
        words = "of" if holds else "more than"
        measured = f"{figure.value:.1f} GiB ({kind or 'of unknown kind'})"
        message = f"memory reached {measured}, {words} the {gpu.name}'s {gpu.usable_gib} GiB"
        yield CHECK.judged(holds, message, figure.value, f"<= {gpu.usable_gib}", figure.evidence)
