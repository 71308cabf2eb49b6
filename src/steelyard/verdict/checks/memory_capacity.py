"""No run holds more than its card: the highest memory against what the runtimes report as the card's total."""

from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("memory_capacity", required=True)
HOST_KINDS = ("process_rss_peak",)
"""Kinds of measurement that speak of the host's memory, not of the card's."""
_CANNOT = "memory cannot be held against the card"
_REACHED = "memory reached {observed:.1f} GiB ({kind})"

WITHIN_CAPACITY = Code("within_capacity", f"{_REACHED}, of the {{gpu}}'s {{capacity}} GiB")
"""Peak memory is within the memory of the GPU."""
ABOVE_CAPACITY = Code("above_capacity", f"{_REACHED}, more than the {{gpu}}'s {{capacity}} GiB")
"""Peak memory is above the memory of the GPU, which is impossible."""
MEMORY_UNKNOWN = Code("memory_unknown", f"{_CANNOT}: {{why.message}}")
"""Peak memory is unknown, for the reason shown."""
MEMORY_OF_HOST = Code("memory_of_host", f"{_CANNOT}: {{kind}} is the host's memory")
"""The record contains the memory of the host process, not of the GPU."""
CAPACITY_AMBIGUOUS = Code("capacity_ambiguous", f"{_CANNOT}: two {{gpu}} sizes exist")
"""This GPU exists with several memory sizes."""
MEMORY_NOT_LOGGED = Code("memory_not_logged", "the log gives no memory")
"""The log contains no memory values."""
CARD_UNKNOWN = Code("card_unknown", "which GPU it ran on is not known, so what it holds is not known")
"""The GPU is unknown, and so is its memory size; name it with --gpu."""
CARD_NOT_IN_CATALOG = Code("card_not_in_catalog", "the GPU is not in the catalog, so what it holds is not known")
"""The GPU is not in the catalog, so its memory size is unknown."""
CPU_HAS_NO_CARD = Code("cpu_has_no_card", "a CPU has no card")
"""The run used a CPU, so there is no GPU memory."""


def check(subject: Subject) -> Results:
    figure, kind, gpu = subject.figures.memory_peak_gib, subject.figures.memory_kind, subject.gpu
    if subject.on_cpu:
        yield CHECK.not_applicable(CPU_HAS_NO_CARD)
    elif gpu is None:
        unnamed = subject.run.manifest.platform.gpu_name is None
        yield CHECK.not_applicable(CARD_UNKNOWN if unnamed else CARD_NOT_IN_CATALOG)
    elif figure.value is None and not subject.steps.memory_gib.given.any():
        yield CHECK.not_applicable(MEMORY_NOT_LOGGED)
    elif figure.value is None:
        yield CHECK.unknown(MEMORY_UNKNOWN, None, gpu.usable_gib, why=figure.reason)
    elif kind in HOST_KINDS:
        yield CHECK.unknown(MEMORY_OF_HOST, figure.value, gpu.usable_gib, kind=kind)
    elif gpu.usable_gib is None:
        yield CHECK.unknown(CAPACITY_AMBIGUOUS, figure.value, None, gpu=gpu.name)
    else:
        within, codes = figure.value <= gpu.usable_gib, (WITHIN_CAPACITY, ABOVE_CAPACITY)
        values = {"kind": kind or "of unknown kind", "gpu": gpu.name, "capacity": gpu.usable_gib}
        yield CHECK.judged(within, codes, figure.value, f"<= {gpu.usable_gib}", figure.evidence, **values)
