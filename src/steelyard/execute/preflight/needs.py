"""What a plan needs from its hosts; without a plan, what every job needs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.frameworks.registry import facts
from steelyard.hardware.catalog import CPU, Gpu
from steelyard.hardware.nics import NICS
from steelyard.planning.container import DOCKER, ENGINES, mounts_of

if TYPE_CHECKING:
    from steelyard.planning.make import Planned
    from steelyard.planning.plan import NodePlan

FILES_GIB = 1.0
"""Space for a run's own files and logs."""
CACHE_GIB = 10.0
"""Space for a tokenizer, a dataset's index and compiled kernels."""
SHM_GIB = 8.0
"""Shared memory for collectives and data loaders of one node."""
RDMA_NOFILE = 65_536
"""RCCL opens one file per connection and GPU, and hangs at the limit."""
NOFILE = 1_024
RDMA_MEMLOCK_GIB = 32.0
"""RDMA pins its buffers; below the limit it fails in the first collective."""

_PORT_OPTION = "--master-port="


@dataclass(frozen=True, slots=True)
class Space:
    """A directory on the hosts and the free space it needs."""

    path: str
    least_gib: float


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret of the job, and the file on the hosts that contains it."""

    name: str
    file: str


@dataclass(frozen=True, slots=True)
class Needs:
    """What every host must have. None or empty: not needed, and not checked."""

    gpu: Gpu | None = None
    """The GPU type of the config, if the catalog has it."""
    gpu_name: str | None = None
    """Its name in the config; `cpu` for no GPU; None if the config names none."""
    gpus_per_node: int | None = None
    image: str | None = None
    engine: str = DOCKER.name
    ports: tuple[int, ...] = ()
    """Must be free on each of `heads`."""
    heads: tuple[str, ...] = ()
    spaces: tuple[Space, ...] = ()
    shm_gib: float | None = None
    data_path: str | None = None
    secrets: tuple[Secret, ...] = ()
    volumes: tuple[str, ...] = ()
    """Paths of the hosts that the container can see."""
    hcas: tuple[str, ...] = ()
    nic: str | None = None
    gid_index: int | None = None
    interfaces: tuple[str, ...] = ()
    multi_node: bool = False
    """Whether one job spans the hosts."""
    nofile: int = NOFILE
    memlock_gib: float | None = None
    collectives: bool = False
    """Whether to measure the bandwidth of collectives, which uses the GPUs for a while."""

    @property
    def wants_gpus(self) -> bool:
        return self.gpu_name != CPU

    @property
    def over_rdma(self) -> bool:
        """Whether several hosts communicate over RDMA."""
        return self.multi_node and bool(self.nic or self.hcas)


def needs_of_any_job(directory: str) -> Needs:
    """What can be checked without a config."""
    return Needs(spaces=(Space(directory, FILES_GIB),), shm_gib=SHM_GIB)


def needs_of(planned: "Planned") -> Needs:
    """What a plan needs."""
    plan, case = planned.plan, planned.case
    platform, placement, network = case.resolved.platform, case.placement, case.resolved.platform.network
    first, across = plan.nodes[0], placement.nodes > 1
    is_guessed = platform.gpu is None and bool(case.hosts)  # detected on this machine, which is not one of the hosts
    over_rdma = across and bool(network.nic or network.hcas)
    nic = NICS[network.nic] if network.nic else None
    family_gid = nic.env.get("NCCL_IB_GID_INDEX") if nic else None
    gid = first.env.get("NCCL_IB_GID_INDEX", family_gid)
    limited = over_rdma and first.container is None  # a container gets its own limits
    # With shm_size in the config, a container also gets its own /dev/shm.
    own_shm = platform.container is not None and platform.container.shm_size is not None
    return Needs(
        gpu=None if is_guessed else placement.gpu,
        gpu_name=None if is_guessed else placement.gpu_name,
        gpus_per_node=platform.gpus_per_node if is_guessed else placement.gpus_per_node,
        image=first.container.image if first.container else None,
        engine=first.container.engine if first.container else DOCKER.name,
        ports=_ports(first, facts(platform.framework).port_variables),
        heads=tuple(node.host for node in (plan.nodes if plan.fleet else plan.nodes[:1])),
        spaces=_spaces(planned),
        shm_gib=None if own_shm or (placement.device == "cpu" and not is_guessed) else SHM_GIB,
        data_path=_data_path(planned),
        secrets=tuple(Secret(name, file) for name, file in first.secrets.items()),
        volumes=_volumes(first, platform.cache_dir),
        hcas=tuple(network.hcas) if across else (),
        nic=network.nic if across else None,
        gid_index=int(gid) if across and gid is not None and gid.isdecimal() else None,
        interfaces=_interfaces((network.socket_interface, network.gloo_interface)) if across else (),
        multi_node=across,
        nofile=RDMA_NOFILE if limited else NOFILE,
        memlock_gib=RDMA_MEMLOCK_GIB if limited else None,
    )


def _ports(head: "NodePlan", variables: Sequence[str]) -> tuple[int, ...]:
    """The rendezvous ports, from the command of the first node."""
    ports = [head.env[name] for name in variables if name in head.env]
    ports += [word.removeprefix(_PORT_OPTION) for word in head.argv if word.startswith(_PORT_OPTION)]
    return tuple(dict.fromkeys(int(port) for port in ports if port.isdecimal()))


def _volumes(node: "NodePlan", cache: str | None) -> tuple[str, ...]:
    """The sources of its volumes, without those that the run or the engine creates."""
    if node.container is None or node.directory is None:
        return ()
    made = ENGINES[node.container.engine].makes_volumes
    mounts = mounts_of(node.container.argv, node.directory)
    return tuple(path for path in mounts if not (made and path == cache))


def _spaces(planned: "Planned") -> tuple[Space, ...]:
    directory, cache = planned.plan.nodes[0].directory, planned.case.resolved.platform.cache_dir
    files = str(Path(directory).parent) if directory else str(Path.cwd())  # run directories are created here
    return (Space(files, FILES_GIB), *((Space(cache, CACHE_GIB),) if cache else ()))


def _data_path(planned: "Planned") -> str | None:
    """Path of the data on the hosts; for a list or a brace pattern, the directory above."""
    resolved = planned.case.resolved
    data, container = resolved.experiment.data, resolved.platform.container
    if data.source != "tokens" or not data.path:
        return None
    path = data.path
    if re.search(r"[{,]", path):
        path = re.split(r"[*?\[{,]", path)[0].rpartition("/")[0]
    if not path.startswith("/"):
        beside_the_file = facts(resolved.platform.framework).runs_here and not planned.case.hosts
        return str((resolved.file.parent / path).resolve()) if beside_the_file else path
    for host, inside in (container.volumes if container else {}).items():
        if path == inside or path.startswith(f"{inside.rstrip('/')}/"):
            return host.rstrip("/") + path[len(inside.rstrip("/")) :]
    return path


def _interfaces(names: Sequence[str | None]) -> tuple[str, ...]:
    """Names of interfaces; an exclusion (`^lo`) names none."""
    words = [word for name in names if name and not name.startswith("^") for word in name.lstrip("=").split(",")]
    return tuple(dict.fromkeys(words))
