"""Peak memory is within the memory of the GPU."""

from steelyard.frameworks.registry import memory_kind
from steelyard.hardware.catalog import CATALOG
from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("memory_capacity", required=True)
_PEAK = "peak memory {observed:.1f} GiB ({kind})"

WITHIN_CAPACITY = Code("within_capacity", f"{_PEAK}, within the {{capacity}} GiB {{of}}")
"""Peak memory is within the memory of the GPU."""
ABOVE_CAPACITY = Code("above_capacity", f"{_PEAK}, above the {{capacity}} GiB {{of}}; check the GPU and its memory")
"""Peak memory is above the memory of the GPU, which is impossible."""
MEMORY_UNKNOWN = Code("memory_unknown", "peak memory unknown: {why.message}")
"""Peak memory is unknown, for the reason shown."""
MEMORY_OF_HOST = Code("memory_of_host", "GPU memory not recorded: {kind} is host memory")
"""The record contains the memory of the host process, not of the GPU."""
MEMORY_NOT_LOGGED = Code("memory_not_logged", "memory not recorded")
"""The log contains no memory values."""
CARD_UNKNOWN = Code("card_unknown", "GPU and its memory size unknown; name it with steelyard check RUN --gpu NAME")
"""The GPU is unknown, and so is its memory size; name it with --gpu."""
CARD_NOT_IN_CATALOG = Code(
    "card_not_in_catalog", "GPU not in the catalog, so its memory size is unknown; state it with --gpu-memory GIB"
)
"""The GPU is not in the catalog, so its memory size is unknown; state it with --gpu-memory."""
CPU_HAS_NO_CARD = Code("cpu_has_no_card", "CPU run: no GPU memory")
"""The run used a CPU, which has no GPU memory."""


def check(subject: Subject) -> Results:
    figure, kind, gpu = subject.figures.memory_peak_gib, subject.figures.memory_kind, subject.gpu
    unnamed = subject.run.manifest.platform.gpu_name is None
    if subject.on_cpu:
        yield CHECK.not_applicable(CPU_HAS_NO_CARD)
    elif gpu is None or not gpu.sizes_gib:
        yield CHECK.not_applicable(CARD_UNKNOWN if unnamed else CARD_NOT_IN_CATALOG)
    elif figure.value is None and not subject.steps.memory_gib.given.any():
        yield CHECK.not_applicable(MEMORY_NOT_LOGGED)
    elif figure.value is None:
        yield CHECK.unknown(MEMORY_UNKNOWN, None, gpu.usable_gib, why=figure.reason)
    elif memory_kind(kind).of_host:
        yield CHECK.unknown(MEMORY_OF_HOST, figure.value, gpu.usable_gib, kind=kind)
    else:  # of several sizes, the smallest that the run fits into
        capacity = min((size for size in gpu.sizes_gib if figure.value <= size), default=max(gpu.sizes_gib))
        within, codes = figure.value <= capacity, (WITHIN_CAPACITY, ABOVE_CAPACITY)
        by = subject.run.manifest.platform.memory_by
        of = f"of the {gpu.name}" if by in (None, CATALOG) else f"stated by {by}"
        values = {"kind": kind or "of unknown kind", "of": of, "capacity": capacity}
        yield CHECK.judged(within, codes, figure.value, f"<= {capacity}", figure.evidence, **values)
