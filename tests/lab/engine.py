"""The Docker engine of a host, with a runc that takes what this machine cannot give."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.namespaces import HOST_PATH, Inside, LabError

DATA_ROOT = "/srv/docker"
DOCKERD = "/usr/sbin/dockerd"
REPOSITORY = Path(__file__).resolve().parents[2]
RUNC = """\
#!/bin/sh
case " $* " in *" create "* | *" exec "*) {edit} "$@" || exit 1 ;; esac
exec /usr/sbin/runc "$@"
"""
HOOK = "#!/bin/sh\nexec cat >/dev/null\n"
START_PATIENCE_S = 30
STOP_PATIENCE_S = 60


def python() -> str:
    """The Python that the environment of this process was made from."""
    return os.path.realpath(sys.executable)


def shared_paths(more: Sequence[str] = ()) -> list[str]:
    """What a Python process of the repository needs besides /usr, and what a test needs besides that."""
    paths = (sys.base_prefix, sys.prefix, str(REPOSITORY / "src"), *more)
    return sorted({path for path in paths if path != "/usr"})


def python_mounts(more: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Source and target of every mount that gives a bare image this Python; /usr/local stays the image's own."""
    usr = [str(each) for each in sorted(Path("/usr").iterdir()) if each.is_dir() and each.name != "local"]
    libraries = [
        (os.path.realpath(each), each) for each in ("/lib", "/lib64", "/etc/alternatives") if Path(each).is_dir()
    ]
    return [*((each, each) for each in usr), *libraries, *((each, each) for each in shared_paths(more))]


def seed(folder: Path, more: Sequence[str] = ()) -> None:
    """Put what the engine needs into the folder that becomes /run/lab; images with Python see `more` too."""
    engine = folder / "engine"
    engine.mkdir()
    shutil.copy(Path(__file__).with_name("runc_bundle.py"), engine)
    (engine / "python_mounts.json").write_text(json.dumps(python_mounts(more)))
    edit = f"{python()} -I -S /run/lab/engine/runc_bundle.py /run/lab/engine/python_mounts.json"
    for name, text in (("runc", RUNC.format(edit=edit)), ("nvidia-container-runtime-hook", HOOK)):
        (engine / name).write_text(text)
        (engine / name).chmod(0o755)


class Engine:
    """One dockerd with a containerd of its own."""

    def __init__(self, inside: Inside, cgroup: str) -> None:
        self._inside = inside
        self._cgroup = cgroup

    def start(self) -> None:
        """Start it; it answers when this returns."""
        # fmt: off
        argv = [
            "env", f"PATH=/run/lab/engine:{HOST_PATH}", DOCKERD, "--host", "unix:///run/docker.sock",
            "--data-root", DATA_ROOT, "--exec-root", "/run/docker", "--pidfile", "/run/docker.pid",
            "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--bridge=none",
            "--cgroup-parent", f"/{self._cgroup}",
            "--add-runtime", "lab=/run/lab/engine/runc", "--default-runtime", "lab",
        ]
        # fmt: on
        detached = 'setsid "$@" </dev/null >>/var/log/dockerd.log 2>&1 &'
        self._inside.sh(["sh", "-c", detached, "sh", *argv])
        deadline = time.monotonic() + START_PATIENCE_S
        while not self.answers():
            if time.monotonic() > deadline:
                log = self._inside.path("/var/log/dockerd.log").read_text()
                raise LabError(f"{self._inside.name}: dockerd did not answer in {START_PATIENCE_S} s: {log[-2000:]}")
            time.sleep(0.02)

    def stop(self, crash: bool) -> None:
        """Stop it and its containers; a crash leaves them running."""
        pid = self._inside.path("/run/docker.pid").read_text().strip()
        containerd = self._inside.path("/run/docker/containerd/containerd.pid").read_text().strip()
        if crash:
            self._inside.kill([int(pid), int(containerd)])
        else:
            self._inside.sh(["kill", f"-{signal.SIGTERM.value}", pid])
        deadline = time.monotonic() + STOP_PATIENCE_S
        while any(self._inside.path(f"/proc/{each}").exists() for each in (pid, containerd)):
            if time.monotonic() > deadline:
                raise LabError(f"{self._inside.name}: dockerd did not end in {STOP_PATIENCE_S} s")
            time.sleep(0.02)

    def answers(self) -> bool:
        """Whether it answers a ping."""
        with contextlib.suppress(OSError, LabError, http.client.HTTPException):
            self.get("/_ping")
            return True
        return False

    def get(self, path: str) -> bytes:
        """The body of one GET of its API."""
        connection = _Connection(self._inside.path("/run/docker.sock"))
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise LabError(f"{self._inside.name}: {path} answered {answer.status}: {body.decode(errors='replace')}")
        return body

    def containers(self) -> list[dict[str, Any]]:
        """Every container, running or not, as the API tells it."""
        found: list[dict[str, Any]] = json.loads(self.get("/containers/json?all=1"))
        return found

    def image_id(self, name: str) -> str:
        """The ID of an image."""
        return str(json.loads(self.get(f"/images/{name}/json"))["Id"])


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
