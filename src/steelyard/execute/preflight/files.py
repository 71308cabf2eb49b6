"""What the job reads of a host is there: the files of its secrets, its data and the volumes of its container."""

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
"""The file of the secret is there."""
SECRET_ABSENT = Code("secret_absent", "{file} is {observed}")
"""The file of the secret is missing, empty, unreadable or not a file."""
SECRET_UNKNOWN = Code("secret_unknown", "whether {file} is there is not known")
"""The host does not report whether the file of the secret is there."""
DATA_RELATIVE = Code("data_relative", "{path} is relative, which means another place on each host")
"""The path of the data is relative, so each host would look in another place."""
DATA_UNKNOWN = Code("data_unknown", "{path} cannot be looked into ({reason})")
"""The host does not report the files of the data."""
DATA_MISSING = Code("data_missing", "{path} is not there, or holds no file")
"""The data is not on the host."""
DATA_UNREADABLE = Code("data_unreadable", "{file} cannot be read by this user")
"""The user cannot read a file of the data."""
VOLUME_PRESENT = Code("volume_present", "{path} is present")
"""The path that the container mounts is there."""
VOLUME_MISSING = Code("volume_missing", "{path}, a volume of the container, is missing")
"""The path that the container mounts is not there."""
VOLUME_UNKNOWN = Code("volume_unknown", "whether {path} is there is not known")
"""The host does not report whether the path that the container mounts is there."""


def check(needs: Needs, facts: HostFacts) -> Findings:
    yield from _secrets(needs, facts)
    yield from _data(needs, facts)
    yield from _volumes(needs, facts)


def _secrets(needs: Needs, facts: HostFacts) -> Findings:
    """What is in a secret's file is never read."""
    for at, secret in enumerate(needs.secrets):
        kind, file = HF_TOKEN if secret.name == TOKEN else SECRETS, secret.file
        fix = f"put {secret.name} into {file} there, with mode 600"
        for host, of_host in facts.items():
            seen = of_host.secrets[at]
            if seen is None:
                yield kind.unknown(SECRET_UNKNOWN, host, fix, None, "present", file=file)
            elif seen.state != "present":
                yield kind.failed(SECRET_ABSENT, host, fix, seen.state, "present", file=file)
            else:
                open_to_all = bool(seen.mode and seen.mode[-1] != "0")
                warning = f", readable by others (mode {seen.mode}): `chmod 600` it" if open_to_all else ""
                yield kind.passed(SECRET_PRESENT, host, "present", "present", file=file, warning=warning)


def _data(needs: Needs, facts: HostFacts) -> Findings:
    """The same on every host, by names, sizes, first and last MiB of its files, and how many there are."""
    path = needs.data_path
    if path is None:
        return
    fix = f"mount the shared file system, or copy the data to {path}"
    prints: dict[str, str | None] = {}
    for host, seen in facts.items():
        data = seen.data
        if not path.startswith("/"):
            yield DATA.unknown(DATA_RELATIVE, host, "write data.path from the root", None, "seen", path=path)
        elif data is None:
            yield DATA.unknown(DATA_UNKNOWN, host, fix, None, "seen", path=path, reason=seen.data_reason)
        elif not data.total:
            yield DATA.failed(DATA_MISSING, host, fix, "missing", "seen", path=path)
        elif data.unreadable:
            readable = "let this user read it"
            yield DATA.failed(DATA_UNREADABLE, host, readable, "unreadable", "readable", file=data.unreadable[0])
        else:
            lines = "".join(f"{line}\n" for line in (data.total, *data.files))
            fingerprint = hashlib.sha256(lines.encode()).hexdigest()[:12]
            some = f"the first {len(data.files)} of {data.total:,}" if data.total > len(data.files) else f"{data.total}"
            prints[host] = f"{fingerprint} ({some} files, {data.size:,} bytes)"
    yield from DATA.compared(prints, f"the data in {path}", "it cannot be read", fix)


def _volumes(needs: Needs, facts: HostFacts) -> Findings:
    """Docker makes what is missing, and leaves it; Podman gives up."""
    for at, path in enumerate(needs.volumes):
        fix = f"make {path} there, or take it out of the config's volumes"
        for host, seen in facts.items():
            if seen.volumes[at] is None:
                yield VOLUMES.unknown(VOLUME_UNKNOWN, host, fix, None, "present", path=path)
            elif seen.volumes[at]:
                yield VOLUMES.passed(VOLUME_PRESENT, host, "present", "present", path=path)
            else:
                yield VOLUMES.failed(VOLUME_MISSING, host, fix, "missing", "present", path=path)
