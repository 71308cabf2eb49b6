"""The network cards are up, and the same entry of their GID tables means the same on every host."""

from collections.abc import Iterator, Mapping

from steelyard.execute.preflight.facts import Facts, RdmaPort
from steelyard.execute.preflight.finding import Check, HostFinding
from steelyard.execute.preflight.needs import Needs
from steelyard.hardware.nics import NICS

NICS_UP = Check("nics")
GIDS = Check("gids")
INTERFACES = Check("interfaces")
CHECKS = (NICS_UP, GIDS, INTERFACES)

_ACTIVE = "ACTIVE"
_ROCE = "Ethernet"


def check(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    if needs.multi_node and (needs.hcas or needs.nic):
        for host, seen in facts.items():
            yield _up(needs, host, seen)
        yield from _gids(needs, facts)
    elif not needs.heads and len(facts) > 1 and any(seen.rdma for seen in facts.values()):  # no job is named
        spelt = {host: _spelt(seen.rdma) if seen.rdma is not None else None for host, seen in facts.items()}
        fix = "see the ports of the odd one out: `ibv_devinfo`, `ip link`"
        yield from NICS_UP.compared(spelt, "what is up of the RDMA ports", "they cannot be listed", fix)
        yield from _gids(needs, facts)
    for name in needs.interfaces:
        for host, seen in facts.items():
            yield _interface(host, name, seen)


def _spelt(ports: tuple[RdmaPort, ...]) -> str:
    up = [port for port in ports if port.state == _ACTIVE]
    return f"{len(up)} of {len(ports)}"


def chosen(needs: Needs, ports: tuple[RdmaPort, ...]) -> tuple[RdmaPort, ...]:
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
        return NICS_UP.unknown(host, "its RDMA devices cannot be listed", "run `ibv_devinfo` there", None, wanted)
    ports = chosen(needs, seen.rdma)
    there = {port.device for port in seen.rdma}
    named = [] if needs.hcas and needs.hcas[0].startswith("^") else needs.hcas
    missing = [name for name in named if not any(_names(needs, name, device) for device in there)]
    if missing or not ports:
        has = ", ".join(sorted(there)) or "none"
        message = f"it has no {', '.join(missing) or wanted}; its RDMA devices: {has}"
        return NICS_UP.failed(host, message, "load the cards' driver, or name those it has (network.hcas)", has, wanted)
    down = [f"{port.device} is {port.state}" for port in ports if port.state != _ACTIVE]
    if down:
        fix = "bring the link up: cable, switch port, `ip link set IFACE up`"
        return NICS_UP.failed(host, ", ".join(down), fix, f"{len(ports) - len(down)} up", f"{len(ports)} up")
    rates = ", ".join(sorted({port.rate for port in ports}))
    return NICS_UP.passed(host, f"{len(ports)} RDMA ports are up ({rates})", f"{len(ports)} up", f"{len(ports)} up")


def _gids(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    """Over InfiniBand there is nothing to agree on: the first entry is the port's own."""
    used = {host: _roce(chosen(needs, seen.rdma)) for host, seen in facts.items() if seen.rdma}
    if not any(used.values()):
        return
    index = needs.gid_index
    what = f"GID {index} of each port" if index is not None else "the first RoCE v2 GID on IPv4 of each port"
    fix = "give each port an address, and set network.gid_index to what `show_gids` lists alike on all hosts"
    meanings = {host: _meaning(ports, index) for host, ports in used.items() if ports}
    for host, meaning in meanings.items():
        if meaning == "":
            yield GIDS.failed(host, f"{what} is empty on some", fix, "empty", index)
    filled = {host: meaning for host, meaning in meanings.items() if meaning}
    yield from GIDS.compared(filled, what, "it is not listed", fix)


def _roce(ports: tuple[RdmaPort, ...]) -> tuple[RdmaPort, ...]:
    return tuple(port for port in ports if port.link_layer == _ROCE and port.state == _ACTIVE)


def _meaning(ports: tuple[RdmaPort, ...], index: int | None) -> str:
    """What the entry is on these ports, in words; nothing where one lacks it."""
    if index is None:
        first = [
            next((gid.index for gid in port.gids if gid.kind == "RoCE v2" and gid.is_ipv4), None) for port in ports
        ]
        return (
            ""
            if None in first
            else "entry " + " and ".join(str(one) for one in sorted({one for one in first if one is not None}))
        )
    found = [next((gid for gid in port.gids if gid.index == index), None) for port in ports]
    if None in found:
        return ""
    kinds = {f"{gid.kind or 'a GID'} on {'IPv4' if gid.is_ipv4 else 'IPv6'}" for gid in found if gid is not None}
    return " and ".join(sorted(kinds))


def _interface(host: str, name: str, seen: Facts) -> HostFinding:
    """An interface by the rules of NCCL_SOCKET_IFNAME: a name that begins so will do."""
    if seen.links is None:
        return INTERFACES.unknown(host, "its interfaces cannot be listed", "run `ip link` there", None, name)
    found = {link: state for link, state in seen.links.items() if link.startswith(name)}
    if not found:
        listed = ", ".join(sorted(link for link in seen.links if link != "lo")) or "none"
        fix = "name one that it has (network.socket_interface)"
        return INTERFACES.failed(host, f"it has no interface {name}; it has {listed}", fix, listed, name)
    if not any(state in ("up", "unknown") for state in found.values()):
        return INTERFACES.failed(host, f"interface {name} is down", f"`ip link set {name} up`", "down", "up")
    return INTERFACES.passed(host, f"interface {name} is up", "up", "up")
