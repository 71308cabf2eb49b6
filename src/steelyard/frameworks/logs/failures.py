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
            rb"\b(?:CUDA|HIP) error: out of memory",
            rb"CUDA_ERROR_OUT_OF_MEMORY|HIP_ERROR_OutOfMemory|hipErrorOutOfMemory",
            rb"RESOURCE_EXHAUSTED: (?:Out of memory|.{0,300}allocat)",
            rb"Ran out of memory in memory space",
            rb"DefaultCPUAllocator: can't allocate",
            rb"\boom-kill|OOMKilled|oom_kill event|Out of memory: Killed process|: Out Of Memory\b",
            rb"std::bad_alloc|\bMemoryError\b",
            rb"Cuda failure '?(?:\d+ '?)?out of memory",
        ),
    ),
    Failure("xid", _any(rb"\bNVRM: Xid\b", rb"\bS?Xid \(?[\w:.]*\)?:? ?\d+", rb"has fallen off the bus")),
    Failure(
        "ecc",
        _any(
            rb"(?i:uncorrectable (?:ECC |memory |volatile |hardware )?errors?)",
            rb"(?i:uncorrectable ECC)",
            rb"(?i:double[- ]bit (?:ECC )?errors?)",
            rb"\[Hardware Error\]",
        ),
    ),
    Failure(
        "gpu_hang",
        _any(
            rb"HW Exception by GPU",
            rb"GPU [Hh]ang\b|HWS hang",
            rb"GPU [Rr]eset(?: begin|\s*$|!)",
            rb"Memory access fault by GPU",
            rb"HSA_STATUS_ERROR_\w+",
            rb"amdgpu.{0,100}ring \S+ timeout",
            rb"Unable to determine the device handle for GPU",
        ),
    ),
    Failure(
        "nan_abort",
        _any(
            rb"found (?:NaN|Inf) in local (?:forward loss|grad norm)",
            rb"Unexpected result (?:nan|-?inf)\b",
            rb"Aborting training due to (?:NaN|Inf)\w* loss",
            rb"Current loss scale already at minimum",
        ),
    ),
    Failure(
        "nccl",
        _any(
            rb"Watchdog caught collective operation timeout",
            rb"watchdog (?:got stuck|thread terminated|hang)",
            rb"Some NCCL operations have failed or timed out",
            rb"\b[NR]CCL ERROR\b",
            rb"\b[NR]CCL error(?: in)?:",
            rb"\b[NR]CCL timeout\b(?!\s*(?:set|is|=|:))",
            rb"\b[NR]CCL WARN .{0,200}(?:Got completion from peer|Got async event|failure|error)",
            rb"\b[NR]CCL communicator was aborted",
            rb"\bnccl(?:Remote|System|Internal|UnhandledCuda)Error\b|\bncclInvalidUsage\b",
            rb"DistBackendError",
            rb"\bgloo\b.{0,300}(?:Read error|Write error|by peer|[Tt]imed out|Broken pipe)",
            rb"torch\.distributed\.Dist(?:Network|Store)Error",
        ),
        ECHO,
    ),
    Failure(
        "xla",
        _any(
            rb"No visible GPU devices",
            rb"failed call to (?:hipInit|cuInit)",
            rb"XlaRuntimeError|JaxRuntimeError",
            rb"librocm reported version is: NOT_FOUND",
            rb"local work queue catastrophic error",
        ),
    ),
    Failure(
        "xla",
        _any(
            rb"\bCoordinationServiceError\b|\bBarrierError\b",
            rb"(?i:coordination service .{0,200}(?:error|failed))",
            rb"JAX distributed service detected fatal errors",
            rb"Heartbeat timeout\. The tasks have crashed|stopped sending heartbeats",
        ),
        ECHO,
    ),
    Failure(
        "crash",
        _any(
            rb"\bFatal Python error:",
            rb"^\s*Segmentation fault|: Segmentation fault|\bSegfault encountered",
            rb"\(core dumped\)",
            rb"Signal 11 \(SIGSEGV\)|\*\*\* Process received signal \*\*\*",
            rb"\bBus error\b",
            rb"terminate called after throwing an instance of",
            rb"^F\d{4} \d\d:\d\d:\d\d.{0,200}Check fail",
        ),
    ),
    Failure(
        "error",
        _any(
            rb"\b(?:CUDA|HIP) error: ",
            rb"CUDA_ERROR_[A-Z_]+|hipError[A-Z]\w+",
            rb"\bCUBLAS_STATUS_[A-Z_]+|\bCUDNN_STATUS_[A-Z_]+|\bMIOPEN_STATUS_[A-Z_]+",
            rb"\bAcceleratorError\b",
            rb"DataLoader worker .{0,100}(?:killed|exited unexpectedly)",
        ),
    ),
    Failure("exit", _any(rb"exitcode\s*: -(?:9|11|7)\b", rb"failed \(exitcode: -(?:9|11|7)\)")),  # a rank was killed
    Failure(
        "exit",
        _any(
            rb"exitcode\s*: (?!0\b)-?\d+",
            rb"failed \(exitcode: (?!0\b)-?\d+\)",
            rb"srun: error: .{0,200}(?:[Ee]xit(?:ed)?|Killed|Terminated|Node failure)",
            rb"srun: Job step aborted",
            rb"slurmstepd: error: .{0,200}CANCELLED",
            rb"ChildFailedError",
            rb"Signal \d+ \(SIG\w+\) received",
            rb"^\s*Killed\s*$|line \d+:\s+\d+ (?:Killed|Aborted|Terminated|Segmentation fault)\b",
            rb"Received \d+ death signal|got signal: \d+",
            rb"command terminated with exit code (?!0\b)\d+|returned a non-zero exit code",
            rb"mpirun noticed that process .{0,200}exited on signal|MPI_ABORT was invoked",
        ),
        ECHO,
    ),
)

