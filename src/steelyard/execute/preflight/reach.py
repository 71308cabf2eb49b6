"""Checks that every host answers in time and that its clock agrees with the other clocks."""

from statistics import median

from steelyard.execute.host import HostError
from steelyard.execute.preflight.facts import HostFacts
from steelyard.execute.preflight.finding import Check, Findings, HostFinding
from steelyard.execute.preflight.needs import Needs
from steelyard.reasons import Code
from steelyard.secrets import redacted

REACH = Check("reach", required=True)
CLOCK = Check("clock", required=True)
CHECKS = (REACH, CLOCK)

HOST_ANSWERS = Code("host_answers", "the host answers")
"""The host is reached and answers."""
HOST_NOT_REACHED = Code("host_not_reached", "{complaint}")
"""The host cannot be reached, or does not answer in time."""
CLOCK_RIGHT = Code("clock_right", "clock is {expected} of {others}")
"""The clock of the host agrees with the other clocks."""
CLOCK_OFF = Code("clock_off", "clock is {seconds:.1f} s {way} {others}")
"""The clock of the host is ahead of the other clocks, or behind them."""
CLOCK_UNSURE = Code("clock_unsure", "clock could only be read to {doubt:.1f} s; {expected} is needed")
"""The answer took too long to decide whether the clock of the host is right."""
CLOCK_UNREAD = Code("clock_unread", "cannot read the clock")
"""The clock of the host cannot be read."""
OWN_CLOCK_OFF = Code("own_clock_off", "the clock of this machine is {seconds:.1f} s {way} the hosts")
"""The clock of the machine that runs Steelyard differs from the clocks of most hosts."""

LIMIT_S = 1.0
"""Node logs are aligned by their timestamps, and the time of a token or lease must not be in the future."""
_FEWEST = 3
"""Number of hosts from which on their median time counts, not ours."""
_FIX = "turn on time synchronization with chrony or systemd-timesyncd (`timedatectl set-ntp true`)"


def check(needs: Needs, facts: HostFacts) -> Findings:
    """For hosts that gave facts; `unreached` is for the others."""
    for host in facts:
        yield REACH.passed(HOST_ANSWERS, host, "reached", "reached")
    yield from _clocks(facts)


def unreached(host: str, error: HostError) -> HostFinding:
    """The finding for a host that gave no facts."""
    fix = error.next or f"check that the host is up and that `ssh {host}` works, or remove it from the cluster file"
    return REACH.failed(HOST_NOT_REACHED, host, fix, "not reached", "reached", complaint=redacted(error.complaint))


def _clocks(facts: HostFacts) -> Findings:
    read = [host.clock.ahead_s for host in facts.values() if host.clock is not None]
    usual, others = (median(read), "the other hosts") if len(read) >= _FEWEST else (0.0, "this machine")
    expected = f"within {LIMIT_S:g} s"
    for host, seen in facts.items():
        if seen.clock is None:
            yield CLOCK.unknown(CLOCK_UNREAD, host, "run `date +%s.%N` on the host to see the error", None, expected)
            continue
        off, doubt = seen.clock.ahead_s - usual, seen.clock.uncertainty_s
        observed, seconds, way = round(off, 3), abs(off), "ahead of" if off > 0 else "behind"
        if seconds - doubt > LIMIT_S:
            yield CLOCK.failed(CLOCK_OFF, host, _FIX, observed, expected, seconds=seconds, way=way, others=others)
        elif seconds + doubt > LIMIT_S:
            fix = "repeat preflight when the network is less busy"
            yield CLOCK.unknown(CLOCK_UNSURE, host, fix, observed, expected, doubt=doubt)
        else:
            yield CLOCK.passed(CLOCK_RIGHT, host, observed, expected, others=others)
    if abs(usual) > LIMIT_S:
        way = "behind" if usual > 0 else "ahead of"
        yield CLOCK.failed(OWN_CLOCK_OFF, None, _FIX, round(-usual, 3), expected, seconds=abs(usual), way=way)
