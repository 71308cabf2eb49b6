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


def _any(*texts: bytes) -> re.Pattern[bytes]:
    return re.compile(b"|".join(texts))


TEXTS = (
    Failure(
        "oom",
        _any(
            rb"OutOfMemoryError\b",
            rb"\b(?:CUDA|HIP) out of memory\b",
            rb"RESOURCE_EXHAUSTED: (?:Out of memory|.*allocat)",
            rb"DefaultCPUAllocator: can't allocate",
            rb"\boom-kill",
            rb"Out of memory: Killed process",
            rb"oom_kill event",
            rb"std::bad_alloc",
        ),
    ),
    Failure("xid", _any(rb"\bNVRM: Xid\b")),
    Failure(
        "ecc",
        _any(
            rb"(?i:uncorrectable (?:ECC |memory |volatile )?error)",
            rb"(?i:uncorrectable ECC)",
            rb"(?i:double bit (?:ECC )?error)",
        ),
    ),
    Failure(
        "gpu_hang",
        _any(rb"HW Exception by GPU", rb"GPU Hang\b", rb"GPU [Rr]eset\b(?! method)", rb"Memory access fault by GPU"),
    ),
    Failure(
        "nan_abort",
        _any(
            rb"found (?:NaN|Inf) in local (?:forward loss|grad norm)",
            rb"Unexpected result (?:nan|-?inf)\b",
            rb"Aborting training due to (?:NaN|Inf)\w* loss",
        ),
    ),
    Failure(
        "nccl",
        _any(
            rb"Watchdog caught collective operation timeout",
            rb"\b[NR]CCL (?:ERROR|error)\b",
            rb"\b[NR]CCL timeout\b(?! set)",
            rb"\bnccl(?:Remote|System|Internal|UnhandledCuda)Error\b",
            rb"DistBackendError",
        ),
        ECHO,
    ),
    Failure(
        "xla",
        _any(
            rb"No visible GPU devices",
            rb"failed call to (?:hipInit|cuInit)",
            rb"XlaRuntimeError",
            rb"JaxRuntimeError",
            rb"librocm reported version is: NOT_FOUND",
            rb"local work queue catastrophic error",
        ),
    ),
    Failure(
        "xla",
        _any(
            rb"\bCoordinationServiceError\b",
            rb"\bBarrierError\b",
            rb"(?i:coordination service .*(?:error|failed))",
        ),
        ECHO,
    ),
    Failure(
        "crash",
        _any(
            rb"\bFatal Python error:",
            rb"^\s*Segmentation fault",
            rb"\bSegfault encountered",
            rb"\(core dumped\)",
            rb"\bSIGSEGV\b",
            rb"Bus error",
        ),
    ),
    Failure(
        "exit",
        _any(
            rb"exitcode\s*: (?!0\b)-?\d+",
            rb"failed \(exitcode: (?!0\b)-?\d+\)",
            rb"srun: error: .*(?:[Ee]xit(?:ed)?|Killed|Terminated)",
            rb"slurmstepd: error: .*CANCELLED",
            rb"ChildFailedError",
            rb"Signal \d+ \(SIG\w+\) received",
            rb"^\s*Killed\s*$",
            rb"received SIGTERM",
        ),
        ECHO,
    ),
)

_HARMLESS = re.compile(
    rb"timeout set to|timeout=|\b0 (?:CUDA )?(?:OOM )?errors?\b|\bno errors?\b|=\s*0\s*$"
    rb"|WARNING.*(?:ImportError|ModuleNotFoundError)",
    re.IGNORECASE,
)
_ALWAYS = ("exit", "xid", "ecc")

TRACEBACK = re.compile(rb"Traceback \(most recent call last\)")
_RAISED = re.compile(
    rb"(?P<kind>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Killed|StopIteration|Timeout|Abort|Aborted|Failure|Fault)"
    rb"(?:\([\w.]+\))?)(?:: (?P<message>.*))?$",
    re.DOTALL,
)
_ECHOES = (b"ChildFailedError", b"KeyboardInterrupt", b"SystemExit")


def named(text: bytes, place: Place) -> Iterator[Event]:
    """The failure a line names by itself, if it does."""
    for failure in TEXTS:
        if failure.pattern.search(text):
            if failure.kind in _ALWAYS or not _HARMLESS.search(text):
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
    if found["kind"].endswith(b"SignalException"):
        return failed("exit", text, place, ECHO)
    return failed("error", text, place, ECHO if found["kind"].endswith(_ECHOES) else CAUSE)


_HOST = _any(
    rb"\bnode:? (?P<rank>[A-Za-z][\w.-]*)(?:, device|\s*$)",
    rb"^\w{3} +\d+ \d\d:\d\d:\d\d (?P<syslog>[A-Za-z][\w.-]*) kernel:",
    rb"^(?P<dmesg>[A-Za-z][\w.-]*) kernel:",
    rb"srun: error: (?P<slurm>[A-Za-z][\w.-]*):",
    rb"slurmstepd: error: .*? ON (?P<step>[A-Za-z][\w.-]*)",
    rb"\[(?P<torch>[A-Za-z][\w.-]*):\d+\]",
    rb"^(?P<nccl>[A-Za-z][\w.-]*):\d+:\d+ \[\d+\]",
)


def host_in(text: bytes) -> str | None:
    """The machine a line names itself."""
    found = _HOST.search(text)
    if found is None:
        return None
    name = next(value for value in found.groupdict().values() if value is not None)
    return name.decode("ascii", "replace")


def failed(kind: str, text: bytes, place: Place, order: int) -> Event:
    """The event of a failure; `order` puts causes ahead of echoes."""
    return Event(
        kind=kind,
        message=text_of(text),
        step=place.step or None,
        node=place.origin.node or host_in(text),
        source=place.evidence,
        details={"order": order, **({"rank": place.origin.rank} if place.origin.rank is not None else {})},
    )


def order_of(event: Event) -> int:
    """Causes before echoes."""
    return int(event.details.get("order", CAUSE))