WORDS = (
    rb"rror|RROR|xception|Traceback|out of memory|Out [Oo]f [Mm]emory|OOM|oom|EXHAUSTED|bad_alloc|Xid|fallen off",
    rb"ECC|ncorrectable|[Hh]ang|[Rr]eset|fault|Fatal|HSA_STATUS|device handle|ring .*timeout",
    rb"found NaN|found Inf|Unexpected result|Aborting|loss scale already|[Ww]atchdog|NCCL|RCCL|nccl|visible GPU",
    rb"hipInit|cuInit|librocm|catastrophic|heartbeat|Heartbeat|fatal|Check fail|terminate called|_STATUS_",
    rb"DataLoader worker|exitcode|exit code|srun:|slurmstepd|SIG|Killed|Aborted|Terminated|signal|MPI_ABORT|aborted",
    rb"Bus error|core dumped|Segmentation",
)
"""What a line that names a failure holds; it looks at no digit."""

_HARMLESS = re.compile(
    rb"timeout set to|\b0 (?:CUDA )?(?:OOM )?errors?\b|\bno (?:uncorrectable )?errors?\b|=\s*0\s*$"
    rb"|\b[Rr]etry|FutureWarning|DeprecationWarning|UserWarning"
    rb"|WARNING.{0,200}(?:ImportError|ModuleNotFoundError)|\[W\d{4} \d\d:\d\d:\d\d",
    re.IGNORECASE,
)
_ALWAYS = ("exit", "xid")
_NONE_COUNTED = re.compile(rb"[:=]\s*(?:0|N/A)\s*$")
"""A count of errors that is zero, as `nvidia-smi -q` prints them."""

TRACEBACK = re.compile(rb"Traceback \(most recent call last\)")
_RAISED = re.compile(
    rb"(?:^|(?<=[^ ] )|(?<=[:>\])]))(?P<kind>(?:[A-Za-z_][\w.]{0,200})?(?:Error|Exception|Interrupt|Exit|Killed|"
    rb"StopIteration|Timeout|TimeoutExpired|Abort|Aborted|Failure|Fault|Empty|Full)(?:\([\w.]+\))?)(?:: |\s*$)"
)
"""An exception as the last line of a traceback shows it: at the start, or after a prefix that is set off by one blank
at most; lines of code are set in by more."""
EXIT_BARRIER = re.compile(rb"Error waiting on exit barrier\b")
"""torchrun's word before the traceback of an agent whose wait for the others, after all its workers have ended, was cut
short: most often the agent that keeps the store left first. It ends with the status of its workers all the same."""
CHAINED = re.compile(
    rb"The above exception was the direct cause of the following exception:"
    rb"|During handling of the above exception, another exception occurred:"
)
"""What stands between two tracebacks of one failure."""
_ECHOES = (b"ChildFailedError", b"KeyboardInterrupt", b"SystemExit")


def named(text: bytes, place: Place) -> Iterator[Event]:
    """The failure a line names by itself, if it does."""
    for failure in TEXTS:
        if failure.pattern.search(text):
            zero = failure.kind == "ecc" and _NONE_COUNTED.search(text)
            if failure.kind in _ALWAYS or not (zero or _HARMLESS.search(text)):
                yield failed(failure.kind, text, place, failure.order)
            return


def raised(text: bytes, place: Place) -> Event | None:
    """The exception at the end of a traceback; None for a line inside it."""
    found = _RAISED.search(text[:2000])
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
