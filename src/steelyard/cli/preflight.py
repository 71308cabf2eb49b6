"""steelyard preflight: is this cluster fit to run it."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import NewKeysOption, Printing, Selection
from steelyard.cli.verb import verb
from steelyard.errors import InputError, InterruptedByUser

if TYPE_CHECKING:
    from steelyard.configs.choose import Asked
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
CollectivesOption = Annotated[
    bool,
    typer.Option("--collectives", help="Also measure an all-reduce on each host, where rccl-tests or nccl-tests are."),
]
MANY_HOSTS = 8
_SHOWN_HOSTS = 4
_EVERY_S = 2.0


@dataclass(frozen=True, kw_only=True)
class PreflightOptions(Selection, Printing):
    file: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG", help="A training config; without one, what any job needs is asked."),
    ] = None
    accept_new_host_keys: NewKeysOption = False
    required: Annotated[str | None, typer.Option("--required", metavar="CHECKS", help=REQUIRED_HELP)] = None
    collectives: CollectivesOption = False
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=1, help="How long a host may take to answer.")
    ] = 120.0
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write an HTML page.")] = None


@verb
def preflight(options: PreflightOptions) -> int:
    """Ask every host whether it is fit to run it. Ends with 0 if it is, 1 if not, 5 if that is not known.

    Without --cluster this machine is asked.
    """
    import asyncio
    from dataclasses import replace

    from steelyard.cli import printing
    from steelyard.execute import RunOptions
    from steelyard.execute.cluster import hosts_for
    from steelyard.execute.preflight import parse_required, verdict_of, weighed
    from steelyard.verdict import EXIT_OF

    weights = parse_required(options.required)
    if options.html is not None:
        from steelyard.reporting import html as html_format
        from steelyard.reporting.files import check_place

        check_place(options.html, html_format.MARK, "--html")
    asked = options.asked()
    names, needs = _needs(options.file, asked)
    needs = replace(needs, collectives=options.collectives)
    hosts = hosts_for(
        names or ("localhost",), RunOptions(cluster=options.cluster, accept_new_host_keys=options.accept_new_host_keys)
    )
    try:
        findings = weighed(asyncio.run(_asked(hosts, needs, options.timeout_s)), weights)
    except KeyboardInterrupt:
        raise InterruptedByUser("interrupted; the hosts were only asked") from None
    verdict = verdict_of(findings)
    if options.html is not None:
        _write_page(options.html, options.file, hosts, findings)
    if options.as_json:
        printing.show_json({"verdict": verdict.value, "findings": [one.document() for one in findings]})
    else:
        show(findings)
        if options.html is not None:
            printing.say(f"wrote {options.html}")
    return EXIT_OF[verdict]


def _needs(file: Path | None, asked: "Asked") -> tuple[tuple[str, ...], "Needs"]:
    """The hosts' names and what is needed of them; no name is this machine."""
    from dataclasses import replace

    from steelyard.execute.preflight import needs_of, needs_of_any_job
    from steelyard.hardware.catalog import lookup

    if file is None:
        from steelyard.experiment.control import own_parents

        needs = needs_of_any_job(own_parents(asked.names()["user"])[0])
        found = lookup(asked.gpu) if asked.gpu else None
        return asked.hosts, replace(needs, gpu=found, gpu_name=asked.gpu, gpus_per_node=asked.gpus)
    from steelyard.cli.inputs import planned

    made = planned(file, asked)
    if not asked.hosts and len(made.plan.nodes) > 1:
        raise InputError(
            f"{file} is planned for {len(made.plan.nodes)} machines and no cluster is named",
            key="--cluster",
            expected="the cluster's hosts",
            next=f"steelyard preflight {shlex.quote(str(file))} --cluster cluster.yaml",
        )
    names = tuple(node.host for node in made.plan.nodes) if asked.hosts else ()
    return names, needs_of(made)


async def _asked(hosts: "Sequence[Host]", needs: "Needs", timeout_s: float) -> "list[HostFinding]":
    import asyncio

    from steelyard.execute.preflight import preflight as ask

    try:
        return await ask(hosts, needs, timeout_s, _Progress() if len(hosts) > MANY_HOSTS else None)
    finally:
        await asyncio.gather(*(host.close() for host in hosts))


class _Progress:
    """A line every few seconds: how many hosts have answered."""

    def __init__(self) -> None:
        self._said = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        import time

        from steelyard.cli import printing

        now = time.monotonic()
        if done == total or now - self._said >= _EVERY_S:
            self._said = now
            printing.note(f"{what} {done:,} of {total:,} hosts")


def _write_page(html: Path, file: Path | None, hosts: "Sequence[Host]", findings: "Sequence[HostFinding]") -> None:
    from steelyard.reporting import html as html_format
    from steelyard.reporting.files import write_report
    from steelyard.reporting.preflight_page import preflight_page

    where = hosts[0].name if len(hosts) == 1 else f"{len(hosts):,} hosts"
    title = f"{file.stem} on {where}" if file else f"Preflight of {where}"
    page = preflight_page(title, findings, shlex.join(["steelyard", *sys.argv[1:]]))
    write_report(html, html_format.render(page), html_format.MARK, "--html")


def show(findings: "Sequence[HostFinding]") -> None:
    """The findings for a person: what failed first, each with its fix; hosts that say the same in one line."""
    from steelyard.cli import printing
    from steelyard.execute.preflight import verdict_of
    from steelyard.verdict import Status

    hosts = list(dict.fromkeys(one.host for one in findings if one.host is not None))
    printing.say(f"verdict: {verdict_of(findings).value.upper()}  {_named(hosts)}")
    width = max((len(one.check) for one in findings), default=0)
    groups: dict[tuple[int, str, Status, bool, str, str | None], list[str | None]] = {}
    for one in findings:
        said = "" if one.status == Status.PASS else one.message
        key = (_rank(one), one.check, one.status, one.required, said, one.fix)
        groups.setdefault(key, []).append(one.host)
    for (_, check, status, required, said, fix), named in sorted(groups.items(), key=lambda item: item[0][0]):
        text = printing.inert(said) if said else _passed([one for one in findings if one.check == check])
        weight = "" if required or status != Status.UNKNOWN else " (not required)"
        where = f"{_named([host or 'this machine' for host in named])}: " if len(hosts) > 1 else ""
        printing.say(printing.hang(f"  {status.value:<7}  {check:<{width}}  ", f"{where}{text}{weight}"))
        if fix is not None and status != Status.PASS:
            printing.say(printing.hang(f"  {'':<7}  {'':<{width}}  fix: ", fix))


def _rank(one: "HostFinding") -> int:
    """Failed and required, failed, required and not known, passed, not known."""
    from steelyard.verdict import Status

    if one.status == Status.FAIL:
        return 0 if one.required else 1
    if one.status == Status.UNKNOWN:
        return 2 if one.required else 4
    return 3


def _passed(findings: "Sequence[HostFinding]") -> str:
    """What those that passed say, where it is the same; else what the first says."""
    from steelyard.cli import printing
    from steelyard.verdict import Status

    said = list(dict.fromkeys(one.message for one in findings if one.status == Status.PASS))
    return printing.inert(said[0]) if len(said) == 1 else f"{printing.inert(said[0])}; {len(said) - 1:,} more alike"


def _named(hosts: Sequence[str]) -> str:
    """Hosts in a few words."""
    if len(hosts) <= _SHOWN_HOSTS:
        return ", ".join(hosts)
    return f"{', '.join(hosts[: _SHOWN_HOSTS - 1])} and {len(hosts) - _SHOWN_HOSTS + 1:,} more"
