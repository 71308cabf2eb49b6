"""Checks whether hosts are ready for a job: one query per host, judged by itself and against the other hosts."""

import difflib
import importlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import ModuleType

from steelyard.errors import InputError
from steelyard.execute.host import Host
from steelyard.execute.preflight import finding
from steelyard.execute.preflight.asking import ANSWER_S, Progress, ask
from steelyard.execute.preflight.facts import HostFacts
from steelyard.execute.preflight.finding import Check, HostFinding, verdict_of
from steelyard.execute.preflight.needs import Needs, needs_of, needs_of_any_job
from steelyard.reasons import Code, codes_in

MODULES = ("reach", "resources", "gpus", "network", "collectives", "files", "image", "limits", "kernel_log")
"""In the order of the output; a new check needs a file here and its name."""

NEVER_BY_ALL = frozenset({"collectives"})
"""Checks that `all` does not make required, because they run only with their own option."""


async def preflight(
    hosts: Sequence[Host], needs: Needs, timeout_s: float = ANSWER_S, progress: Progress | None = None
) -> list[HostFinding]:
    """Query all hosts and judge their answers; `progress` gets the number of hosts that have answered."""
    facts, unreachable = await ask(hosts, needs, timeout_s, progress)
    return [*unreachable, *judge(needs, facts)]


def modules() -> list[ModuleType]:
    return [importlib.import_module(f"{__name__}.{name}") for name in MODULES]


def judge(needs: Needs, facts: HostFacts) -> list[HostFinding]:
    """The findings of every check for the hosts that answered."""
    return [finding for module in modules() for finding in module.check(needs, facts)]


def checks() -> tuple[Check, ...]:
    """Every check, in the order of the table."""
    return tuple(check for module in modules() for check in module.CHECKS)


def codes() -> dict[Code, str]:
    """Every code of a finding, with its meaning."""
    return codes_in(finding, *modules())


def parse_required(text: str | None) -> frozenset[str] | None:
    """The checks that --required names; None: the default of each check."""
    if text is None:
        return None
    names = [check.name for check in checks()]
    if text in ("all", "none"):
        return frozenset(names) - NEVER_BY_ALL if text == "all" else frozenset()
    asked = [name.strip() for name in text.split(",")]
    for name in asked:
        if name not in names:
            raise InputError(
                f"--required: unknown check {name!r}",
                key="--required",
                value=text,
                expected=f"all, none, or a list of {', '.join(names)}",
                next=f"--required {difflib.get_close_matches(name, names, n=1, cutoff=0.0)[0]}",
            )
    return frozenset(asked)


def weighed(findings: Iterable[HostFinding], required: frozenset[str] | None) -> list[HostFinding]:
    """The same findings, with other required checks."""
    if required is None:
        return list(findings)
    return [replace(finding, required=finding.check in required) for finding in findings]


__all__ = [
    "MODULES",
    "HostFinding",
    "Needs",
    "checks",
    "codes",
    "judge",
    "needs_of",
    "needs_of_any_job",
    "parse_required",
    "preflight",
    "verdict_of",
    "weighed",
]
