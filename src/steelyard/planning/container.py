"""The container of a node: the engines, and the arguments that start one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard.experiment.platform import Container, EngineName
from steelyard.hardware.nics import Nic

RUN_LABEL = "steelyard.run"
"""Label with the run of a container; containers without it are never touched."""
RUN_DIR = "/steelyard"
"""In the container: planned files and secrets, read-only, and the output directory."""
JOB_DIR = "job"
"""Mounted as RUN_DIR. It is below the control directory, which no container can access."""
ENV_FILE = "environment"
SECRETS = "secrets"
"""Directory of the secrets below RUN_DIR, one file per secret."""
OUTPUT = "output"
"""The only directory below RUN_DIR that the container can write to."""
TOKEN = "HF_TOKEN"

_AMD = ("/dev/kfd", "/dev/dri")


@dataclass(frozen=True, slots=True)
class Engine:
    """The differences between engines."""

    name: EngineName
    options: tuple[str, ...]
    """Options of every container, so that it does not depend on the defaults of the engine."""
    nvidia_gpus: tuple[str, ...]
    """Options that pass all NVIDIA GPUs of the host."""
    amd_groups: tuple[str, ...]
    """Groups that may open the devices of AMD GPUs."""
    makes_volumes: bool
    """Whether a missing host path is created as a directory; otherwise the container does not start."""
    silent_fix: str
    """What to do if the engine does not answer."""
    init_refusal: str | None
    """What its init prints if the program does not exist; None if the exit status shows it."""


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
    # SELinux would hide the volumes, 2048 processes are too few for 8 ranks, and a proxy of the host is not planned.
    options=("--security-opt", "label=disable", "--pids-limit", "-1", "--http-proxy=false"),
    # Podman 4.3 accepts `--gpus all` and passes none.
    nvidia_gpus=("--device", "nvidia.com/gpu=all"),
    # Without root, groups of the image are not those of the host: keep the groups of the login.
    amd_groups=("keep-groups",),
    makes_volumes=False,
    silent_fix="run `podman info` there to see why",
    init_refusal="ERROR (catatonit:",
)

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (DOCKER, PODMAN)}
"""To add an engine, add it here and its name to `EngineName`."""


def run_argv(
    container: Container,
    command: Sequence[str],
    *,
    name: str,
    experiment: str,
    control_dir: str,
    vendor: str | None,
    nic: Nic | None,
    workdir: str,
) -> list[str]:
    """The whole `run` command of the engine; it contains no values of variables.

    The control directory is on the host. It has the control files of the run and, below them, the files of the
    container. `vendor` is None without GPUs, `nic` is None on one node.
    """
    engine = ENGINES[container.engine]
    devices = dict.fromkeys([*(_AMD if vendor == "amd" else ()), *container.devices])
    job = f"{control_dir}/{JOB_DIR}"
    own = {job: f"{RUN_DIR}:ro", f"{job}/{OUTPUT}": f"{RUN_DIR}/{OUTPUT}"}
    volumes = {**own, **(nic.mounted(container.volumes) if nic else container.volumes)}
    argv = [engine.name, "run", "--pull", "never", "--log-driver", "none", "--init", "--name", name]
    argv += ["--label", f"steelyard.experiment={experiment}", "--network", "host"]
    argv += engine.options
    if container.privileged:
        argv.append("--privileged")
    if vendor == "nvidia":
        argv += engine.nvidia_gpus
    if vendor == "amd":
        for group in engine.amd_groups:
            argv += ["--group-add", group]
        argv += ["--cap-add", "SYS_PTRACE", "--security-opt", "seccomp=unconfined"]
    if nic is not None:
        devices |= dict.fromkeys(["/dev/infiniband"])
        argv += ["--cap-add", "IPC_LOCK"]
    for device in devices:
        argv += ["--device", device]
    argv += ["--ulimit", "memlock=-1:-1", "--ulimit", "nofile=65536:65536"]
    if container.shm_size:
        argv += ["--shm-size", container.shm_size]
    for host, inside in volumes.items():
        if host not in devices:
            argv += ["--volume", f"{host}:{inside}"]
    argv += ["--env-file", f"{control_dir}/{ENV_FILE}"]
    return [*argv, "--workdir", workdir, container.image, *command]


def mounts_of(argv: Sequence[str], control_dir: str) -> list[str]:
    """Host paths in a container, without those that the run creates."""
    sources = [argv[at + 1].partition(":")[0] for at, word in enumerate(argv) if word == "--volume"]
    return [path for path in sources if not path.startswith(f"{control_dir}/")]


def labelled(argv: Sequence[str], run: str) -> list[str]:
    """The same command with the label of a run."""
    at = list(argv).index("--label")
    return [*argv[:at], "--label", f"{RUN_LABEL}={run}", *argv[at:]]


def secret_variables(names: Iterable[str], directory: str) -> dict[str, str]:
    """Variables with the paths of secrets, never the secrets: a dump of variables does not show them."""
    return {"HF_TOKEN_PATH" if name == TOKEN else f"{name}_FILE": f"{directory}/{SECRETS}/{name}" for name in names}
