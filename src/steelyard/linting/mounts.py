"""The host paths that a plan mounts into a container, normalized."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

from steelyard.experiment.case import Case
from steelyard.experiment.reading import PointerPath, Stated


@dataclass(frozen=True, slots=True)
class Mount:
    """One path of the host that the container sees."""

    path: str
    """Without `//`, `/./`, `/../` and a trailing slash; /var/run is written /run."""
    stated: Stated
    """The path and its place in the file."""

    def lies_in(self, directory: str) -> bool:
        """Whether it is the directory or below it."""
        return self.path == directory or self.path.startswith(f"{directory.rstrip('/')}/")


def normal(path: str) -> str:
    """A path as the kernel resolves it. Links are not followed, except /var/run, which is one on every host."""
    absolute = "/" + posixpath.normpath(path).lstrip("/")
    return re.sub(r"^/var/run(?=/|$)", "/run", absolute)


def needed_volumes(case: Case) -> dict[str, str]:
    """Cache and corpus at their own paths, unless a volume of the config contains them already."""
    platform, data = case.resolved.platform, case.resolved.experiment.data
    if platform.container is None:
        return {}
    tokens = data.path if data.source == "tokens" and data.path and data.path.startswith("/") else ""
    corpus = re.split(r"[*?\[{,:]", tokens)[0].rpartition("/")[0]  # of a pattern, the directory above it
    mounted = tuple(platform.container.volumes.values())
    return {
        path: path
        for path in (platform.cache_dir, corpus or ("/" if tokens else ""))
        if path and not any(path == inside or path.startswith(f"{inside.rstrip('/')}/") for inside in mounted)
    }


def mounts(case: Case) -> Iterator[Mount]:
    """Every host path that the file mounts into the container."""
    platform = case.resolved.platform
    if platform.container is None:
        return
    for host in platform.container.volumes:
        yield _mount(host, _place(case, "container.volumes", host))
    for host in needed_volumes(case):
        corpus = case.reading.paths.get("data.path", ("data", "path"))
        yield _mount(host, _place(case, "cache_dir") if host == platform.cache_dir else corpus)


def secret_files(case: Case) -> Iterator[Mount]:
    """Every host file that is copied into the container as a secret."""
    platform = case.resolved.platform
    if platform.hf_token_file is not None:
        yield _mount(platform.hf_token_file, _place(case, "hf_token_file"))
    for name, file in platform.secrets.items():
        yield _mount(file, _place(case, "secrets", name))


def devices(case: Case) -> Iterator[Mount]:
    """Every host device that the file passes to the container, as a device or as a volume."""
    container = case.resolved.platform.container
    if container is None:
        return
    for at, device in enumerate(container.devices):
        yield _mount(device, _place(case, "container.devices", str(at)))
    for host in container.volumes:
        if normal(host).startswith("/dev/"):
            yield _mount(host, _place(case, "container.volumes", host))


def _mount(host: str, place: PointerPath) -> Mount:
    return Mount(normal(host), Stated(host, place))


def _place(case: Case, key: str, *inner: str) -> PointerPath:
    """Where the file has a key of the platform, by the names of its family."""
    name = case.resolved.platform_name
    own = ("platforms", *((name,) if name else ()), *key.split("."))
    return (*case.reading.paths.get(f"platform.{key}", own), *inner)
