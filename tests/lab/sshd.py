"""The ssh server of a host."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from lab.namespaces import HOST_PATH, Inside, LabError

KEY = "/run/lab/host_key"
# SHLVL keeps a shell from reading slow start-up files on every command; the default key exchange takes 0.1 s of a core.
CONFIG = f"""\
HostKey {KEY}
PidFile /run/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
KexAlgorithms curve25519-sha256,ecdh-sha2-nistp256
UseDNS no
PrintMotd no
PrintLastLog no
MaxStartups 500
MaxSessions 500
AcceptEnv LANG LC_*
SetEnv SHLVL=2 PATH={HOST_PATH}
Subsystem sftp internal-sftp
"""


def make_key(path: Path, comment: str, kind: str = "ed25519") -> str:
    """Make a key pair and return its public line."""
    path.unlink(missing_ok=True)
    path.with_name(path.name + ".pub").unlink(missing_ok=True)
    make = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", comment, "-f", str(path)]
    subprocess.run(make, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return path.with_name(path.name + ".pub").read_text().strip()


class SshServer:
    """One sshd, listening on port 22 of its host."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside

    def start(self) -> None:
        """Start it; it is listening when this returns."""
        self._inside.sh(["/usr/sbin/sshd", "-f", "/run/lab/sshd_config", "-E", "/var/log/sshd.log"])
        self._wait("sshd did not start", self._inside.path("/run/sshd.pid").exists)

    def stop(self, pids: list[int]) -> None:
        """Kill its listener and its sessions; what they had started runs on."""
        self._inside.kill(pids)
        self._inside.path("/run/sshd.pid").unlink(missing_ok=True)
        self._wait("sshd did not end", lambda: not any(self._inside.path(f"/proc/{pid}").exists() for pid in pids))

    def change_key(self) -> None:
        """Take another host key from the next start on."""
        make_key(self._inside.path(KEY), f"{self._inside.name}-new")

    def restore_key(self, key: Path) -> None:
        """Take this host key from the next start on."""
        self._inside.path(KEY).write_bytes(key.read_bytes())

    def _wait(self, failure: str, condition: Callable[[], bool], patience_s: float = 10) -> None:
        deadline = time.monotonic() + patience_s
        while not condition():
            if time.monotonic() > deadline:
                raise LabError(f"{self._inside.name}: {failure} in {patience_s} s")
            time.sleep(0.01)
