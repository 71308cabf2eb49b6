"""steelyard preflight: is this cluster fit to run it."""

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cli.options import NEW_HOST_KEYS, Printing, Selection, argument, option
from steelyard.cli.verb import verb
from steelyard.errors import InputError, InterruptedByUser

if TYPE_CHECKING:
    from steelyard.execute.host import Host
    from steelyard.execute.preflight import HostFinding, Needs

EXAMPLES = (
    "Examples: steelyard preflight | steelyard preflight --cluster cluster.yaml --html fit.html | "
    "steelyard preflight mi3xx_megatron_llama_distributed.json --model llama3_1_8b --gpu mi300x --cluster cluster.yaml"
)
REQUIRED_HELP = (
    "Checks that must hold: all, none, or some of reach, clock, disk, shm, ports, gpu_count, gpu_kind, gpu_idle, "
    "driver_version, stack_version, nics, gids, interfaces, collectives, hf_token, secrets, data, volumes, image, "
    "memlock, nofile, kernel_log. One that failed or is not known then blocks a run. By default: reach, clock, disk, "
    "shm, ports, gpu_count, gpu_kind, gpu_idle, hf_token, secrets, data, volumes, image; memlock and nofile for "
    "several machines over RDMA. What fails without being required still ends in 1."
)
MANY_HOSTS = 8
_SHOWN_HOSTS = 4
_EVERY_S = 2.0


@dataclass(frozen=True, kw_only=True)
class PreflightOptions(Selection, Printing):
    file: Path | None = argument("CONFIG", "A training config; without one, what any job needs is asked.", None)
    accept_new_host_keys: bool = option(*NEW_HOST_KEYS)
    required: str | None = option("--required CHECKS", REQUIRED_HELP)
    collectives: bool = option(
        "--collectives", "Also measure an all-reduce on each host, where rccl-tests or nccl-tests are."
    )
    timeout_s: float = option("--timeout SECONDS", "How long a host may take to answer.", 120.0, min=1)
    html: Path | None = option("--html FILE", "Also write an HTML page.")


@verb
def preflight(options: PreflightOptions) -> int:
    """Ask every host whether it is fit to run it. Ends with 0 if it is, 1 if not, 5 if that is not known.

    Without --cluster this machine is asked.
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
        raise InterruptedByUser("interrupted; the hosts were only asked") from None
    verdict = verdict_of(findings)
    if options.html is not None:
        from steelyard.reporting.preflight_page import preflight_page

        where = hosts[0].name if len(hosts) == 1 else f"{len(hosts):,} hosts"
        title = f"{options.file.stem} on {where}" if options.file else f"Preflight of {where}"
        html.write(options.html, preflight_page(title, findings, shlex.join(["steelyard", *sys.argv[1:]])))
    if options.as_json:
        printing.show_json({"verdict": verdict.value, "findings": [finding.document() for finding in findings]})
    else:
        show(findings)
        if options.html is not None:
            printing.say(f"wrote {options.html}")
    return EXIT_OF[verdict]


def _needs(options: PreflightOptions) -> tuple[tuple[str, ...], "Needs"]:
    """The hosts' names and what is needed of them; no name is this machine."""
    from steelyard.execute.preflight import needs_of, needs_of_any_job

    asked = options.asked()
    if options.file is None:
        from steelyard.experiment.control import own_parents
        from steelyard.hardware.catalog import lookup

        needs = needs_of_any_job(own_parents(asked.names()["user"])[0])
        gpu = lookup(asked.gpu) if asked.gpu else None
        needs = replace(needs, gpu=gpu, gpu_name=asked.gpu, gpus_per_node=asked.gpus)
        return asked.hosts, replace(needs, collectives=options.collectives)
    from steelyard.cli.plan import planned

    made = planned(options.file, options.selection())
    if not asked.hosts and len(made.plan.nodes) > 1:
        complaint = f"{options.file} is planned for {len(made.plan.nodes)} machines and no cluster is named"
        way_on = f"steelyard preflight {shlex.quote(str(options.file))} --cluster cluster.yaml"
        raise InputError(complaint, key="--cluster", expected="the cluster's hosts", next=way_on)
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


def show(findings: "Sequence[HostFinding]") -> None:
    """The findings for a person: what failed first, each with its fix; hosts that say the same in one line."""
    from steelyard.execute.preflight import verdict_of
    from steelyard.verdict import Status

    ranks = {(Status.FAIL, True): 0, (Status.FAIL, False): 1, (Status.UNKNOWN, True): 2, (Status.UNKNOWN, False): 4}
    hosts = list(dict.fromkeys(finding.host for finding in findings if finding.host is not None))
    printing.say(f"verdict: {verdict_of(findings).value.upper()}  {_named(hosts)}")
    width = max((len(finding.check) for finding in findings), default=0)
    passed: dict[str, dict[str, None]] = {}
    groups: dict[tuple[str, Status, bool, str, str | None], list[str]] = {}
    for finding in findings:
        message = finding.message
        if finding.status == Status.PASS:
            passed.setdefault(finding.check, {})[message] = None
            message = ""
        key = (finding.check, finding.status, finding.required, message, finding.fix)
        groups.setdefault(key, []).append(finding.host or "this machine")
    for key, named in sorted(groups.items(), key=lambda group: ranks.get(group[0][1:3], 3)):
        check, status, required, message, fix = key
        if status == Status.PASS:  # those that passed say the same, or the first speaks for them
            first, *others = passed[check]
            message = f"{first}; {len(others):,} more alike" if others else first
        weight = "" if required or status != Status.UNKNOWN else " (not required)"
        where = f"{_named(named)}: " if len(hosts) > 1 else ""
        printing.item(f"  {status.value:<7}  {check:<{width}}  ", f"{where}{message}{weight}")
        if fix is not None and status != Status.PASS:
            printing.item(f"  {'':<7}  {'':<{width}}  fix: ", fix)


def _named(hosts: Sequence[str]) -> str:
    if len(hosts) <= _SHOWN_HOSTS:
        return ", ".join(hosts)
    return f"{', '.join(hosts[: _SHOWN_HOSTS - 1])} and {len(hosts) - _SHOWN_HOSTS + 1:,} more"
