"""`python -m lab up`: keeps a lab up until it is interrupted."""

import shlex
import signal
import sys
import time

from lab.lab import Lab
from lab.namespaces import LabError

USAGE = "usage: python -m lab up    (as root, with tests/ on PYTHONPATH)\n"


def main(arguments: list[str]) -> int:
    """Run the command line."""
    if arguments != ["up"]:
        sys.stdout.write(USAGE)
        return 2 if arguments else 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    start = time.monotonic()
    try:
        with Lab() as lab:
            sys.stdout.write(f"{len(lab.hosts)} hosts up in {time.monotonic() - start:.1f} s\n{_instructions(lab)}")
            sys.stdout.flush()
            signal.pause()
    except KeyboardInterrupt:
        sys.stdout.write("removed\n")
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _instructions(lab: Lab) -> str:
    first = lab.hosts[0]
    lines = [
        ("log in", lab.controller(["ssh", "-F", lab.ssh_config, first.name])),
        ("or enter", ["nsenter", "-t", str(first.inside.pid), "--mount", "--uts", "--ipc", "--net", "--pid"]),
        ("cluster file", [str(lab.cluster_file(lab.folder, len(lab.hosts)))]),
        ("a command of the controller", lab.controller(["COMMAND"])),
    ]
    hosts = ", ".join(f"{host.name} {host.address}" for host in lab.hosts)
    return f"hosts: {hosts}\n" + "".join(f"{what}: {shlex.join(argv)}\n" for what, argv in lines) + "end: Ctrl-C\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
