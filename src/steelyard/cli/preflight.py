"""steelyard preflight: checks whether hosts are ready for a run."""

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cli.options import NEW_HOST_KEYS, Printing, Selection, argument, examples, option
from steelyard.cli.verb import verb
from steelyard.errors import InputError, InterruptedByUser

if TYPE_CHECKING:
    from steelyard.execute.host import Host
    from steelyard.execute.preflight import HostFinding, Needs
    from steelyard.verdict import Status

EXAMPLES = examples(
    "steelyard preflight",
    "steelyard preflight --cluster cluster.yaml --html preflight.html",
    "steelyard preflight mi3xx_megatron_llama_distributed.json --model llama3_1_8b --gpu mi300x --cluster cluster.yaml",
)
REQUIRED_HELP = (
    "Checks that must pass: all, none, or names with commas. Checks: reach, clock, disk, shm, ports, gpu_count, "
    "gpu_kind, gpu_idle, driver_version, stack_version, nics, gids, interfaces, collectives, hf_token, secrets, data, "
    "volumes, image, memlock, nofile, kernel_log. A required check that fails or is unknown blocks a run. Default: "
    "reach, clock, disk, shm, ports, gpu_count, gpu_kind, gpu_idle, hf_token, secrets, data, volumes, image; with RDMA "
    "between hosts also memlock and nofile. A check that fails without being required still gives exit status 1."
)
MANY_HOSTS = 8
_SHOWN_HOSTS = 4
_EVERY_S = 2.0


@dataclass(frozen=True, kw_only=True)
class PreflightOptions(Selection, Printing):
    file: Path | None = argument("CONFIG", "Training config; default: check what every job needs.", None)
    accept_new_host_keys: bool = option(*NEW_HOST_KEYS)
    required: str | None = option("--required CHECKS", REQUIRED_HELP)
    collectives: bool = option(
        "--collectives", "Also measure an all-reduce on each host; needs rccl-tests or nccl-tests there."
    )
    timeout_s: float = option("--timeout SECONDS", "Time limit for the answers of a host.", 120.0, min=1)
    html: Path | None = option("--html FILE", "Also write an HTML page.")
    verbose: bool = option("-v --verbose", "List the passed checks too.")


@verb
def preflight(options: PreflightOptions) -> int:
    """Check whether hosts are ready for a run.

    Checks all hosts of --cluster, or this machine. Exit status: 0 ready, 1 not ready, 5 unknown.
    """
    import asyncio

    from steelyard.execute import RunOptions
    from steelyard.execute.cluster import hosts_for
    from steelyard.execute.preflight import parse_required, verdict_of, weighed
    from steelyard.verdict import EXIT_OF

    weights = parse_required(options.required)
    if options.html is not None:
        from steelyard.reporting import check_place, html

        check_place(options.html, html.MARK, "--html")
    names, needs = _needs(options)
    keys = RunOptions(cluster=options.cluster, accept_new_host_keys=options.accept_new_host_keys)
    hosts = hosts_for(names or ("localhost",), keys)
    try:
        findings = weighed(asyncio.run(_ask(hosts, needs, options.timeout_s)), weights)
    except KeyboardInterrupt:
        raise InterruptedByUser("interrupted; nothing was changed on the hosts") from None
    verdict = verdict_of(findings)
    if options.html is not None:
        from steelyard.reporting.preflight_page import preflight_page

        where = hosts[0].name if len(hosts) == 1 else f"{len(hosts):,} hosts"
        title = f"{options.file.stem} on {where}" if options.file else f"Preflight of {where}"
        html.write(options.html, preflight_page(title, findings, shlex.join(["steelyard", *sys.argv[1:]])))
    if options.as_json:
        printing.show_json({"verdict": verdict.value, "findings": [finding.document() for finding in findings]})
    else:
        show(findings, options.verbose)
        if options.html is not None:
            printing.say(f"wrote {options.html}")
        if verdict.value != "pass":
            printing.say("fix the checks above, then repeat this command")
        printing.say(f"next: {_next(verdict.value, options)}")
    return EXIT_OF[verdict]


def _next(word: str, options: PreflightOptions) -> str:
    if word != "pass":
        return shlex.join(["steelyard", *sys.argv[1:]])
    words = ["steelyard", "run", str(options.file) if options.file else "FILE"]
    words += ["--cluster", str(options.cluster)] if options.cluster else []
    return shlex.join(words)


