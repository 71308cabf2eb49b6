"""Where it is trained: hardware, software, network, and settings of the framework outside the experiment."""

import ipaddress
import re
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator
from pydantic_core import PydanticKnownError

from steelyard.experiment.model import Group
from steelyard.experiment.problems import shown
from steelyard.hardware.catalog import CPU, known_names, lookup
from steelyard.hardware.nics import NicName
from steelyard.hardware.sizes import MAX_GPUS_PER_NODE, MAX_NODES

_NAMES = (
    *("native", "megatron", "megatron-bridge", "megatron-deepspeed", "maxtext", "nemo", "primus", "torchtitan"),
    *("gpt-neox", "hf-trainer", "mlperf"),
)
FRAMEWORKS = {name: f"steelyard.frameworks.{name.replace('-', '_')}" for name in _NAMES}
"""Every framework, with the package of its facts, log reader and planner."""


def _is_a_framework(name: Any) -> str:
    if not isinstance(name, str) or name not in FRAMEWORKS:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, FRAMEWORKS))})
    return name


FrameworkName = Annotated[str, PlainValidator(_is_a_framework)]
EngineName = Literal["docker", "podman"]

_PATH = r"/[^:\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]*"


def _is_in_the_catalog(name: str) -> str:
    if name != CPU and lookup(name) is None:
        raise ValueError(f"{name!r} is not in the catalog of GPUs, expected one of {', '.join((CPU, *known_names()))}")
    return name


def _checked(text: str, pattern: str, expected: str, flaw: str) -> str:
    if not re.fullmatch(pattern, text, re.ASCII):
        raise ValueError(f"{shown(text)} {flaw}, expected {expected}")
    return text


def _matches(pattern: str, expected: str, flaw: str = "is not allowed") -> AfterValidator:
    return AfterValidator(lambda text: _checked(text, pattern, expected, flaw))


_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")


def names_a_host(name: str) -> bool:
    """Whether it is a name, or an address without a scope."""
    if not re.fullmatch(r"[0-9.-]+", name) and ":" not in name:
        return bool(_HOST.fullmatch(name)) and ".." not in name
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return "%" not in name


def _is_a_host(name: str) -> str:
    if not names_a_host(name):
        raise ValueError(f"{shown(name)} is not allowed, expected a host's name or address")
    return name


