"""Every host is reached and answers in time, and its clock agrees with the others' and with ours."""

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

HOST_ANSWERS = Code("host_answers", "it answers")
"""The host is reached and answers."""
HOST_NOT_REACHED = Code("host_not_reached", "{complaint}")
"""The host cannot be reached, or does not answer in time."""
CLOCK_RIGHT = Code("clock_right", "its clock is {expected} of that of {others}")
"""The clock of the host agrees with the other clocks."""
CLOCK_OFF = Code("clock_off", "its clock is {seconds:.1f} s {way} {others}")
"""The clock of the host is ahead of the other clocks, or behind them."""
CLOCK_UNSURE = Code(
    "clock_unsure", "its clock could be read to {doubt:.1f} s only, which does not tell whether it is right"
)
"""The answer took too long to tell whether the clock of the host is right."""
CLOCK_UNREAD = Code("clock_unread", "its clock could not be read")
"""The clock of the host cannot be read."""
OWN_CLOCK_OFF = Code("own_clock_off", "the clock of this machine is {seconds:.1f} s {way} the hosts'")
"""The clock of the machine that runs Steelyard differs from the clocks of most hosts."""

LIMIT_S = 1.0
"""Logs of nodes are put side by side by their times, and a token or a lease must not be of the future."""
_FEWEST = 3
"""Hosts that outvote us about the time."""
_FIX = "let chrony or systemd-timesyncd keep the time (`timedatectl set-ntp true`)"


def check(needs: Needs, facts: HostFacts) -> Findings:
    """Of the hosts that gave facts; those that did not are `unreached`."""
    for host in facts:
        yield REACH.passed(HOST_ANSWERS, host, "reached", "reached")
    yield from _clocks(facts)


def unreached(host: str, error: HostError) -> HostFinding:
    """A host that gave none."""
    fix = error.next or "see that the host is on and that ssh gets there, or leave it out of the cluster file"
    return REACH.failed(HOST_NOT_REACHED, host, fix, "not reached", "reached", complaint=redacted(error.complaint))


def _clocks(facts: HostFacts) -> Findings:
    read = [host.clock.ahead_s for host in facts.values() if host.clock is not None]
    usual, others = (median(read), "the other hosts") if len(read) >= _FEWEST else (0.0, "this machine")
    expected = f"within {LIMIT_S:g} s"
    for host, seen in facts.items():
        if seen.clock is None:
            yield CLOCK.unknown(CLOCK_UNREAD, host, "run `date +%s.%N` there and see why", None, expected)
            continue
        off, doubt = seen.clock.ahead_s - usual, seen.clock.uncertainty_s
        observed, seconds, way = round(off, 3), abs(off), "ahead of" if off > 0 else "behind"
        if seconds - doubt > LIMIT_S:
            yield CLOCK.failed(CLOCK_OFF, host, _FIX, observed, expected, seconds=seconds, way=way, others=others)
        elif seconds + doubt > LIMIT_S:
            fix = "ask again when the link is less busy"
            yield CLOCK.unknown(CLOCK_UNSURE, host, fix, observed, expected, doubt=doubt)
        else:
            yield CLOCK.passed(CLOCK_RIGHT, host, observed, expected, others=others)
    if abs(usual) > LIMIT_S:
        way = "behind" if usual > 0 else "ahead of"
        yield CLOCK.failed(OWN_CLOCK_OFF, None, _FIX, round(-usual, 3), expected, seconds=abs(usual), way=way)
