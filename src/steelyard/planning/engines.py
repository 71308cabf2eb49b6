"""The container engines: their commands are the same, and this is what is not."""

from dataclasses import dataclass

from steelyard.experiment.platform import EngineName


@dataclass(frozen=True, slots=True)
class Engine:
    """What tells one engine from another."""

    name: EngineName
    options: tuple[str, ...]
    """Given to every container, so that it is the same container whatever the engine's own defaults."""
    nvidia_gpus: tuple[str, ...]
    """Gives all NVIDIA GPUs of the host."""
    amd_groups: tuple[str, ...]
    """Whose members may open AMD's device nodes."""
    makes_volumes: bool
    """Whether a path that the host lacks is made, as a directory; else the container does not start."""
    silent_fix: str
    """What to do where it does not answer."""
    init_refusal: str | None
    """What its init prints where there is no such program, if the exit status does not tell."""


DOCKER = Engine(
    name="docker",
    options=(),
    nvidia_gpus=("--gpus", "all"),
    amd_groups=("video", "render"),
    makes_volumes=True,
    silent_fix="start docker, or let this user use it (group docker)",
    init_refusal=None,
)

PODMAN = Engine(
    name="podman",
    # SELinux would hide the volumes, 2048 processes are few for eight ranks, and a proxy of the host's is in no plan.
    options=("--security-opt", "label=disable", "--pids-limit", "-1", "--http-proxy=false"),
    # 4.3 takes `--gpus all` and gives none.
    nvidia_gpus=("--device", "nvidia.com/gpu=all"),
    # Without root the image's groups are none of the host's: the login's own are kept instead.
    amd_groups=("keep-groups",),
    makes_volumes=False,
    silent_fix="`podman info` there says why",
    init_refusal="ERROR (catatonit:",
)

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (DOCKER, PODMAN)}
"""Adding one is an entry here and its name in `EngineName`."""
