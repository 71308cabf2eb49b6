"""The hosts' clocks agree with one another and with ours."""

from collections.abc import Iterator, Mapping
from statistics import median

from steelyard.execute.preflight.facts import Facts
from steelyard.execute.preflight.finding import Check, HostFinding
from steelyard.execute.preflight.needs import Needs

CLOCK = Check("clock", required=True)
CHECKS = (CLOCK,)

LIMIT_S = 1.0
"""Logs of nodes are put side by side by their times, and a token or a lease must not be of the future."""
_FEWEST = 3
"""Hosts that outvote us about the time."""
_FIX = "let chrony or systemd-timesyncd keep the time (`timedatectl set-ntp true`)"


def check(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    read = [host.clock.ahead_s for host in facts.values() if host.clock is not None]
    usual = median(read) if len(read) >= _FEWEST else 0.0
    others = "the other hosts" if len(read) >= _FEWEST else "this machine"
    for host, seen in facts.items():
        expected = f"within {LIMIT_S:g} s"
        if seen.clock is None:
            yield CLOCK.unknown(
                host, "its clock could not be read", "run `date +%s.%N` there and see why", None, expected
            )
            continue
        off, doubt = seen.clock.ahead_s - usual, seen.clock.uncertainty_s
        observed = round(off, 3)
        if abs(off) - doubt > LIMIT_S:
            way = "ahead of" if off > 0 else "behind"
            yield CLOCK.failed(host, f"its clock is {abs(off):.1f} s {way} {others}", _FIX, observed, expected)
        elif abs(off) + doubt > LIMIT_S:
            message = f"its clock could be read to {doubt:.1f} s only, which does not tell whether it is right"
            yield CLOCK.unknown(host, message, "ask again when the link is less busy", observed, expected)
        else:
            message = f"its clock is within {LIMIT_S:g} s of that of {others}"
            yield CLOCK.passed(host, message, observed, expected)
    if abs(usual) > LIMIT_S:
        message = f"the clock of this machine is {abs(usual):.1f} s {'behind' if usual > 0 else 'ahead of'} the hosts'"
        yield CLOCK.failed(None, message, _FIX, round(-usual, 3), f"within {LIMIT_S:g} s")
