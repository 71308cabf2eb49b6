"""Is this cluster fit to run it: every host is asked once, and each answer judged by itself and against the others."""

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
"""In the order they are printed; adding a check is a file here and its name."""

NEVER_BY_ALL = frozenset({"collectives"})
"""Checks that `all` does not make required: they are not asked unless they are asked for."""


async def preflight(
    hosts: Sequence[Host], needs: Needs, timeout_s: float = ANSWER_S, progress: Progress | None = None
) -> list[HostFinding]:
    """Ask all hosts and judge what they say; `progress` is given how many have answered."""
    facts, unreached = await ask(hosts, needs, timeout_s, progress)
    return [*unreached, *judge(needs, facts)]


def modules() -> list[ModuleType]:
    return [importlib.import_module(f"{__name__}.{name}") for name in MODULES]


def judge(needs: Needs, facts: HostFacts) -> list[HostFinding]:
    """Every check over the hosts that answered."""
    return [finding for module in modules() for finding in module.check(needs, facts)]


def checks() -> tuple[Check, ...]:
    """Every check, in the order of the table."""
    return tuple(check for module in modules() for check in module.CHECKS)


def codes() -> dict[Code, str]:
    """Every code that a finding can have, with its meaning."""
    return codes_in(finding, *modules())


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
