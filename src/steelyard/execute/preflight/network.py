"""The network cards are up, and the same entry of their GID tables means the same on every host."""

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
RDMA_MISSING = Code("rdma_missing", "it has no {missing}; its RDMA devices: {observed}")
"""The host does not have an RDMA device that the config names."""
RDMA_UNKNOWN = Code("rdma_unknown", "its RDMA devices cannot be listed")
"""The RDMA devices of the host cannot be listed."""
GID_EMPTY = Code("gid_empty", "{subject} is empty on some")
"""A port has no address at the GID index that the job uses."""
INTERFACE_UP = Code("interface_up", "interface {name} is up")
"""The network interface is up."""
INTERFACE_DOWN = Code("interface_down", "interface {name} is down")
"""The network interface is down."""
INTERFACE_MISSING = Code("interface_missing", "it has no interface {name}; it has {observed}")
"""The host does not have the network interface that the config names."""
INTERFACE_UNKNOWN = Code("interface_unknown", "its interfaces cannot be listed")
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
        fix = "see the ports of the odd one out: `ibv_devinfo`, `ip link`"
        yield from NICS_UP.compared(up, "what is up of the RDMA ports", "they cannot be listed", fix)
        yield from _gids(needs, facts)
    for name in needs.interfaces:
        for host, seen in facts.items():
            yield _interface(host, name, seen)


def _count_up(ports: Ports) -> str:
    return f"{sum(port.state == _ACTIVE for port in ports)} of {len(ports)}"


def _chosen(needs: Needs, ports: Ports) -> Ports:
    """The ports a job uses, by the rules of NCCL_IB_HCA: names begin so, `=` is exact, `^` all but."""
    if not needs.hcas:
        prefixes = NICS[needs.nic].hca_prefixes if needs.nic else ("",)
        return tuple(port for port in ports if port.device.startswith(prefixes))
    excluded = needs.hcas[0].startswith("^")
    return tuple(port for port in ports if any(_names(needs, name, port.device) for name in needs.hcas) != excluded)


def _names(needs: Needs, name: str, device: str) -> bool:
    bare = name.lstrip("^=").partition(":")[0]
    return device == bare if "=" in needs.hcas[0][:2] else device.startswith(bare)


def _up(needs: Needs, host: str, seen: Facts) -> HostFinding:
    wanted = ", ".join(needs.hcas) or (f"card of {NICS[needs.nic].product}" if needs.nic else "card")
    if seen.rdma is None:
        return NICS_UP.unknown(RDMA_UNKNOWN, host, "run `ibv_devinfo` there", None, wanted)
    ports = _chosen(needs, seen.rdma)
    there = {port.device for port in seen.rdma}
    named = [] if needs.hcas and needs.hcas[0].startswith("^") else needs.hcas
    missing = [name for name in named if not any(_names(needs, name, device) for device in there)]
    if missing or not ports:
        fix, has = "load the cards' driver, or name those it has (network.hcas)", ", ".join(sorted(there)) or "none"
        return NICS_UP.failed(RDMA_MISSING, host, fix, has, wanted, missing=", ".join(missing) or wanted)
    down = [f"{port.device} is {port.state}" for port in ports if port.state != _ACTIVE]
    observed, expected = f"{len(ports) - len(down)} up", f"{len(ports)} up"
    if down:
        fix = "bring the link up: cable, switch port, `ip link set IFACE up`"
        return NICS_UP.failed(RDMA_DOWN, host, fix, observed, expected, down=", ".join(down))
    rates = ", ".join(sorted({port.rate for port in ports}))
    return NICS_UP.passed(RDMA_UP, host, observed, expected, ports=len(ports), rates=rates)


def _gids(needs: Needs, facts: HostFacts) -> Findings:
    """Over InfiniBand there is nothing to agree on: the first entry is the port's own."""
    index = needs.gid_index
    subject = f"GID {index} of each port" if index is not None else "the first RoCE v2 GID on IPv4 of each port"
    fix = "give each port an address, and set network.gid_index to what `show_gids` lists alike on all hosts"
    meanings: dict[str, str | None] = {}
    for host, seen in facts.items():
        ports = [port for port in _chosen(needs, seen.rdma or ()) if (port.link_layer, port.state) == (_ROCE, _ACTIVE)]
        if not ports:
            continue
        if meaning := _meaning(ports, index):
            meanings[host] = meaning
        else:
            yield GIDS.failed(GID_EMPTY, host, fix, "empty", index, subject=subject)
    yield from GIDS.compared(meanings, subject, "it is not listed", fix)


def _meaning(ports: list[RdmaPort], index: int | None) -> str:
    """What the entry is on these ports, in words; nothing where one lacks it."""
    if index is None:
        roce = [[gid.index for gid in port.gids if gid.kind == "RoCE v2" and gid.is_ipv4][:1] for port in ports]
        entries = sorted({entry for first in roce for entry in first})
        return f"entry {' and '.join(map(str, entries))}" if all(roce) else ""
    gids = [next((gid for gid in port.gids if gid.index == index), None) for port in ports]
    kinds = {f"{gid.kind or 'a GID'} on {'IPv4' if gid.is_ipv4 else 'IPv6'}" for gid in gids if gid is not None}
    return "" if None in gids else " and ".join(sorted(kinds))


def _interface(host: str, name: str, seen: Facts) -> HostFinding:
    """An interface by the rules of NCCL_SOCKET_IFNAME: a name that begins so will do."""
    if seen.links is None:
        return INTERFACES.unknown(INTERFACE_UNKNOWN, host, "run `ip link` there", None, name)
    states = [state for link, state in seen.links.items() if link.startswith(name)]
    if not states:
        listed = ", ".join(sorted(link for link in seen.links if link != "lo")) or "none"
        fix = "name one that it has (network.socket_interface)"
        return INTERFACES.failed(INTERFACE_MISSING, host, fix, listed, name, name=name)
    if not {"up", "unknown"} & set(states):
        return INTERFACES.failed(INTERFACE_DOWN, host, f"`ip link set {name} up`", "down", "up", name=name)
    return INTERFACES.passed(INTERFACE_UP, host, "up", "up", name=name)
