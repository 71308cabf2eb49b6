"""Checks that network cards are up and that a GID index means the same on every host."""

from steelyard.execute.preflight.facts import Facts, HostFacts, RdmaPort
from steelyard.execute.preflight.finding import Check, Findings, HostFinding
from steelyard.execute.preflight.needs import Needs
from steelyard.hardware.nics import NICS
from steelyard.reasons import Code

NICS_UP = Check("nics")
GIDS = Check("gids")
INTERFACES = Check("interfaces")
CHECKS = (NICS_UP, GIDS, INTERFACES)

RDMA_UP = Code("rdma_up", "{ports} RDMA ports are up ({rates})")
"""All RDMA ports that the job uses are up."""
RDMA_DOWN = Code("rdma_down", "{down}")
"""An RDMA port that the job uses is not active."""
RDMA_MISSING = Code("rdma_missing", "{missing} not found; RDMA devices: {observed}")
"""The host does not have an RDMA device that the config names."""
RDMA_UNKNOWN = Code("rdma_unknown", "cannot list the RDMA devices")
"""The RDMA devices of the host cannot be listed."""
GID_EMPTY = Code("gid_empty", "{subject} is empty on some ports")
"""A port has no address at the GID index that the job uses."""
INTERFACE_UP = Code("interface_up", "interface {name} is up")
"""The network interface is up."""
INTERFACE_DOWN = Code("interface_down", "interface {name} is down")
"""The network interface is down."""
INTERFACE_MISSING = Code("interface_missing", "interface {name} not found; interfaces: {observed}")
"""The host does not have the network interface that the config names."""
INTERFACE_UNKNOWN = Code("interface_unknown", "cannot list the interfaces")
"""The network interfaces of the host cannot be listed."""

_ACTIVE = "ACTIVE"
_ROCE = "Ethernet"

Ports = tuple[RdmaPort, ...]


def check(needs: Needs, facts: HostFacts) -> Findings:
    if needs.over_rdma:
        for host, seen in facts.items():
            yield _up(needs, host, seen)
        yield from _gids(needs, facts)
    elif not needs.heads and len(facts) > 1 and any(seen.rdma for seen in facts.values()):  # no job is named
        up = {host: None if seen.rdma is None else _count_up(seen.rdma) for host, seen in facts.items()}
        fix = "check the ports of the host that differs: `ibv_devinfo`, `ip link`"
        yield from NICS_UP.compared(up, "RDMA ports up", "cannot list them", fix)
        yield from _gids(needs, facts)
    for name in needs.interfaces:
        for host, seen in facts.items():
            yield _interface(host, name, seen)


def _count_up(ports: Ports) -> str:
    return f"{sum(port.state == _ACTIVE for port in ports)} of {len(ports)}"


def _chosen(needs: Needs, ports: Ports) -> Ports:
    """The ports a job uses, by the rules of NCCL_IB_HCA: prefixes; `=` exact names; `^` all except."""
    if not needs.hcas:
        prefixes = NICS[needs.nic].hca_prefixes if needs.nic else ("",)
        return tuple(port for port in ports if port.device.startswith(prefixes))
    excluded = needs.hcas[0].startswith("^")
    return tuple(port for port in ports if any(_names(needs, name, port.device) for name in needs.hcas) != excluded)


def _names(needs: Needs, name: str, device: str) -> bool:
    bare = name.lstrip("^=").partition(":")[0]
    return device == bare if "=" in needs.hcas[0][:2] else device.startswith(bare)


def _up(needs: Needs, host: str, seen: Facts) -> HostFinding:
    wanted = ", ".join(needs.hcas) or (f"{NICS[needs.nic].product} card" if needs.nic else "RDMA card")
    if seen.rdma is None:
        return NICS_UP.unknown(RDMA_UNKNOWN, host, "run `ibv_devinfo` on the host", None, wanted)
    ports = _chosen(needs, seen.rdma)
    present = {port.device for port in seen.rdma}
    named = [] if needs.hcas and needs.hcas[0].startswith("^") else needs.hcas
    missing = [name for name in named if not any(_names(needs, name, device) for device in present)]
    if missing or not ports:
        fix, observed = "load the card's driver, or set network.hcas", ", ".join(sorted(present)) or "none"
        return NICS_UP.failed(RDMA_MISSING, host, fix, observed, wanted, missing=", ".join(missing) or wanted)
    down = [f"{port.device} is {port.state}" for port in ports if port.state != _ACTIVE]
    observed, expected = f"{len(ports) - len(down)} up", f"{len(ports)} up"
    if down:
        fix = "check cable and switch port, or `ip link set IFACE up`"
        return NICS_UP.failed(RDMA_DOWN, host, fix, observed, expected, down=", ".join(down))
    rates = ", ".join(sorted({port.rate for port in ports}))
    return NICS_UP.passed(RDMA_UP, host, observed, expected, ports=len(ports), rates=rates)


def _gids(needs: Needs, facts: HostFacts) -> Findings:
    """RoCE only: on InfiniBand, the first entry is always the port's own."""
    index = needs.gid_index
    subject = f"GID {index} of each port" if index is not None else "first RoCE v2 GID on IPv4 of each port"
    fix = "give each port an address, and set network.gid_index to an entry that `show_gids` lists on all hosts"
    meanings: dict[str, str | None] = {}
    for host, seen in facts.items():
        ports = [port for port in _chosen(needs, seen.rdma or ()) if (port.link_layer, port.state) == (_ROCE, _ACTIVE)]
        if not ports:
            continue
        if meaning := _meaning(ports, index):
            meanings[host] = meaning
        else:
            yield GIDS.failed(GID_EMPTY, host, fix, "empty", index, subject=subject)
    yield from GIDS.compared(meanings, subject, "not listed", fix)


def _meaning(ports: list[RdmaPort], index: int | None) -> str:
    """The entry on these ports, in words; empty if a port lacks it."""
    if index is None:
        roce = [[gid.index for gid in port.gids if gid.kind == "RoCE v2" and gid.is_ipv4][:1] for port in ports]
        entries = sorted({entry for first in roce for entry in first})
        return f"entry {' and '.join(map(str, entries))}" if all(roce) else ""
    gids = [next((gid for gid in port.gids if gid.index == index), None) for port in ports]
    kinds = {f"{gid.kind or 'a GID'} on {'IPv4' if gid.is_ipv4 else 'IPv6'}" for gid in gids if gid is not None}
    return "" if None in gids else " and ".join(sorted(kinds))


def _interface(host: str, name: str, seen: Facts) -> HostFinding:
    """An interface by the rules of NCCL_SOCKET_IFNAME: the name is a prefix."""
    if seen.links is None:
        return INTERFACES.unknown(INTERFACE_UNKNOWN, host, "run `ip link` on the host", None, name)
    states = [state for link, state in seen.links.items() if link.startswith(name)]
    if not states:
        listed = ", ".join(sorted(link for link in seen.links if link != "lo")) or "none"
        fix = "set network.socket_interface to one of its interfaces"
        return INTERFACES.failed(INTERFACE_MISSING, host, fix, listed, name, name=name)
    if not {"up", "unknown"} & set(states):
        return INTERFACES.failed(INTERFACE_DOWN, host, f"`ip link set {name} up`", "down", "up", name=name)
    return INTERFACES.passed(INTERFACE_UP, host, "up", "up", name=name)