def _needs(options: PreflightOptions) -> tuple[tuple[str, ...], "Needs"]:
    """The names of the hosts and what they need; an empty tuple: this machine."""
    from steelyard.execute.preflight import needs_of, needs_of_any_job

    asked = options.asked()
    if options.file is None:
        from steelyard.experiment.case import check_plannable
        from steelyard.experiment.control import own_parents
        from steelyard.hardware.catalog import lookup

        needs = needs_of_any_job(own_parents(asked.names()["user"])[0])
        gpu = lookup(asked.gpu) if asked.gpu else None
        check_plannable(gpu)
        needs = replace(needs, gpu=gpu, gpu_name=asked.gpu, gpus_per_node=asked.gpus)
        return asked.hosts, replace(needs, collectives=options.collectives)
    from steelyard.cli.plan import planned

    made = planned(options.file, options.selection())
    if not asked.hosts and len(made.plan.nodes) > 1:
        complaint = f"{options.file} needs {len(made.plan.nodes)} hosts, but no cluster file was given"
        way_on = f"steelyard preflight {shlex.quote(str(options.file))} --cluster cluster.yaml"
        raise InputError(complaint, key="--cluster", expected="a cluster file", next=way_on)
    names = tuple(node.host for node in made.plan.nodes) if asked.hosts else ()
    return names, replace(needs_of(made), collectives=options.collectives)


async def _ask(hosts: "Sequence[Host]", needs: "Needs", timeout_s: float) -> "list[HostFinding]":
    import asyncio

    from steelyard.execute.preflight import preflight as ask

    noted_at = 0.0

    def note(stage: str, done: int, total: int) -> None:
        nonlocal noted_at
        if done == total or time.monotonic() - noted_at >= _EVERY_S:
            noted_at = time.monotonic()
            printing.note(f"{stage} {done:,} of {total:,} hosts")

    try:
        return await ask(hosts, needs, timeout_s, note if len(hosts) > MANY_HOSTS else None)
    finally:
        await asyncio.gather(*(host.close() for host in hosts))


def show(findings: "Sequence[HostFinding]", verbose: bool) -> None:
    """Print the verdict, then passed, unknown and failed checks; hosts with the same result share a line."""
    from steelyard.execute.preflight import verdict_of
    from steelyard.verdict import Status

    hosts = list(dict.fromkeys(finding.host for finding in findings if finding.host is not None))
    verdict, groups = verdict_of(findings).value, _grouped(findings)
    head = f"preflight: {verdict.upper()}"
    printing.say(f"{head}  {_counts(findings)}  {_named(hosts)}", printing.STATUS_STYLES[verdict], len(head))
    shown = [group for group in groups if verbose or group.status != Status.PASS]
    width = max((len(group.check) for group in shown), default=0)
    for group in shown:
        weight = "" if group.required or group.status != Status.UNKNOWN else " (not required)"
        where = f"{_named(group.hosts)}: " if len(hosts) > 1 else ""
        head, style = f"  {group.status.value:<7}  ", printing.STATUS_STYLES[group.status.value]
        printing.item(f"{head}{group.check:<{width}}  ", f"{where}{group.message}{weight}", len(head) + 2, style)
        if group.fix is not None and group.status != Status.PASS:
            printing.item(f"{' ' * len(head)}  fix: ", group.fix)


@dataclass(slots=True)
class _Group:
    """Hosts with the same result of a check."""

    check: str
    status: "Status"
    required: bool
    message: str
    fix: str | None
    hosts: list[str]


def _grouped(findings: "Sequence[HostFinding]") -> list[_Group]:
    """Passed, unknown, failed; required ones last. Passed hosts share a line even if their values differ."""
    from steelyard.verdict import Status

    groups: dict[tuple[object, ...], _Group] = {}
    for finding in findings:
        is_pass, host = finding.status == Status.PASS, finding.host or "this machine"
        message = finding.message
        key = (finding.check, finding.status, finding.required, None if is_pass else message, finding.fix)
        group = groups.setdefault(
            key, _Group(finding.check, finding.status, finding.required, message, finding.fix, [])
        )
        group.hosts.append(host)
    order = [*Status]
    return sorted(groups.values(), key=lambda group: (order.index(group.status), group.required))


def _counts(findings: "Sequence[HostFinding]") -> str:
    """`1 check failed, 2 unknown, 14 passed`: each check by its worst result."""
    from steelyard.verdict import Status

    worst: dict[str, Status] = {}
    for finding in findings:
        worst[finding.check] = max(worst.get(finding.check, Status.PASS), finding.status, key=[*Status].index)
    words = {Status.FAIL: "failed", Status.UNKNOWN: "unknown", Status.PASS: "passed"}
    counts = [(sum(status == each for status in worst.values()), word) for each, word in words.items()]
    (first, word), *more = [(count, word) for count, word in counts if count]
    return ", ".join([f"{first} check{'s' * (first != 1)} {word}", *(f"{count} {word}" for count, word in more)])


def _named(hosts: Sequence[str]) -> str:
    if len(hosts) <= _SHOWN_HOSTS:
        return ", ".join(hosts)
    return f"{', '.join(hosts[: _SHOWN_HOSTS - 1])} and {len(hosts) - _SHOWN_HOSTS + 1:,} more"