def _are_variables(env: dict[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"{shown(name)} is not the name of a variable, expected letters, digits and '_'")
        if re.search(r"[\n\r\x00\ud800-\udfff]", value):
            raise ValueError(f"{name} is {shown(value)}, expected one line of text")
    return env


def _are_texts(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse text that a file cannot contain: half of a character, from an escape in JSON or YAML."""
    for text in _texts_of(options):
        if re.search(r"[\ud800-\udfff]", text):
            raise ValueError(f"{shown(text)} is not valid text, expected whole characters")
    return options


def _texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _texts_of(inner)
    elif isinstance(value, list | tuple | set):
        for inner in value:
            yield from _texts_of(inner)


def _are_volumes(volumes: dict[str, str]) -> dict[str, str]:
    for path in chain.from_iterable(volumes.items()):
        _checked(path, _PATH, "an absolute path without ':' and control characters", "is not allowed")
    return volumes


Variables = Annotated[dict[str, str], AfterValidator(_are_variables)]
AbsolutePath = Annotated[str, _matches(_PATH, "an absolute path")]
Device = Annotated[str, _matches(r"/dev/[\w./-]+", "a device such as /dev/kfd")]


Codes = list[Annotated[str, _matches(r"SY\d{3}", "a lint code such as SY121")]]


class Container(Group):
    """The container: its image, and what it can access on the host."""

    image: Annotated[str, _matches(r"[A-Za-z0-9][\w./:@-]*", "an image such as rocm/megatron-lm:v25.9")]
    """Name of the image with its tag or digest."""
    engine: EngineName = "docker"
    """The container engine on the hosts; each engine has its own images."""
    name: Annotated[str, _matches(r"[A-Za-z0-9][\w.-]*", "letters, digits, '_', '.' and '-'")] | None = None
    """Name of the container; null for experiment name and rank."""
    devices: list[Device] = Field(default_factory=list)
    """Host devices, in addition to those of the GPUs."""
    volumes: Annotated[dict[str, str], AfterValidator(_are_volumes)] = Field(default_factory=dict)
    """Host paths and their paths in the container."""
    env: Variables = Field(default_factory=dict)
    """Environment variables of the container."""
    shm_size: Annotated[str, _matches(r"\d+(\.\d+)?[bkmgBKMG]?", "a size such as 128G")] | None = None
    """Size of /dev/shm, such as 128G; null for the default of the engine, 64M."""
    privileged: bool = False
    """Whether the container is privileged, which gives it full access to the host; lint warns."""


InterfaceName = Annotated[
    str,
    _matches(
        r"[\^=]{0,2}[A-Za-z][\w.@-]*(,[A-Za-z][\w.@-]*)*",
        "a name such as ens51f1np1 (`ip link` lists them)",
        "is not an interface",
    ),
]


class Network(Group):
    """The network between the nodes."""

    nic: NicName | None = None
    """Family of the network cards: ainic, thor2 or cx7. It decides libraries and variables."""
    hcas: list[Annotated[str, _matches(r"[\^=]{0,2}[A-Za-z][\w.:-]*", "a device such as bnxt_re0")]] = Field(
        default_factory=list
    )
    """RDMA devices to use, such as bnxt_re0; empty for all."""
    socket_interface: InterfaceName | None = None
    """Network interface for NCCL/RCCL sockets (NCCL_SOCKET_IFNAME)."""
    gloo_interface: InterfaceName | None = None
    """Network interface for Gloo (GLOO_SOCKET_IFNAME); null for socket_interface."""
    gid_index: int | None = Field(default=None, ge=0)
    """Index in the GID table of the card (NCCL_IB_GID_INDEX); null for the default of the family."""
    head: Annotated[str, AfterValidator(_is_a_host)] | None = None
    """Address where ranks meet; null for the first host."""
    port: int | None = Field(default=None, gt=0, lt=65536)
    """Port where ranks meet; null for the default of the framework."""


class Platform(Group):
    """Where it is trained."""

    gpu: Annotated[str, AfterValidator(_is_in_the_catalog)] | None = None
    """A GPU of the catalog, or cpu; null for the GPUs of this machine, or its CPU."""
    nodes: int = Field(default=1, gt=0, le=MAX_NODES)
    """Number of nodes of one job."""
    gpus_per_node: int | None = Field(default=None, gt=0, le=MAX_GPUS_PER_NODE)
    """GPUs per node, or ranks on cpu; null for all of this machine."""
    framework: FrameworkName = "native"
    """The training framework; native is the built-in PyTorch trainer."""
    script: Annotated[str, _matches(r"[\w./][\w./-]*", "a script such as train_llama3.sh")] | None = None
    """A launch script in the image, such as train_llama3.sh, which variables configure; null to start the framework."""
    root: AbsolutePath | None = None
    """Directory of the framework in the image, or on the host; null for the default of its images."""
    container: Container | None = None
    """The container; null to run on the host itself."""
    network: Network = Network()
    env: Variables = Field(default_factory=dict)
    """Environment variables of the training program."""
    options: Annotated[dict[str, Any], AfterValidator(_are_texts)] = Field(default_factory=dict)
    """Settings of the framework under its own names, passed on unchanged."""
    hf_token_file: AbsolutePath | None = None
    """File on the hosts with the Hugging Face token; its content never enters a plan."""
    secrets: Annotated[dict[str, AbsolutePath], AfterValidator(_are_variables)] = Field(default_factory=dict)
    """Other secrets by name, with their files on the hosts; NAME_FILE has the path of a copy."""
    cache_dir: AbsolutePath | None = None
    """Directory on the hosts for datasets and caches."""
    log_dir: AbsolutePath | None = None
    """Directory on the hosts for the control files of a run. Only the login and root may write to it, and it must be
    outside all volumes of the container. Otherwise, and for null: /var/tmp/steelyard-LOGIN, or
    /root/.local/state/steelyard for root."""
    allow: Codes = Field(default_factory=list)
    """Lint codes that do not stop a plan, such as SY121 for a mount that the job needs, as `--allow` on the command
    line. Plan and run record them."""
    overrides: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Values of the experiment that differ on this platform, by group and key."""
