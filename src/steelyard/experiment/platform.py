"""Where it is trained: hardware, software stack, network, and what the framework is told beside the experiment."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator
from pydantic_core import PydanticKnownError

from steelyard.experiment.model import Group
from steelyard.experiment.problems import shown
from steelyard.hardware.catalog import CPU, known_names, lookup
from steelyard.hardware.nics import NicName
from steelyard.hardware.sizes import MAX_GPUS_PER_NODE, MAX_NODES

_NAMES = ("native", "megatron", "megatron-bridge", "megatron-deepspeed", "maxtext", "nemo", "primus", "torchtitan")
FRAMEWORKS = {name: f"steelyard.frameworks.{name.replace('-', '_')}" for name in _NAMES}
"""Every framework, and the package that holds its facts, its log and its plan."""


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


def _matches(pattern: str, expected: str, flaw: str = "does not do") -> AfterValidator:
    return AfterValidator(lambda text: _checked(text, pattern, expected, flaw))


def _are_variables(env: dict[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"{shown(name)} names no variable, expected letters, digits and '_'")
        if re.search(r"[\n\r\x00\ud800-\udfff]", value):
            raise ValueError(f"{name} is {shown(value)}, expected text of one line")
    return env


def _are_texts(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse what no file can hold: half of a character, which an escape of JSON and YAML can spell."""
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
        _checked(path, _PATH, "an absolute path without ':' and control characters", "does not do")
    return volumes


Variables = Annotated[dict[str, str], AfterValidator(_are_variables)]
AbsolutePath = Annotated[str, _matches(_PATH, "an absolute path, since hosts have homes of their own")]
Device = Annotated[str, _matches(r"/dev/[\w./-]+", "a device such as /dev/kfd")]


def _as_list(codes: Any) -> Any:
    """Codes as --set gives them: one, or several with commas."""
    return [code.strip() for code in codes.split(",")] if isinstance(codes, str) else codes


Codes = Annotated[list[Annotated[str, _matches(r"SY\d{3}", "a lint code such as SY121")]], BeforeValidator(_as_list)]


class Container(Group):
    """The image the training runs in, and what of the host it sees."""

    image: Annotated[str, _matches(r"[A-Za-z0-9][\w./:@-]*", "an image such as rocm/megatron-lm:v25.9")]
    """Name of the image, with its tag or digest."""
    engine: EngineName = "docker"
    """What runs containers on the hosts; each engine has images of its own."""
    name: Annotated[str, _matches(r"[A-Za-z0-9][\w.-]*", "letters, digits, '_', '.' and '-'")] | None = None
    """What the container is called; null for the experiment's name and the node's rank."""
    devices: list[Device] = Field(default_factory=list)
    """Device nodes of the host, beside those its GPUs need."""
    volumes: Annotated[dict[str, str], AfterValidator(_are_volumes)] = Field(default_factory=dict)
    """Paths of the host and where the container sees them."""
    env: Variables = Field(default_factory=dict)
    """Variables of the container."""
    shm_size: Annotated[str, _matches(r"\d+(\.\d+)?[bkmgBKMG]?", "a size such as 128G")] | None = None
    """Size of /dev/shm, such as 128G; null for the engine's 64M."""
    privileged: bool = False
    """Whether the container may do anything to its host; lint asks whether that is needed."""


InterfaceName = Annotated[
    str,
    _matches(
        r"[\^=]{0,2}[A-Za-z][\w.@-]*(,[A-Za-z][\w.@-]*)*",
        "a name such as ens51f1np1 (`ip link` lists them)",
        "is no interface",
    ),
]


class Network(Group):
    """How nodes reach one another."""

    nic: NicName | None = None
    """Family of the network cards, which decides libraries and variables: ainic, thor2 or cx7."""
    hcas: list[Annotated[str, _matches(r"[\^=]{0,2}[A-Za-z][\w.:-]*", "a device such as bnxt_re0")]] = Field(
        default_factory=list
    )
    """RDMA devices to use, such as bnxt_re0; none for all."""
    socket_interface: InterfaceName | None = None
    """Interface of the collective library's own sockets (NCCL_SOCKET_IFNAME)."""
    gloo_interface: InterfaceName | None = None
    """Interface of Gloo (GLOO_SOCKET_IFNAME); null for socket_interface."""
    gid_index: int | None = Field(default=None, ge=0)
    """Entry of the card's GID table (NCCL_IB_GID_INDEX); null for the family's own."""
    head: Annotated[str, _matches(r"[A-Za-z0-9_][\w.:-]*", "a host's name or address")] | None = None
    """Address the ranks meet at; null for the first host."""
    port: int | None = Field(default=None, gt=0, lt=65536)
    """Port the ranks meet at; null for the framework's own."""


class Platform(Group):
    """Where it is trained."""

    gpu: Annotated[str, AfterValidator(_is_in_the_catalog)] | None = None
    """A GPU of the catalog, or cpu; null for whatever this machine has."""
    nodes: int = Field(default=1, gt=0, le=MAX_NODES)
    """Machines of one job."""
    gpus_per_node: int | None = Field(default=None, gt=0, le=MAX_GPUS_PER_NODE)
    """GPUs, or ranks on cpu, of one machine; null for as many as this machine has."""
    framework: FrameworkName = "native"
    """What trains: native is the built-in PyTorch trainer."""
    script: Annotated[str, _matches(r"[\w./][\w./-]*", "a script such as train_llama3.sh")] | None = None
    """A launch script of the image, driven by variables, such as train_llama3.sh; null for the framework itself."""
    root: AbsolutePath | None = None
    """Where the framework lies in the image; null for where its own images have it."""
    container: Container | None = None
    """The image it runs in; null to run on the host itself."""
    network: Network = Network()
    env: Variables = Field(default_factory=dict)
    """Variables of the training program."""
    options: Annotated[dict[str, Any], AfterValidator(_are_texts)] = Field(default_factory=dict)
    """Settings of the framework under its own names, passed on as they stand."""
    hf_token_file: AbsolutePath | None = None
    """File of the hosts that holds the Hugging Face token; its content never enters a plan."""
    secrets: Annotated[dict[str, AbsolutePath], AfterValidator(_are_variables)] = Field(default_factory=dict)
    """Other secrets by name, each a file of the hosts; the program finds a copy's path in NAME_FILE."""
    cache_dir: AbsolutePath | None = None
    """Directory of the hosts for datasets and caches."""
    log_dir: AbsolutePath | None = None
    """Directory of the hosts for a run's control files, writable by the login and root only and in no volume of the
    container; null, and otherwise, for /root/.local/state/steelyard or, where the login is not root,
    /var/tmp/steelyard-LOGIN."""
    allow: Codes = Field(default_factory=list)
    """Lint codes that do not stop a plan, such as SY121 for a mount this job needs; the plan lists what was allowed."""
    overrides: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Groups and keys that differ on this platform."""
