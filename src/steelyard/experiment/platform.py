"""Where it is trained: hardware, software stack, network, and what the framework is told beside the experiment."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from steelyard.experiment.group import Group
from steelyard.experiment.problems import shown
from steelyard.hardware.catalog import CPU, known_names, lookup
from steelyard.hardware.nics import NicName

FrameworkName = Literal[
    "native", "megatron", "megatron-bridge", "megatron-deepspeed", "maxtext", "nemo", "primus", "torchtitan"
]


def _is_in_the_catalog(name: str) -> str:
    if name != CPU and lookup(name) is None:
        raise ValueError(f"{name!r} is not in the catalog of GPUs, expected one of {', '.join((CPU, *known_names()))}")
    return name


class Container(Group):
    """The image the training runs in, and what of the host it sees."""

    image: str = Field(min_length=1)
    """Name of the image, with its tag or digest."""
    name: str | None = None
    """What the container is called; null for the experiment's name and the node's rank."""
    devices: list[str] = Field(default_factory=list)
    """Device nodes of the host, beside those its GPUs need."""
    volumes: dict[str, str] = Field(default_factory=dict)
    """Paths of the host and where the container sees them."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables of the container."""
    shm_size: str | None = None
    """Size of /dev/shm, such as 128G; null for the engine's 64M."""
    privileged: bool = False
    """Whether the container may do anything to its host; lint asks whether that is needed."""


def _is_an_interface(name: str) -> str:
    if not re.fullmatch(r"[\^=]{0,2}[A-Za-z][\w.@-]*(,[A-Za-z][\w.@-]*)*", name):
        raise ValueError(f"{shown(name)} is no interface, expected a name such as ens51f1np1 (`ip link` lists them)")
    return name


InterfaceName = Annotated[str, AfterValidator(_is_an_interface)]


class Network(Group):
    """How nodes reach one another."""

    nic: NicName | None = None
    """Family of the network cards, which decides libraries and variables: ainic, thor2 or cx7."""
    hcas: list[str] = Field(default_factory=list)
    """RDMA devices to use, such as bnxt_re0; none for all."""
    socket_interface: InterfaceName | None = None
    """Interface of the collective library's own sockets (NCCL_SOCKET_IFNAME)."""
    gloo_interface: InterfaceName | None = None
    """Interface of Gloo (GLOO_SOCKET_IFNAME); null for socket_interface."""
    gid_index: int | None = Field(default=None, ge=0)
    """Entry of the card's GID table (NCCL_IB_GID_INDEX); null for the family's own."""
    head: str | None = None
    """Address the ranks meet at; null for the first host."""
    port: int | None = Field(default=None, gt=0, lt=65536)
    """Port the ranks meet at; null for the framework's own."""


class Platform(Group):
    """Where it is trained."""

    gpu: Annotated[str, AfterValidator(_is_in_the_catalog)] | None = None
    """A GPU of the catalog, or cpu; null for whatever this machine has."""
    nodes: int = Field(default=1, gt=0)
    """Machines of one job."""
    gpus_per_node: int | None = Field(default=None, gt=0)
    """GPUs, or ranks on cpu, of one machine; null for as many as this machine has."""
    framework: FrameworkName = "native"
    """What trains: native is the built-in PyTorch trainer."""
    script: str | None = None
    """A launch script of the image, driven by variables, such as train_llama3.sh; null for the framework itself."""
    root: str | None = None
    """Where the framework lies in the image; null for where its own images have it."""
    container: Container | None = None
    """The image it runs in; null to run on the host itself."""
    network: Network = Network()
    env: dict[str, str] = Field(default_factory=dict)
    """Variables of the training program."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Settings of the framework under its own names, passed on as they stand."""
    hf_token_file: str | None = None
    """File of the hosts that holds the Hugging Face token; its content never enters a plan."""
    cache_dir: str | None = None
    """Directory of the hosts for datasets and caches."""
    log_dir: str | None = None
    """Directory of the hosts under which a run's files lie; null for /tmp/steelyard."""
    overrides: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Groups and keys that differ on this platform."""
