"""Families of network cards: the environment variables and libraries that a multi-node job needs for each.

The values are those of AMD's public training and collective suites. A config may override them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, get_args

NicName = Literal["ainic", "thor2", "cx7"]


AS_MOUNTED = ".host"
"""End of the name under which the host's library is mounted next to that of the image."""


@dataclass(frozen=True, slots=True)
class Nic:
    """One family of RDMA cards."""

    name: NicName
    product: str
    driver: str
    hca_prefixes: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables for NCCL/RCCL with this family, in addition to COMMON."""
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Host libraries that are mounted into the container."""
    installs: bool = False
    """Whether the host's library replaces the one of the image before training; it is mounted under another name."""

    def mounted(self, given: Mapping[str, str]) -> dict[str, str]:
        """Volumes with those `given` by the config. A library that the config mounts replaces the family's."""
        replaced = self._library(given) is not None
        own = self.volumes.items()
        kept = {host: inside for host, inside in own if host in given or not (replaced and self._is_library(host))}
        return {**kept, **given}

    def copied(self, given: Mapping[str, str]) -> tuple[str, str] | None:
        """From where to where the mounted library is copied in the container; None if nothing has to be copied."""
        inside = self._library(self.mounted(given)) if self.installs else None
        return (inside, inside.removesuffix(AS_MOUNTED)) if inside and inside.endswith(AS_MOUNTED) else None

    def _library(self, volumes: Mapping[str, str]) -> str | None:
        """The place of the host's library in the container."""
        return next((inside for host, inside in volumes.items() if self._is_library(host)), None)

    def _is_library(self, host: str) -> bool:
        return host.rpartition("/")[2].startswith(f"lib{self.driver}")


COMMON: Mapping[str, str] = MappingProxyType(
    {"NCCL_IB_TIMEOUT": "30", "NCCL_PXN_DISABLE": "0", "NCCL_IGNORE_CPU_AFFINITY": "1", "HSA_NO_SCRATCH_RECLAIM": "1"}
)
"""Variables for every family."""

_BNXT = "libbnxt_re-rdmav34.so"
_BNXT_INSIDE = f"/usr/lib/x86_64-linux-gnu/libibverbs/{_BNXT}{AS_MOUNTED}"
_FAMILIES = (
    Nic(
        "thor2",
        "Broadcom BCM57608",
        "bnxt_re",
        ("bnxt_re", "rocep"),
        env={"NCCL_IB_GID_INDEX": "3", "NCCL_CUMEM_ENABLE": "1", "NCCL_DMABUF_ENABLE": "1"},
        volumes={f"/usr/local/lib/{_BNXT}": _BNXT_INSIDE, "/lib/libibverbs.d": "/lib/libibverbs.d"},
        installs=True,
    ),
    Nic(
        "ainic",
        "AMD Pensando Pollara",
        "ionic",
        ("ionic_",),
        env={
            "NCCL_NET_PLUGIN": "librccl-anp.so",
            "NCCL_IB_GID_INDEX": "1",
            "NCCL_CUMEM_ENABLE": "0",
            "NCCL_DMABUF_ENABLE": "0",
            "IONIC_LOCKFREE": "all",
            "NCCL_GDR_FLUSH_DISABLE": "1",
            "NCCL_IB_USE_INLINE": "1",
            "NCCL_NET_OPTIONAL_RECV_COMPLETION": "1",
        },
    ),
    # With RoCE the GID index is usually 3; with InfiniBand it must not be set. So only a config sets it.
    Nic("cx7", "NVIDIA ConnectX-7", "mlx5", ("mlx5_",), env={"NCCL_CUMEM_ENABLE": "0", "NCCL_DMABUF_ENABLE": "1"}),
)
NICS: Mapping[str, Nic] = MappingProxyType({nic.name: nic for nic in _FAMILIES})

assert set(NICS) == set(get_args(NicName))
