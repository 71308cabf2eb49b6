"""Is this cluster fit to run it: every host is asked once, and each answer judged by itself and against the others."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from steelyard.errors import InputError
from steelyard.execute.host import Host
from steelyard.execute.preflight.asking import ANSWER_S, Told, ask
from steelyard.execute.preflight.facts import Facts
from steelyard.execute.preflight.finding import Check, HostFinding, verdict_of
from steelyard.execute.preflight.needs import Needs, needs_of, needs_of_any_job

MODULES = (
    "reach",
    "clock",
    "storage",
    "ports",
    "gpus",
    "versions",
    "network",
    "collectives",
    "token",
    "data",
    "volumes",
    "image",
    "limits",
    "kernel_log",
)
"""In the order they are printed; adding a check is a file here and its name."""

NEVER_BY_ALL = frozenset({"collectives"})
"""Checks that `all` does not make required: they are not asked unless they are asked for."""


async def preflight(
    hosts: Sequence[Host], needs: Needs, timeout_s: float = ANSWER_S, told: Told | None = None
) -> list[HostFinding]:
    """Ask all hosts and judge what they say; `told` hears how many have answered."""
    facts, unreached = await ask(hosts, needs, timeout_s, told)
    return [*unreached, *judge(needs, facts)]


def judge(needs: Needs, facts: Mapping[str, Facts]) -> list[HostFinding]:
    """Every check over the hosts that answered."""
    return [
        finding for name in MODULES for finding in importlib.import_module(f"{__name__}.{name}").check(needs, facts)
    ]


def checks() -> tuple[Check, ...]:
    """Every check, in the order of the table."""
    return tuple(one for name in MODULES for one in importlib.import_module(f"{__name__}.{name}").CHECKS)


def parse_required(text: str | None) -> frozenset[str] | None:
    """What --required names; None is each check's own answer."""
    if text is None:
        return None
    names = [check.name for check in checks()]
    if text in ("all", "none"):
        return frozenset(names) - NEVER_BY_ALL if text == "all" else frozenset()
    asked = [name.strip() for name in text.split(",")]
    for name in asked:
        if name not in names:
            raise InputError(
                f"--required {name!r} is no check",
                key="--required",
                value=text,
                expected=f"all, none, or some of {', '.join(names)}",
                next="--required reach,gpu_count",
            )
    return frozenset(asked)


def weighed(findings: Iterable[HostFinding], required: frozenset[str] | None) -> list[HostFinding]:
    """The same findings, required as asked."""
    if required is None:
        return list(findings)
    return [replace(finding, required=finding.check in required) for finding in findings]


def blocking(findings: Iterable[HostFinding], required: frozenset[str] | None = None) -> list[HostFinding]:
    """What keeps a run from starting: required, and failed or not known."""
    return [finding for finding in weighed(findings, required) if finding.blocks]


__all__ = [
    "MODULES",
    "HostFinding",
    "Needs",
    "blocking",
    "checks",
    "judge",
    "needs_of",
    "needs_of_any_job",
    "parse_required",
    "preflight",
    "verdict_of",
    "weighed",
]
