"""Starts plans, here or on hosts, as the options of `steelyard run` say."""

import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard import execute
from steelyard.cli import printing
from steelyard.cli.hosts import hosts_of
from steelyard.cli.progress import view
from steelyard.errors import InputError
from steelyard.execute.host import Host, HostError
from steelyard.execute.limits import Limits
from steelyard.execute.preflight import HostFinding, needs_of, parse_required, preflight, weighed
from steelyard.hardware.machine import Machine
from steelyard.planning.plan import Planned
from steelyard.records import RunManifest, RunWriter

Look = Callable[[Sequence[Host]], Awaitable[list[HostFinding]]]


@dataclass(frozen=True, slots=True)
class Launch:
    """How plans are run, whichever they are."""

    cluster: Path | None
    accept_new_host_keys: bool
    limits: Limits
    image: execute.ImageSource
    required: str | None
    """What blocks a run if preflight finds it wanting, as it was typed."""
    preflight: bool

    def check(self, made: Planned, machine: Machine) -> None:
        """Refuse what cannot be run so, before anything is made."""
        if is_hosted(made):
            _check_cluster(made, self.cluster)
            self.look(made)  # a check that there is none of is said now
        else:
            _check_here(made, self.cluster)
            execute.check_machine(made.plan, made.case.placement, machine)

    def reach(self, names: Sequence[str]) -> list[Host]:
        return hosts_of(names, self.cluster, self.accept_new_host_keys)

    def look(self, made: Planned) -> Look | None:
        """Asks hosts whether they are fit for a plan, weighed as it was asked; None where nobody is to be asked."""
        if not self.preflight or not is_hosted(made):
            return None
        needs, weights = needs_of(made), parse_required(self.required)
        if self.image.file is not None or self.image.pull:
            needs = replace(needs, image=None)  # it is brought where it is missing, and held to be one everywhere then

        async def look(hosts: Sequence[Host]) -> list[HostFinding]:
            return weighed(await preflight(hosts, needs), weights)

        return look

    def begin(self, made: Planned, out: Path, name: str | None) -> RunWriter:
        """Make the run directory."""
        job = execute.new_job_id(made.plan) if is_hosted(made) else None
        return execute.new_run(made.plan, made.case, out, name, ["steelyard", *sys.argv[1:]], job)

    def execute(self, made: Planned, writer: RunWriter) -> RunManifest:
        """Run a plan to its end, with progress; InfrastructureError where that was not the training program's own."""
        plan, case, look = made.plan, made.case, self.look(made)
        with view(case.resolved.experiment.training.steps, plan.expected.peak_tflops_per_gpu) as observe:
            if not is_hosted(made):
                return execute.execute(plan, case, writer, observe, self.limits)
            hosts = self.reach([node.host for node in plan.nodes])
            options = execute.Options(self.limits, self.image, _refusing(look) if look else None)
            return execute.execute_on_hosts(plan, case, writer, observe, hosts, options)


def is_hosted(made: Planned) -> bool:
    """Whether it runs on hosts, be it this one in a container, and not as a child of ours."""
    return made.plan.nodes[0].directory is not None


def _check_cluster(made: Planned, cluster: Path | None) -> None:
    if cluster is None and len(made.plan.nodes) > 1:
        file = made.case.resolved.file
        raise InputError(
            f"{file} is planned for {len(made.plan.nodes)} machines and no cluster is named",
            key="--cluster",
            expected="the cluster's hosts",
            next=f"steelyard run {shlex.quote(str(file))} --cluster cluster.yaml",
        )


def _check_here(made: Planned, cluster: Path | None) -> None:
    if cluster is not None:
        raise InputError(
            f"{made.plan.framework} without a container runs where Steelyard does",
            key="--cluster",
            value=str(cluster),
            expected="a platform with a container",
            next="give the platform `container: {image: …}` with steelyard[train] in it",
        )


def _refusing(look: Look) -> Callable[[Sequence[Host]], Awaitable[None]]:
    """Look at the hosts once they are ours; whatever blocks is said, and the first of it ends the run."""

    async def refuse(hosts: Sequence[Host]) -> None:
        found = [one for one in await look(hosts) if one.blocks]
        for one in found[1:]:
            printing.note(f"preflight: {one.host or 'the hosts'}: {one.message}")
        if found:
            first = found[0]
            raise HostError(first.host or "the hosts", first.message, key=first.check, next=first.fix)

    return refuse
