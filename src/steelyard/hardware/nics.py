"""Families of network cards: the environment variables and libraries that a multi-node job needs for each.

The values are those of AMD's public training and collective suites. A config may override them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, get_args

NicName = Literal["ainic", "thor2", "cx7"]


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
    installs: tuple[str, str] | None = None
    """A host library that replaces the one of the image before training: from, to."""


COMMON: Mapping[str, str] = MappingProxyType(
    {"NCCL_IB_TIMEOUT": "30", "NCCL_PXN_DISABLE": "0", "NCCL_IGNORE_CPU_AFFINITY": "1", "HSA_NO_SCRATCH_RECLAIM": "1"}
)
"""Variables for every family."""

_BNXT = "/usr/lib/x86_64-linux-gnu/libibverbs/libbnxt_re-rdmav34.so"
_FAMILIES = (
    Nic(
        "thor2",
        "Broadcom BCM57608",
        "bnxt_re",
        ("bnxt_re", "rocep"),
        env={"NCCL_IB_GID_INDEX": "3", "NCCL_CUMEM_ENABLE": "1", "NCCL_DMABUF_ENABLE": "1"},
        volumes={"/usr/local/lib/libbnxt_re-rdmav34.so": f"{_BNXT}.host", "/lib/libibverbs.d": "/lib/libibverbs.d"},
        installs=(f"{_BNXT}.host", _BNXT),
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
