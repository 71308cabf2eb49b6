"""Failure texts common to all frameworks: the kind of each, and whether it is a cause or a consequence."""

import re

from steelyard.frameworks.logs.dialect import Place
from steelyard.records.step import Event

CAUSE, SCHEDULER, WATCHDOG, ECHO = range(4)
"""How near a text is to the cause of a failure: the error itself, the scheduler's reason, the first process that waited
in vain, and messages about a failure elsewhere."""

_TEXTS = {
    ("oom", CAUSE): (
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
    ("xid", CAUSE): (rb"\bNVRM: Xid\b", rb"\bS?Xid \(?[\w:.]*\)?:? ?\d+", rb"has fallen off the bus"),
    ("ecc", CAUSE): (
        rb"(?i:uncorrectable (?:ECC |memory |volatile |hardware )?errors?)",
        rb"(?i:uncorrectable ECC)",
        rb"(?i:double[- ]bit (?:ECC )?errors?)",
        rb"\[Hardware Error\]",
    ),
    ("gpu_hang", CAUSE): (
        rb"HW Exception by GPU",
        rb"GPU [Hh]ang\b|HWS hang",
        rb"GPU [Rr]eset(?: begin|\s*$|!)",
        rb"Memory access fault by GPU",
        rb"HSA_STATUS_ERROR_\w+",
        rb"amdgpu.{0,100}ring \S+ timeout",
        rb"Unable to determine the device handle for GPU",
    ),
    ("nan_abort", CAUSE): (
        rb"found (?:NaN|Inf) in local (?:forward loss|grad norm)",
        rb"Unexpected result (?:nan|-?inf)\b",
        rb"Aborting training due to (?:NaN|Inf)\w* loss",
        rb"Current loss scale already at minimum",
    ),
    ("nccl", WATCHDOG): (rb"Watchdog caught collective operation timeout",),
    ("nccl", ECHO): (
        rb"watchdog (?:got stuck|thread terminated(?!.{0,100}(?:CUDA|HIP) error)|hang)",
        rb"Some NCCL operations have failed or timed out",
        rb"\b[NR]CCL ERROR\b",
        rb"\b[NR]CCL error(?: in)?:",
        rb"\b[NR]CCL timeout\b(?!\s*(?:set|is|=|:))",
        rb"\b[NR]CCL WARN .{0,200}(?:Got completion from peer|Got async event|failure|error)",
        rb"\b[NR]CCL communicator was aborted",
        rb"\bnccl(?:Remote|System|Internal|UnhandledCuda)Error\b|\bncclInvalidUsage\b",
        rb"DistBackendError",
        rb"\b[Gg]loo\b.{0,300}(?:Read error|Write error|by peer|[Tt]imed out|Broken pipe|connectFullMesh)",
        rb"torch\.distributed\.Dist(?:Network|Store)Error",
    ),
    ("xla", CAUSE): (
        rb"No visible GPU devices",
        rb"failed call to (?:hipInit|cuInit)",
        rb"XlaRuntimeError|JaxRuntimeError",
        rb"librocm reported version is: NOT_FOUND",
        rb"local work queue catastrophic error",
    ),
    ("xla", ECHO): (
        rb"\bCoordinationServiceError\b|\bBarrierError\b",
        rb"(?i:coordination service .{0,200}(?:error|failed))",
        rb"JAX distributed service detected fatal errors",
        rb"Heartbeat timeout\. The tasks have crashed|stopped sending heartbeats",
    ),
    ("crash", CAUSE): (
        rb"\bFatal Python error: (?!Aborted)\S",
        rb"^\s*Segmentation fault|: Segmentation fault|\bSegfault encountered",
        rb"\(core dumped\)",
        rb"Signal 11 \(SIGSEGV\)|\*\*\* Process received signal \*\*\*",
        rb"\bBus error\b",
        rb"terminate called after throwing an instance of",
        rb"^F\d{4} \d\d:\d\d:\d\d.{0,200}Check fail",
    ),
    ("error", CAUSE): (
        rb"\b(?:CUDA|HIP) error: ",
        rb"CUDA_ERROR_[A-Z_]+|hipError[A-Z]\w+",
        rb"\bCUBLAS_STATUS_[A-Z_]+|\bCUDNN_STATUS_[A-Z_]+|\bMIOPEN_STATUS_[A-Z_]+",
        rb"\bAcceleratorError\b",
        rb"DataLoader worker .{0,100}(?:killed|exited unexpectedly)",
        rb"\b[\w-]{1,100}\.py: error: \S",  # of argparse, after the usage
    ),
    ("exit", SCHEDULER): (
        rb"\*\*\* (?:JOB|STEP) \S{1,64} ON \S{1,255} .{0,100}DUE TO (?!TASK FAILURE)[A-Z]",
        rb"\*\*\* JOB \S{1,64} ON \S{1,255} CANCELLED",
        rb"srun: error: .{0,200}(?:Node failure|Unable to (?:create step|allocate resources))",
    ),
    ("exit", CAUSE): (rb"exitcode\s*: -(?:9|11|7)\b", rb"failed \(exitcode: -(?:9|11|7)\)"),  # a rank was killed
    ("exit", ECHO): (
        rb"exitcode\s*: (?!0\b)-?\d+",
        rb"failed \(exitcode: (?!0\b)-?\d+\)",
        rb"srun: error: .{0,200}(?:[Ee]xit(?:ed)?|Killed|Terminated)",
        rb"srun: Job step aborted",
        rb"\*\*\* STEP \S{1,64} ON \S{1,255} CANCELLED",
        rb"ChildFailedError",
        rb"Signal \d+ \(SIG\w+\) received",
        rb"^\s*Killed\s*$|line \d+:\s+\d+ (?:Hangup|Killed|Aborted|Terminated|Segmentation fault)\b",
        rb"Received \d+ death signal|got signal: \d+|[Mm]ain process received SIG\w+",
        rb"\bexits with return code = (?!0\b)-?\d+",  # DeepSpeed's launcher
        rb"command terminated with exit code (?!0\b)\d+|returned a non-zero exit code",
        rb"\bFatal Python error:",
        rb"mpirun noticed that process .{0,200}exited on signal|MPI_ABORT was invoked",
    ),
}
"""Fatal texts by kind and order; of several, the first of the lowest order is the cause, wherever it is in the log."""
_PATTERNS = [(kind, order, re.compile(b"|".join(texts))) for (kind, order), texts in _TEXTS.items()]

WORDS = (
    rb"rror|RROR|xception|Traceback|out of memory|Out [Oo]f [Mm]emory|OOM|oom|EXHAUSTED|bad_alloc|Xid|fallen off",
    rb"ECC|ncorrectable|[Hh]ang|[Rr]eset|fault|Fatal|HSA_STATUS|device handle|ring .*timeout",
    rb"found NaN|found Inf|Unexpected result|Aborting|loss scale already|[Ww]atchdog|NCCL|RCCL|nccl|visible GPU",
    rb"hipInit|cuInit|librocm|catastrophic|heartbeat|Heartbeat|fatal|Check fail|terminate called|_STATUS_",
    rb"DataLoader worker|exitcode|exit code|srun:|slurmstepd|CANCELLED AT|SIG|Killed|Aborted|Terminated",
    rb"signal|MPI_ABORT|aborted|return code",
    rb"Bus error|core dumped|Segmentation",
)
"""Quick test for lines with a failure; without digits."""

_HARMLESS = re.compile(
    rb"timeout set to|\b0 (?:CUDA )?(?:OOM )?errors?\b|\bno (?:uncorrectable )?errors?\b|=\s*0\s*$"
    rb"|\b[Rr]etry|FutureWarning|DeprecationWarning|UserWarning"
    rb"|WARNING.{0,200}(?:ImportError|ModuleNotFoundError)|\[W\d{4} \d\d:\d\d:\d\d",
    re.IGNORECASE,
)
_ALWAYS = ("exit", "xid")
_NONE_COUNTED = re.compile(rb"[:=]\s*(?:0|N/A)\s*$")
"""A zero error count of `nvidia-smi -q`."""

TRACEBACK = re.compile(rb"Traceback \(most recent call last\)")
_RAISED = re.compile(
    rb"(?:^ {0,2}|(?<=[:>\])|] )|(?<=[:>\])]))"
    rb"(?P<kind>(?:[A-Za-z_][\w.]{0,200})?(?:Error|Exception|Interrupt|Exit|Killed|StopIteration|"
    rb"Timeout|TimeoutExpired|Abort|Aborted|Failure|Fault|Empty|Full)(?:\([\w.]+\))?)(?:: |\s*$)"
)
"""An exception in the last line of a traceback: at the start, or after a prefix and at most one blank. Lines of code
are indented more, and their comments may name an exception."""
_IN_ONE_LINE = re.compile(rb", ['\"](?P<raised>[A-Za-z_][\w.]{0,200}[^'\"\\]{0,2000})\\n['\"]\]\s*$")
"""The end of a traceback printed as a Python list, on one line or on several that a launcher broke."""
EXIT_BARRIER = re.compile(rb"Error waiting on exit barrier\b|\bException ignored (?:in|while|on)\b")
"""Texts before the traceback of an error that has no effect. torchrun prints the first for an agent whose wait for
other agents failed after its workers ended, usually because the agent with the store left first; it still exits with
the status of its workers. Python prints the second for an error that nothing can handle, such as in a destructor."""
CHAINED = re.compile(
    rb"The above exception was the direct cause of the following exception:"
    rb"|During handling of the above exception, another exception occurred:"
)
"""Text between two tracebacks of one failure."""
_ECHOES = (b"ChildFailedError", b"KeyboardInterrupt", b"SystemExit", b"SignalException")


def named(text: bytes, place: Place) -> Event | None:
    """The failure in a single line, if any."""
    kind, order = _known(text)
    if kind is None or (kind == "ecc" and _NONE_COUNTED.search(text)):
        return None
    return failed(kind, text, place, order) if kind in _ALWAYS or not _HARMLESS.search(text) else None


def raised(text: bytes, place: Place) -> Event | None:
    """The exception at the end of a traceback; None for a line within it."""
    exception = _RAISED.search(text[:2000])
    if exception is None:
        return None
    kind, order = _known(text)
    if kind is None:
        signal = exception["kind"].endswith(b"SignalException")
        kind, order = "exit" if signal else "error", ECHO if exception["kind"].endswith(_ECHOES) else CAUSE
    return failed(kind, text, place, order)


def in_one_line(text: bytes, place: Place) -> Event | None:
    """The exception of a traceback that is printed as a list on one line."""
    printed = _IN_ONE_LINE.search(text) if text.endswith(b"]") else None
    return raised(printed["raised"], place) if printed else None


def _known(text: bytes) -> tuple[str | None, int]:
    """Kind and order of the first failure text in a line."""
    return next(((kind, order) for kind, order, pattern in _PATTERNS if pattern.search(text)), (None, CAUSE))


_HOST = re.compile(
    rb"\bnode:? ([A-Za-z][\w.-]*)(?:, device|\s*$)"  # of a rank
    rb"|^(?:\w{3} +\d+ \d\d:\d\d:\d\d )?([A-Za-z][\w.-]*) kernel:"  # of syslog, or dmesg
    rb"|srun: error: ([A-Za-z][\w.-]*):"
    rb"|slurmstepd: error: .*? ON ([A-Za-z][\w.-]*)"
    rb"|\[([A-Za-z][\w.-]*):\d+\]"  # of torch
    rb"|^([A-Za-z][\w.-]*):\d+:\d+ \[\d+\]"  # of NCCL
)


def failed(kind: str, text: bytes, place: Place, order: int) -> Event:
    """The event of a failure, on the host of the prefix, or else the host in the line."""
    origin, host = place.origin, _HOST.search(text)
    node = host[host.lastindex or 0].decode("ascii", "replace") if host and not origin.node else None
    rank = {} if origin.rank is None else {"rank": origin.rank}
    return place.event(kind, text, place.step or None, node, order=order, **rank)
