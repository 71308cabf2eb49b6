"""Checks that a host has what the job reads: files of secrets, data, and volumes of its container."""

import hashlib

from steelyard.execute.preflight.facts import HostFacts
from steelyard.execute.preflight.finding import Check, Findings
from steelyard.execute.preflight.needs import Needs
from steelyard.planning.container import TOKEN
from steelyard.reasons import Code

HF_TOKEN = Check("hf_token", required=True)
SECRETS = Check("secrets", required=True)
DATA = Check("data", required=True)
VOLUMES = Check("volumes", required=True)
CHECKS = (HF_TOKEN, SECRETS, DATA, VOLUMES)

SECRET_PRESENT = Code("secret_present", "{file} is present{warning}")
"""The file of the secret exists."""
SECRET_ABSENT = Code("secret_absent", "{file} is {observed}")
"""The file of the secret is missing, empty, unreadable or not a file."""
SECRET_UNKNOWN = Code("secret_unknown", "cannot check {file}")
"""The host does not report whether the file of the secret exists."""
DATA_RELATIVE = Code("data_relative", "{path} is relative, so the training program looks in its own directory")
"""The path of the data is relative, so the place depends on where the training program runs."""
DATA_UNKNOWN = Code("data_unknown", "cannot list {path} ({reason})")
"""The host does not report the files of the data."""
DATA_MISSING = Code("data_missing", "{path} does not exist or is empty")
"""The data is not on the host."""
DATA_UNREADABLE = Code("data_unreadable", "this user cannot read {file}")
"""The user cannot read a file of the data."""
VOLUME_PRESENT = Code("volume_present", "{path} is present")
"""The path that the container mounts exists."""
VOLUME_MISSING = Code("volume_missing", "container volume {path} is missing")
"""The path that the container mounts does not exist."""
VOLUME_UNKNOWN = Code("volume_unknown", "cannot check container volume {path}")
"""The host does not report whether the path that the container mounts exists."""


def check(needs: Needs, facts: HostFacts) -> Findings:
    yield from _secrets(needs, facts)
    yield from _data(needs, facts)
    yield from _volumes(needs, facts)


def _secrets(needs: Needs, facts: HostFacts) -> Findings:
    """The content of a secret's file is never read."""
    for at, secret in enumerate(needs.secrets):
        kind, file = HF_TOKEN if secret.name == TOKEN else SECRETS, secret.file
        fix = f"write {secret.name} to {file} on the host, with mode 600"
        for host, of_host in facts.items():
            seen = of_host.secrets[at]
            if seen is None:
                yield kind.unknown(SECRET_UNKNOWN, host, fix, None, "present", file=file)
            elif seen.state != "present":
                yield kind.failed(SECRET_ABSENT, host, fix, seen.state, "present", file=file)
            else:
                open_to_all = bool(seen.mode and seen.mode[-1] != "0")
                warning = f", but other users can read it (mode {seen.mode}): `chmod 600 {file}`" if open_to_all else ""
                yield kind.passed(SECRET_PRESENT, host, "present", "present", file=file, warning=warning)


def _data(needs: Needs, facts: HostFacts) -> Findings:
    """Compares number, names, sizes, and first and last MiB of the files between hosts."""
    path = needs.data_path
    if path is None:
        return
    fix = f"mount the shared file system, or copy the data to {path}"
    prints: dict[str, str | None] = {}
    for host, seen in facts.items():
        data = seen.data
        if not path.startswith("/"):
            yield DATA.unknown(DATA_RELATIVE, host, "set data.path to an absolute path", None, "seen", path=path)
        elif data is None:
            yield DATA.unknown(DATA_UNKNOWN, host, fix, None, "seen", path=path, reason=seen.data_reason)
        elif not data.total:
            yield DATA.failed(DATA_MISSING, host, fix, "missing", "seen", path=path)
        elif data.unreadable:
            grant = "give this user read permission"
            yield DATA.failed(DATA_UNREADABLE, host, grant, "unreadable", "readable", file=data.unreadable[0])
        else:
            lines = "".join(f"{line}\n" for line in (data.total, *data.files))
            fingerprint = hashlib.sha256(lines.encode()).hexdigest()[:12]
            num = f"the first {len(data.files)} of {data.total:,}" if data.total > len(data.files) else f"{data.total}"
            prints[host] = f"{fingerprint} ({num} files, {data.size:,} bytes)"
    yield from DATA.compared(prints, f"data in {path}", "cannot read it", fix)


def _volumes(needs: Needs, facts: HostFacts) -> Findings:
    """Docker would create a missing volume and leave it behind; Podman would fail."""
    for at, path in enumerate(needs.volumes):
        fix = f"create {path} on the host, or remove it from the volumes in the config"
        for host, seen in facts.items():
            if seen.volumes[at] is None:
                yield VOLUMES.unknown(VOLUME_UNKNOWN, host, fix, None, "present", path=path)
            elif seen.volumes[at]:
                yield VOLUMES.passed(VOLUME_PRESENT, host, "present", "present", path=path)
            else:
                yield VOLUMES.failed(VOLUME_MISSING, host, fix, "missing", "present", path=path)
