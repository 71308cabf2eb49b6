"""Three hosts with ssh and Docker on one machine, made and removed as a whole."""

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from lab import engine, images, network
from lab.host import Host
from lab.leftovers import leftovers, remove_cgroups
from lab.namespaces import Keeper, LabError, joined_network
from lab.needs import reasons_not_to
from lab.sshd import CONFIG, make_key

HERE = Path(__file__).parent
LOGIN = os.environ.get("STEELYARD_LAB_LOGIN", "root")
"""Who runs the jobs on the hosts: root, or trainer, who may only use the engine."""
CONTROL = "/root/.local/state/steelyard" if LOGIN == "root" else f"/var/tmp/steelyard-{LOGIN}"
"""Where that login's control files lie."""
CONTROL_DISK = "/root" if LOGIN == "root" else "/var/tmp"
DEVICES = (
    "kfd",
    "dri/card0",
    "dri/renderD128",
    "infiniband/uverbs0",
    "infiniband/rdma_cm",
    "nvidiactl",
    "nvidia-uvm",
    *(f"nvidia{number}" for number in range(8)),
)
"""Device files that every host has and that behave like /dev/null."""


class Lab:
    """A controller and hosts, joined by a network that nothing leaves."""

    def __init__(self, num_hosts: int = 3, devices: Sequence[str] = DEVICES, shared: Sequence[str] = ()) -> None:
        self.num_hosts = num_hosts
        self.devices = tuple(devices)
        self.shared = tuple(shared)
        """Folders of this machine that hosts see, and images that have Python."""
        self.hosts: list[Host] = []
        self._clean_up = ExitStack()
        self._namespaces: set[str] = set()
        self._controller: Keeper | None = None
        self._folder: Path | None = None

    def up(self) -> Self:
        """Build the lab; what was built is removed where a part fails."""
        if reason := reasons_not_to():
            raise LabError(reason)
        if self._folder is not None:
            raise LabError("this lab is up already")
        self._folder = Path(tempfile.mkdtemp(prefix="lab-"))
        atexit.register(self.down)
        try:
            self._build()
        except BaseException:
            self.down()
            raise
        return self

    def down(self) -> None:
        """Remove the lab and make sure that nothing of it is left."""
        atexit.unregister(self.down)
        if self._folder is None:
            return
        folder, name = self._folder, self.name
        self._folder = self._controller = None
        self.hosts.clear()
        try:
            self._clean_up.close()
        finally:
            remove_cgroups(name)
            shutil.rmtree(folder, ignore_errors=True)
        if left := leftovers(folder, name, self._namespaces):
            raise LabError(f"{name} left behind: {', '.join(left)}")
        self._namespaces.clear()

    def __enter__(self) -> Self:
        return self.up() if self._folder is None else self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    @property
    def folder(self) -> Path:
        """Where the lab keeps its own files on the machine."""
        if self._folder is None:
            raise LabError("this lab is not up")
        return self._folder

    @property
    def name(self) -> str:
        """The lab's own name, which no other lab of the machine has."""
        return self.folder.name

    @property
    def home(self) -> Path:
        """The home directory of who works from the controller."""
        return self.folder / "home"

    @property
    def key(self) -> Path:
        """The private key that opens every host."""
        return self.home / ".ssh/id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """The host keys, by name and by address."""
        return self.home / ".ssh/known_hosts"

    @property
    def ssh_config(self) -> Path:
        """A configuration for `ssh -F` and for asyncssh."""
        return self.home / ".ssh/config"

    def controller(self, argv: Sequence[str | Path]) -> list[str]:
        """A command line that runs a command in the controller's network, from its home."""
        if self._controller is None:
            raise LabError("this lab is not up")
        enter = ["nsenter", "-t", str(self._controller.pid), "--net", "--", "env", "-u", "SSH_AUTH_SOCK"]
        return [*enter, f"HOME={self.home}", *map(str, argv)]

    def joined(self) -> AbstractContextManager[None]:
        """Inside the with, this thread and those it starts are in the controller's network."""
        if self._controller is None:
            raise LabError("this lab is not up")
        return joined_network(self._controller.pid)

    def cluster_file(self, folder: Path, count: int = 3, user: str = LOGIN) -> Path:
        """Write a cluster file of the first hosts."""
        path = folder / "cluster.yaml"
        hosts = ", ".join(host.address for host in self.hosts[:count])
        path.write_text(f"hosts: [{hosts}]\nuser: {user}\nkey_file: {json.dumps(str(self.key))}\n")
        return path

    def build_image(
        self,
        name: str,
        files: Mapping[str, images.Content] | None = None,
        env: Mapping[str, str] | None = None,
        python: bool = True,
        user: str | None = None,
    ) -> str:
        """Put one image on every host under a name; return its ID, the same on each."""
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            tree = images.busybox_tree(Path(scratch, "tree"), files)
            variables = {**(images.python_env() if python else {}), **(env or {})}
            first, *others = self.hosts
            image_id = first.load_image(tree, name, variables, user)
            saved = Path(scratch, "image.tar")
            first.save_image(name, saved)
            at_once([partial(host.load_saved_image, saved) for host in others])
        for host in others:
            if (found := host.image_id(name)) != image_id:
                raise LabError(f"{name} is {image_id} on {first.name} and {found} on {host.name}")
        return image_id

    def _build(self) -> None:
        names = {f"node{number}": network.address(number) for number in range(1, self.num_hosts + 1)}
        self._write_home(names)
        hold = 'echo "$$"; exec cat >/dev/null'
        self._controller = self._keep(["unshare", "--net", "sh", "-c", hold], "controller")
        network.lay_bridge(self._controller.pid)
        with ThreadPoolExecutor(len(names)) as pool:
            self.hosts += pool.map(self._start_host, names, names.values())

    def _write_home(self, names: Mapping[str, str]) -> None:
        self.key.parent.mkdir(mode=0o700, parents=True)
        public = make_key(self.key, self.name)
        hosts_file = f"127.0.0.1 localhost\n{network.CONTROLLER} controller\n"
        hosts_file += "".join(f"{address} {name}\n" for name, address in names.items())
        for name, address in names.items():
            seed = self.folder / name / "seed"
            (seed / "bin").mkdir(parents=True)
            (self.folder / name / "root").mkdir()
            host_key = " ".join(make_key(seed / "host_key", name).split()[:2])
            (seed / "hosts").write_text(hosts_file)
            (seed / "authorized_keys").write_text(f"{public}\n")
            (seed / "sshd_config").write_text(CONFIG)
            shutil.copy(HERE / "first_process.py", seed)
            engine.seed(seed, self.shared)
            with self.known_hosts.open("a") as known:
                known.write(f"{name},{address} {host_key}\n")
            with self.ssh_config.open("a") as config:
                config.write(f"Host {name} {address}\n    HostName {address}\n")
        with self.ssh_config.open("a") as config:
            config.write(
                f"Host *\n    User root\n    IdentityFile {self.key}\n    IdentitiesOnly yes\n"
                f"    UserKnownHostsFile {self.known_hosts}\n    StrictHostKeyChecking yes\n"
                "    ServerAliveInterval 1\n    ServerAliveCountMax 2\n"
            )

    def _keep(self, argv: Sequence[str], name: str) -> Keeper:
        keeper = Keeper(argv, self.folder / f"{name}.log")
        self._clean_up.callback(keeper.release)
        self._namespaces |= keeper.namespaces
        return keeper

    def _start_host(self, name: str, address: str) -> Host:
        assert self._controller is not None
        folder = self.folder / name
        unshare = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
        script = [str(HERE / "host_root.sh"), name, str(folder / "seed"), str(folder / "root"), engine.python()]
        keeper = self._keep([*unshare, "sh", *script, " ".join(self.devices), *engine.shared_paths(self.shared)], name)
        network.lay_cable(self._controller.pid, keeper.pid, name, address)
        host = Host(name, address, keeper.pid, self._controller.pid, f"{self.name}-{name}", folder)
        at_once([host.start_sshd, host.start_engine])
        return host


def at_once(calls: Sequence[Callable[[], object]]) -> None:
    """Make calls in parallel; the first failure is raised when all have ended."""
    if calls:
        with ThreadPoolExecutor(len(calls)) as pool:
            for future in [pool.submit(call) for call in calls]:
                future.result()
