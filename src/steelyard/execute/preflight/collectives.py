"""An all-reduce over the GPUs of a host is as fast as on the others."""

import re
from collections.abc import Iterator, Mapping
from statistics import median

from steelyard.execute.preflight.facts import Facts
from steelyard.execute.preflight.finding import Check, HostFinding
from steelyard.execute.preflight.needs import Needs
from steelyard.execute.preflight.probe import Section
from steelyard.execute.preflight.smi import count, number

COLLECTIVES = Check("collectives")
CHECKS = (COLLECTIVES,)

SLOWEST_SHARE = 0.8
_ROW = re.compile(
    r"\s*(?P<size>\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+"
    r"\s+[\d.]+\s+[\d.]+\s+(?P<busbw>[\d.]+)\s+(?P<wrong>\S+)"
    r"\s+[\d.]+\s+[\d.]+\s+(?P<in_place>[\d.]+)\s+(?P<wrong_in_place>\S+)\s*"
)
_RIGHT = ("0", "0e+00", "N/A")


def bus_bandwidth(section: Section) -> tuple[float | None, bool]:
    """GB/s of the largest message, the better of both ways, and whether every sum was right."""
    rows = [match for line in section.lines if (match := _ROW.fullmatch(line))]
    right = all(row[key] in _RIGHT for row in rows for key in ("wrong", "wrong_in_place"))
    largest = max(rows, key=lambda row: count(row["size"]) or 0, default=None)
    rates = [number(largest[key]) for key in ("busbw", "in_place")] if largest else []
    return max((rate for rate in rates if rate is not None), default=None), right


def check(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    if not needs.collectives or not needs.wants_gpus:
        return
    found = {host: bus_bandwidth(seen.collectives) for host, seen in facts.items() if seen.collectives is not None}
    rates = {host: rate for host, (rate, _) in found.items() if rate is not None}
    usual = median(rates.values()) if rates else 0.0
    expected = f"{SLOWEST_SHARE:.0%} of {usual:.1f} GB/s" if rates else None
    for host, seen in facts.items():
        section = seen.collectives
        if section is None or section.status is None or host not in rates:
            reason = section.reason if section is not None else "its GPUs cannot be counted"
            fix = "put all_reduce_perf of rccl-tests or nccl-tests on the PATH"
            yield COLLECTIVES.unknown(host, f"all_reduce_perf gives no bandwidth ({reason})", fix, None, expected)
        elif not section.answered or not found[host][1]:
            why = (
                f"all_reduce_perf failed: {section.reason}" if not section.answered else "all_reduce_perf sums wrongly"
            )
            yield COLLECTIVES.failed(host, why, "test each GPU and link of the host", round(rates[host], 1), expected)
        elif rates[host] < SLOWEST_SHARE * usual:
            message = f"all-reduce reaches {rates[host]:.1f} GB/s, and {usual:.1f} GB/s on the median host"
            fix = "compare `nvidia-smi topo -m` or `amd-smi topology` with a good host; look for a link that is down"
            yield COLLECTIVES.failed(host, message, fix, round(rates[host], 1), expected)
        else:
            yield COLLECTIVES.passed(
                host, f"all-reduce reaches {rates[host]:.1f} GB/s", round(rates[host], 1), expected
            )
