"""Fits a container to this machine before runc reads it: `runc_bundle.py PYTHON_MOUNTS RUNC_ARGUMENT...`.

Without CAP_SYS_RESOURCE runc refuses --privileged and raised limits; they are accepted here and not honoured. An image
with LAB_PYTHON=1 in its environment is given the machine's Python, read-only.
"""

import json
import resource
import sys
from pathlib import Path
from typing import Any

CAP_SYS_RESOURCE = 24
MARK = "LAB_PYTHON=1"


def may_raise_limits() -> bool:
    """Whether this process holds CAP_SYS_RESOURCE."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return bool(int(status["CapEff"], 16) >> CAP_SYS_RESOURCE & 1)


def fit(process: dict[str, Any]) -> None:
    """Take from a process what cannot be given here."""
    if may_raise_limits():
        return
    for held in process.get("capabilities", {}).values():
        if "CAP_SYS_RESOURCE" in held:
            held.remove("CAP_SYS_RESOURCE")
    for limit in process.get("rlimits") or []:
        _, highest = resource.getrlimit(getattr(resource, limit["type"]))
        if highest != resource.RLIM_INFINITY:
            limit["hard"] = min(limit["hard"], highest)
            limit["soft"] = min(limit["soft"], limit["hard"])


def add_python(config: dict[str, Any], mounts: list[tuple[str, str]]) -> None:
    """Mount the machine's Python where the image asks for it."""
    if MARK in config["process"].get("env", []):
        config["mounts"] += [
            {"source": source, "destination": target, "type": "bind", "options": ["rbind", "ro", "rprivate"]}
            for source, target in mounts
        ]


def main(mounts: str, *arguments: str) -> None:
    """Rewrite the bundle, or the process, that runc is about to read."""
    if "--bundle" in arguments:
        path = Path(arguments[arguments.index("--bundle") + 1], "config.json")
        config = json.loads(path.read_text())
        fit(config["process"])
        add_python(config, json.loads(Path(mounts).read_text()))
        path.write_text(json.dumps(config))
    if "--process" in arguments:
        path = Path(arguments[arguments.index("--process") + 1])
        process = json.loads(path.read_text())
        fit(process)
        path.write_text(json.dumps(process))


if __name__ == "__main__":
    main(*sys.argv[1:])
