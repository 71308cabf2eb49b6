"""The facts that one host reported, read from the output of the probe."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard.execute.preflight.probe import Section, Sections, count
from steelyard.execute.preflight.smi import SeenGpus, amd_smi, nvidia_smi, rocm_smi

KIB_PER_GIB = 2**20
GPU_TOOLS = {
    "nvidia": (("nvidia-smi", "nvidia_gpus", nvidia_smi.read),),
    "amd": (("amd-smi", "amd_list", amd_smi.read), ("rocm-smi", "rocm_gpus", rocm_smi.read)),
}
"""By vendor, the better first: a tool, the section with its list of GPUs, and the function that reads it."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The host's clock compared with ours, at the middle of the round trip."""

    ahead_s: float
    uncertainty_s: float
    """Half the round trip plus the resolution of the host's clock."""


@dataclass(frozen=True, slots=True)
class Room:
    """Free space in a directory that exists or would be created."""

    free_gib: float
    writable: bool


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry of a port's GID table."""

    index: int
    kind: str
    """`RoCE v2`, `IB/RoCE v1`, or empty."""
    is_ipv4: bool


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port of an RDMA network card."""

    device: str
    state: str
    """ACTIVE, DOWN, INIT, ARMED."""
    link_layer: str
    rate: str
    gids: tuple[Gid, ...] = ()


@dataclass(frozen=True, slots=True)
class SeenImage:
    """The image as the container engine reports it."""

    engine: Section
    """Whether the engine answers, or why not."""
    id: str | None
    """None if the engine answers and does not have the image."""
    digests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeenSecret:
    """The file of a secret, never its content."""

    state: str
    """present, missing, empty, unreadable or `not a file`."""
    mode: str | None


@dataclass(frozen=True, slots=True)
class SeenData:
    """The files at the path of the data."""

    total: int
    """Number of all files; only the first ones are read."""
    files: tuple[str, ...] = ()
    """Per file: size, SHA-256 of its first and last MiB, name."""
    size: int = 0
    """Total size of these files."""
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts about a host. None: the host gave no answer."""

    clock: ClockReading | None = None
    gpus: Mapping[str, SeenGpus] = field(default_factory=dict)
    """By vendor, if one of its tools answered."""
    gpu_tools: Mapping[str, str] = field(default_factory=dict)
    """By vendor, why none of its tools answered."""
    gpu_vendors: frozenset[str] | None = None
    """Vendors whose device nodes exist."""
    module_versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of the kernel modules and of ROCm, by file."""
    rooms: tuple[Room | None, ...] = ()
    """In the order of the directories that need space."""
    listening: frozenset[int] | None = None
    rdma: tuple[RdmaPort, ...] | None = None
    links: Mapping[str, str] | None = None
    """Network interfaces and whether each is up."""
    memlock_kib: float | None = None
    """Infinite if unlimited."""
    nofile: float | None = None
    kernel_log: tuple[str, ...] | None = None
    """Lines that may be errors, in their order."""
    kernel_log_reason: str = ""
    secrets: tuple[SeenSecret | None, ...] = ()
    """In the order of the needs."""
    volumes: tuple[bool | None, ...] = ()
    """Whether each exists, in the order of the needs."""
    data: SeenData | None = None
    data_reason: str = ""
    image: SeenImage | None = None
    collectives: Section | None = None
    """Output of the bandwidth test; None if it did not run."""


HostFacts = Mapping[str, Facts]
"""By host."""


def read_facts(sections: Sections, rooms: int = 0, secrets: int = 0, volumes: int = 0) -> Facts:
    """Read the sections of one host; clock and collectives are queried separately."""
    gpus, gpu_tools = _gpus(sections)
    limits = dict(line.partition(" ")[::2] for line in sections["limits"].lines)
    log, data = sections["kernel_log"], sections["data"]
    return Facts(
        gpus=gpus,
        gpu_tools=gpu_tools,
        gpu_vendors=vendors_of(sections["gpu_nodes"]),
        module_versions=dict(line.partition(" ")[::2] for line in sections["versions"].lines),
        rooms=tuple(_room(sections[f"room_{at}"]) for at in range(rooms)),
        listening=_listening(sections["ports"]),
        rdma=_rdma(sections["rdma"]),
        links=_links(sections["links"]),
        memlock_kib=_limit(limits.get("memlock")),
        nofile=_limit(limits.get("nofile")),
        kernel_log=log.lines if log.answered else None,
        kernel_log_reason=log.reason,
        secrets=tuple(_secret(sections[f"secret_{at}"]) for at in range(secrets)),
        volumes=tuple(_is_present(sections[f"volume_{at}"]) for at in range(volumes)),
        data=_data(data),
        data_reason=data.reason,
        image=_image(sections) if "image" in sections else None,
    )


def _gpus(sections: Sections) -> tuple[dict[str, SeenGpus], dict[str, str]]:
    """GPUs by vendor, and for the other vendors why no tool answered."""
    seen, reasons = {}, {}
    for vendor, tools in GPU_TOOLS.items():
        gpus = next((gpus for _, _, read in tools if (gpus := read(sections)) is not None), None)
        if gpus is not None:
            seen[vendor] = gpus
            continue
        tried = [(tool, sections[name]) for tool, name, _ in tools]
        reasons[vendor] = "; ".join(
            f"{tool}: {'unreadable output' if section.answered else section.reason}" for tool, section in tried
        )
    return seen, reasons


def vendors_of(nodes: Section) -> frozenset[str] | None:
    """Vendors whose device nodes exist; None if they cannot be listed."""
    if not nodes.answered:
        return None
    return frozenset("amd" if line == "/dev/kfd" else "nvidia" for line in nodes.lines if line.startswith("/dev/"))


def _room(section: Section) -> Room | None:
    """`writable` or `closed`, then `df -Pk`: blocks, used, available."""
    words = section.lines[-1].split() if section.lines else []
    shares = [at for at, word in enumerate(words) if word.endswith("%") and word[:-1].isdecimal()]
    free = words[shares[-1] - 1] if shares else ""
    kib = count(free.removeprefix("-"))
    if not section.answered or kib is None:
        return None
    return Room((-kib if free.startswith("-") else kib) / KIB_PER_GIB, section.lines[0] == "writable")


def _listening(section: Section) -> frozenset[int] | None:
    """Addresses in the form of /proc/net/tcp, such as `00000000:1770`."""
    if not section.answered:
        return None
    try:
        return frozenset(int(line.rpartition(":")[2], 16) for line in section.lines if line.strip())
    except ValueError:
        return None


def _rdma(section: Section) -> tuple[RdmaPort, ...] | None:
    if not section.answered:
        return None
    ports: dict[str, list[str]] = {}
    gids: dict[str, list[Gid]] = {}
    for line in section.lines:
        kind, _, rest = line.partition(" ")
        path, *words = rest.split("|")
        if kind == "port" and len(words) == 3:
            ports[path] = words
        elif kind == "gid" and len(words) == 3 and (index := count(words[0])) is not None:
            mapped = words[2].lower().startswith("0000:0000:0000:0000:0000:ffff:")
            gids.setdefault(path, []).append(Gid(index, words[1], mapped))
    return tuple(
        RdmaPort(path.partition("/")[0], state.rpartition(": ")[2], link_layer, rate, tuple(gids.get(path, ())))
        for path, (state, link_layer, rate) in ports.items()
    )


def _links(section: Section) -> dict[str, str] | None:
    if not section.answered:
        return None
    return dict(line.split("|", 1) for line in section.lines if "|" in line)


def _limit(text: str | None) -> float | None:
    return float("inf") if text == "unlimited" else count(text)


def _secret(section: Section) -> SeenSecret | None:
    if not section.answered or not section.lines:
        return None
    mode = next((line.removeprefix("mode ") for line in section.lines if line.startswith("mode ")), None)
    return SeenSecret(section.lines[0], mode)


def _is_present(section: Section) -> bool | None:
    return {"there": True, "missing": False}.get(section.lines[0]) if section.answered and section.lines else None


_FILE = re.compile(r"file (?P<file>(?P<size>\d+) [0-9a-f]{64} [0-9a-f]{64} .+)")


def _data(section: Section) -> SeenData | None:
    """None if a line cannot be read: a fingerprint of some files would be wrong."""
    if not section.answered or not section.lines:
        return None
    if section.lines[0] == "missing":
        return SeenData(0)
    total = count(section.lines[0].removeprefix("files "))
    if total is None:
        return None
    files, sizes, unreadable = list[str](), list[int](), list[str]()
    for line in section.lines[1:]:
        if (match := _FILE.fullmatch(line)) and (size := count(match["size"])) is not None:
            files.append(match["file"])
            sizes.append(size)
        elif line.startswith("unreadable "):
            unreadable.append(line.removeprefix("unreadable "))
        else:
            return None
    return SeenData(total, tuple(files), sum(sizes), tuple(unreadable))


def _image(sections: Sections) -> SeenImage:
    engine, image = sections["engine"], sections["image"]
    if not engine.answered or not image.answered:
        return SeenImage(engine, None)
    identity, _, digests = (image.lines[-1] if image.lines else "").partition(" ")
    try:
        listed = json.loads(digests)
    except (ValueError, RecursionError):
        listed = []
    named = tuple(digest for digest in listed if isinstance(digest, str)) if isinstance(listed, list) else ()
    return SeenImage(engine, identity or None, named)
