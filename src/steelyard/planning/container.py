"""The container one node trains in: the engines, and the argument list of one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard.experiment.platform import Container, EngineName
from steelyard.hardware.nics import Nic

RUN_LABEL = "steelyard.run"
"""Names the run a container is of: nothing without it is ever touched."""
RUN_DIR = "/steelyard"
"""Where the container sees its planned files and secrets, which it cannot change, and its output directory."""
JOB_DIR = "job"
"""What becomes RUN_DIR, below the control directory, which no container sees."""
ENV_FILE = "environment"
SECRETS = "secrets"
"""Where the secrets lie below RUN_DIR, a file each."""
OUTPUT = "output"
"""The one directory below RUN_DIR that the container can write to."""
TOKEN = "HF_TOKEN"

_AMD = ("/dev/kfd", "/dev/dri")


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
    """The engine's `run` and everything after it; no value of a variable is in it.

    The control directory is one of the host: it holds the run's control files, and below them what the container
    sees. `vendor` is None without GPUs, `nic` where the job stays on one node.
    """
    engine = ENGINES[container.engine]
    devices = dict.fromkeys([*(_AMD if vendor == "amd" else ()), *container.devices])
    job = f"{control_dir}/{JOB_DIR}"
    own = {job: f"{RUN_DIR}:ro", f"{job}/{OUTPUT}": f"{RUN_DIR}/{OUTPUT}"}
    volumes = {**own, **(nic.volumes if nic else {}), **container.volumes}
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
    """Paths of the host that a container sees, besides what the run makes itself."""
    sources = [argv[at + 1].partition(":")[0] for at, word in enumerate(argv) if word == "--volume"]
    return [path for path in sources if not path.startswith(f"{control_dir}/")]


def labelled(argv: Sequence[str], run: str) -> list[str]:
    """The same container, marked as one run's."""
    at = list(argv).index("--label")
    return [*argv[:at], "--label", f"{RUN_LABEL}={run}", *argv[at:]]


def secret_variables(names: Iterable[str], directory: str) -> dict[str, str]:
    """Where a program finds its secrets: paths, never what they hold, so that no dump of variables shows it."""
    return {"HF_TOKEN_PATH" if name == TOKEN else f"{name}_FILE": f"{directory}/{SECRETS}/{name}" for name in names}
