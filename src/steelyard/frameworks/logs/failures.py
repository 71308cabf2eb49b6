"""Texts of failure common to all frameworks: what each means, and whether it is a cause or the echo of one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from steelyard.frameworks.logs.dialect import Place, text_of
from steelyard.records.step import Event

CAUSE, ECHO = 0, 1


@dataclass(frozen=True, slots=True)
class Failure:
    """One text that ends a run, or should have."""

    kind: str
    pattern: re.Pattern[bytes]
    order: int = CAUSE
    """Echoes are what other ranks say of a failure elsewhere; a cause goes ahead of them wherever it stands."""


TEXTS = (
    Failure(
        "oom",
        re.compile(
            rb"OutOfMemoryError\b|\b(?:CUDA|HIP) out of memory\b|RESOURCE_EXHAUSTED: Out of memory|RESOURCE_EXHAUSTED: .*allocat"
            rb"|DefaultCPUAllocator: can't allocate|\boom-kill|Out of memory: Killed process|oom_kill event|std::bad_alloc"
        ),
    ),
    Failure("xid", re.compile(rb"\bNVRM: Xid\b")),
    Failure(
        "ecc",
        re.compile(
            rb"[Uu]ncorrectable (?:ECC |memory |volatile )?error|uncorrectable ECC|double bit (?:ECC )?error", re.I
        ),
    ),
    Failure(
        "gpu_hang",
        re.compile(
            rb"HW Exception by GPU|GPU Hang\b|GPU [Rr]eset\b(?! method)|Memory access fault by GPU|amdgpu: GPU reset begin"
        ),
    ),
    Failure(
        "nan_abort",
        re.compile(
            rb"found (?:NaN|Inf) in local (?:forward loss|grad norm)|Unexpected result (?:nan|-?inf)\b"
            rb"|Aborting training due to (?:NaN|Inf)\w* loss"
        ),
    ),
    Failure(
        "nccl",
        re.compile(
            rb"Watchdog caught collective operation timeout|\b[NR]CCL ERROR\b|\b[NR]CCL error\b|\b[NR]CCL timeout\b(?! set)"
            rb"|\bnccl(?:Remote|System|Internal|UnhandledCuda)Error\b|\bncclUnhandledCudaError\b|DistBackendError"
        ),
        ECHO,
    ),
    Failure(
        "xla",
        re.compile(
            rb"No visible GPU devices|failed call to (?:hipInit|cuInit)|XlaRuntimeError|JaxRuntimeError|librocm reported version is: NOT_FOUND"
            rb"|local work queue catastrophic error"
        ),
    ),
    Failure(
        "xla",
        re.compile(rb"\bCoordinationServiceError\b|\bBarrierError\b|coordination service .*(?:error|failed)", re.I),
        ECHO,
    ),
    Failure(
        "crash",
        re.compile(
            rb"\bFatal Python error:|^\s*Segmentation fault|\bSegfault encountered|\(core dumped\)|\bSIGSEGV\b|Bus error"
        ),
    ),
    Failure(
        "exit",
        re.compile(
            rb"exitcode\s*: (?!0\b)-?\d+|srun: error: .*(?:[Ee]xit(?:ed)?|Killed|Terminated)|slurmstepd: error: .*CANCELLED|ChildFailedError"
            rb"|failed \(exitcode: (?!0\b)-?\d+\)|Signal \d+ \(SIG\w+\) received|^\s*Killed\s*$|received SIGTERM"
        ),
        ECHO,
    ),
)

_HARMLESS = re.compile(
    rb"timeout set to|timeout=|\b0 (?:CUDA )?(?:OOM )?errors?\b|\bno errors?\b|=\s*0\s*$|WARNING.*(?:ImportError|ModuleNotFoundError)",
    re.I,
)

TRACEBACK = re.compile(rb"Traceback \(most recent call last\)")
_RAISED = re.compile(
    rb"(?P<kind>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Killed))(?:: (?P<message>.*))?$", re.S
)
_HANDLED = re.compile(rb"During handling of the above exception|direct cause of the following exception")


def order_of(event: Event) -> int:
    """Causes before echoes."""
    return int(event.details.get("order", CAUSE))


def named(text: bytes, place: Place) -> Iterator[Event]:
    """The failure a line names by itself, if it does."""
    for failure in TEXTS:
        if failure.pattern.search(text):
            if not _HARMLESS.search(text) or failure.kind in ("exit", "xid", "ecc"):
                yield failed(failure.kind, text, place, failure.order)
            return


def raised(text: bytes, place: Place) -> Event | None:
    """The exception at the end of a traceback; None for a line inside it."""
    found = _RAISED.match(text)
    if found is None:
        return None
    for failure in TEXTS:
        if failure.pattern.search(text):
            return failed(failure.kind, text, place, failure.order)
    order = ECHO if found["kind"].endswith((b"ChildFailedError", b"KeyboardInterrupt", b"SystemExit")) else CAUSE
    return failed("error", text, place, order)


_HOST = re.compile(
    rb"\bnode:? (?P<rank>[A-Za-z][\w.-]*)(?:, device|\s*$)|^\w{3} +\d+ \d\d:\d\d:\d\d (?P<syslog>[A-Za-z][\w.-]*) kernel:"
    rb"|srun: error: (?P<slurm>[A-Za-z][\w.-]*):|\[(?P<torch>[A-Za-z][\w.-]*):\d+\]|^(?P<dmesg>[A-Za-z][\w.-]*) kernel:"
    rb"|^(?P<nccl>[A-Za-z][\w.-]*):\d+:\d+ \[\d+\]|slurmstepd: error: .*? ON (?P<step>[A-Za-z][\w.-]*)"
)


def host_in(text: bytes) -> str | None:
    """The machine a line names itself."""
    found = _HOST.search(text)
    if found is None:
        return None
    name = next(value for value in found.groupdict().values() if value is not None)
    return name.decode("ascii", "replace")


def failed(kind: str, text: bytes, place: Place, order: int) -> Event:
    return Event(
        kind=kind,
        message=text_of(text),
        step=place.step or None,
        node=place.origin.node or host_in(text),
        source=place.evidence,
        details={"order": order, **({"rank": place.origin.rank} if place.origin.rank is not None else {})},
    )
