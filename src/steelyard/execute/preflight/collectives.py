"""Checks that an all-reduce over the GPUs of a host is as fast as on the other hosts."""

import re
from statistics import median

from steelyard.execute.preflight.facts import HostFacts
from steelyard.execute.preflight.finding import Check, Findings
from steelyard.execute.preflight.needs import Needs
from steelyard.execute.preflight.probe import Section, count, number
from steelyard.reasons import Code

COLLECTIVES = Check("collectives")
CHECKS = (COLLECTIVES,)

ALL_REDUCE_FAST = Code("all_reduce_fast", "all-reduce reaches {rate:.1f} GB/s")
"""The all-reduce over the GPUs of the host is about as fast as on the median host."""
ALL_REDUCE_SLOW = Code(
    "all_reduce_slow", "all-reduce reaches only {rate:.1f} GB/s; the median host reaches {usual:.1f} GB/s"
)
"""The all-reduce over the GPUs of the host is slower than 80% of the median host."""
ALL_REDUCE_FAILED = Code("all_reduce_failed", "all_reduce_perf failed: {reason}")
"""The all-reduce test ended with an error."""
ALL_REDUCE_WRONG = Code("all_reduce_wrong", "all_reduce_perf computed a wrong sum")
"""The all-reduce test computed a wrong sum."""
ALL_REDUCE_UNMEASURED = Code("all_reduce_unmeasured", "all_reduce_perf reports no bandwidth ({reason})")
"""The all-reduce test is not installed or reports no bandwidth."""

SLOWEST_SHARE = 0.8
_ROW = re.compile(
    r"\s*(?P<size>\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+"
    r"\s+[\d.]+\s+[\d.]+\s+(?P<busbw>[\d.]+)\s+(?P<wrong>\S+)"
    r"\s+[\d.]+\s+[\d.]+\s+(?P<in_place>[\d.]+)\s+(?P<wrong_in_place>\S+)\s*"
)
_RIGHT = ("0", "0e+00", "N/A")


def bus_bandwidth(section: Section) -> tuple[float | None, bool]:
    """GB/s of the largest message (the faster of in place and out of place), and whether every sum was right."""
    rows = [match for line in section.lines if (match := _ROW.fullmatch(line))]
    right = all(row[key] in _RIGHT for row in rows for key in ("wrong", "wrong_in_place"))
    largest = max(rows, key=lambda row: count(row["size"]) or 0, default=None)
    rates = [number(largest[key]) for key in ("busbw", "in_place")] if largest else []
    return max((rate for rate in rates if rate is not None), default=None), right


def check(needs: Needs, facts: HostFacts) -> Findings:
    if not needs.collectives or not needs.wants_gpus:
        return
    measured = {host: bus_bandwidth(seen.collectives) for host, seen in facts.items() if seen.collectives is not None}
    rates = {host: rate for host, (rate, _) in measured.items() if rate is not None}
    usual = median(rates.values()) if rates else 0.0
    expected = f"{SLOWEST_SHARE:.0%} of {usual:.1f} GB/s" if rates else None
    for host, seen in facts.items():
        section, rate = seen.collectives, rates.get(host)
        if section is None or section.status is None or rate is None:
            reason = section.reason if section is not None else "the number of GPUs is unknown"
            fix = "put all_reduce_perf (rccl-tests or nccl-tests) on the PATH"
            yield COLLECTIVES.unknown(ALL_REDUCE_UNMEASURED, host, fix, None, expected, reason=reason)
            continue
        observed, right = round(rate, 1), measured[host][1]
        if not section.answered or not right:
            code = ALL_REDUCE_WRONG if section.answered else ALL_REDUCE_FAILED
            fix = "test each GPU and link of the host"
            yield COLLECTIVES.failed(code, host, fix, observed, expected, reason=section.reason)
        elif rate < SLOWEST_SHARE * usual:
            fix = "compare `nvidia-smi topo -m` or `amd-smi topology` with a good host to find a link that is down"
            yield COLLECTIVES.failed(ALL_REDUCE_SLOW, host, fix, observed, expected, rate=rate, usual=usual)
        else:
            yield COLLECTIVES.passed(ALL_REDUCE_FAST, host, observed, expected, rate=rate)
