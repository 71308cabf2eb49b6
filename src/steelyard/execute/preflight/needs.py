"""What a plan needs of its hosts; without a plan, what any job does."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.hardware.catalog import CPU, Gpu
from steelyard.hardware.nics import NICS
from steelyard.planning.container import DOCKER, ENGINES, mounts_of

if TYPE_CHECKING:
    from steelyard.planning.make import Planned
    from steelyard.planning.plan import NodePlan

FILES_GIB = 1.0
"""What a run's own files and logs may come to."""
CACHE_GIB = 10.0
"""What a tokenizer, a dataset's index and compiled kernels may come to."""
SHM_GIB = 8.0
"""What collectives and data loaders of one node share."""
RDMA_NOFILE = 65_536
"""RCCL opens a file a connection and a GPU, and hangs where it may not."""
NOFILE = 1_024
RDMA_MEMLOCK_GIB = 32.0
"""Buffers are pinned to be sent; what cannot be is an error amid the first collective."""

_PORT_VARIABLES = ("MASTER_PORT", "JAX_COORDINATOR_PORT")
_PORT_OPTION = "--master-port="


@dataclass(frozen=True, slots=True)
class Space:
    """A directory of the hosts and what must be free there."""

    path: str
    least_gib: float


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret the job is given, and the file of the hosts it is read from."""

    name: str
    file: str


@dataclass(frozen=True, slots=True)
class Needs:
    """What is asked of every host. None, or nothing, is no need: what hangs on it is left out."""

    gpu: Gpu | None = None
    """The kind that is named, where the catalog has it."""
    gpu_name: str | None = None
    """What the config calls it; cpu for none; None where no kind is named."""
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
    """Paths of the hosts that the container sees."""
    hcas: tuple[str, ...] = ()
    nic: str | None = None
    gid_index: int | None = None
    interfaces: tuple[str, ...] = ()
    multi_node: bool = False
    """Whether one job spans the hosts."""
    nofile: int = NOFILE
    memlock_gib: float | None = None
    collectives: bool = False
    """Whether the bandwidth of collectives is measured, which takes the GPUs for a while."""

    @property
    def wants_gpus(self) -> bool:
        return self.gpu_name != CPU

    @property
    def over_rdma(self) -> bool:
        """Whether ranks of several machines meet over network cards that do RDMA."""
        return self.multi_node and bool(self.nic or self.hcas)


def needs_of_any_job(directory: str) -> Needs:
    """What needs no config to be asked."""
    return Needs(spaces=(Space(directory, FILES_GIB),), shm_gib=SHM_GIB)


def needs_of(planned: "Planned") -> Needs:
    """What a plan needs."""
    plan, case = planned.plan, planned.case
    platform, placement, network = case.resolved.platform, case.placement, case.resolved.platform.network
    first, across = plan.nodes[0], placement.nodes > 1
    is_guessed = platform.gpu is None and bool(case.hosts)  # from this machine, which is none of the hosts
    over_rdma = across and bool(network.nic or network.hcas)
    nic = NICS[network.nic] if network.nic else None
    family_gid = nic.env.get("NCCL_IB_GID_INDEX") if nic else None
    gid = first.env.get("NCCL_IB_GID_INDEX", family_gid)
    limited = over_rdma and first.container is None  # a container is given limits of its own
    # So it is with shared memory where the config says how much: the host's /dev/shm is not the one it sees.
    own_shm = platform.container is not None and platform.container.shm_size is not None
    return Needs(
        gpu=None if is_guessed else placement.gpu,
        gpu_name=None if is_guessed else placement.gpu_name,
        gpus_per_node=platform.gpus_per_node if is_guessed else placement.gpus_per_node,
        image=first.container.image if first.container else None,
        engine=first.container.engine if first.container else DOCKER.name,
        ports=_ports(first),
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


def _ports(head: "NodePlan") -> tuple[int, ...]:
    """Where the ranks meet, as the head's own command has it."""
    ports = [head.env[name] for name in _PORT_VARIABLES if name in head.env]
    ports += [word.removeprefix(_PORT_OPTION) for word in head.argv if word.startswith(_PORT_OPTION)]
    return tuple(dict.fromkeys(int(port) for port in ports if port.isdecimal()))


def _volumes(node: "NodePlan", cache: str | None) -> tuple[str, ...]:
    """The sources of its volumes, but for what the run makes itself, and the cache where the engine makes it."""
    if node.container is None or node.directory is None:
        return ()
    made = ENGINES[node.container.engine].makes_volumes
    mounts = mounts_of(node.container.argv, node.directory)
    return tuple(path for path in mounts if not (made and path == cache))


def _spaces(planned: "Planned") -> tuple[Space, ...]:
    directory, cache = planned.plan.nodes[0].directory, planned.case.resolved.platform.cache_dir
    files = str(Path(directory).parent) if directory else str(Path.cwd())  # the run directory is made where we are
    return (Space(files, FILES_GIB), *((Space(cache, CACHE_GIB),) if cache else ()))


def _data_path(planned: "Planned") -> str | None:
    """Where the hosts have the data: of a list or a brace pattern, the directory above it."""
    resolved = planned.case.resolved
    data, container = resolved.experiment.data, resolved.platform.container
    if data.source != "tokens" or not data.path:
        return None
    path = data.path
    if re.search(r"[{,]", path):
        path = re.split(r"[*?\[{,]", path)[0].rpartition("/")[0]
    if not path.startswith("/"):
        return path if planned.case.hosts else str((resolved.file.parent / path).resolve())
    for host, inside in (container.volumes if container else {}).items():
        if path == inside or path.startswith(f"{inside.rstrip('/')}/"):
            return host.rstrip("/") + path[len(inside.rstrip("/")) :]
    return path


def _interfaces(names: Sequence[str | None]) -> tuple[str, ...]:
    """Interfaces by name; what is only excluded (`^lo`) names none."""
    words = [word for name in names if name and not name.startswith("^") for word in name.lstrip("=").split(",")]
    return tuple(dict.fromkeys(words))
