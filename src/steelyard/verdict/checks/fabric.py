"""Collectives use the requested network: NCCL and RCCL fall back to sockets silently."""

from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("fabric")


def _cards(requested: str | None) -> str:
    return "" if requested is None else f" (requested: {requested})"


def _fallback(nodes: str, requested: str | None, **_: object) -> str:
    why = "although other nodes use network cards" if requested is None else "although network cards were requested"
    return (
        f"collectives fell back to sockets{f' on {nodes}' if nodes else ''}, {why}{_cards(requested)}; "
        "check the network cards and NCCL_IB_HCA"
    )


FABRIC_IN_USE = Code("fabric_in_use", lambda observed, requested, **_: f"collectives use {observed}{_cards(requested)}")
"""NCCL or RCCL uses a network other than sockets."""
FABRIC_FELL_BACK = Code("fabric_fell_back", _fallback)
"""NCCL or RCCL uses sockets, although network cards were requested or other nodes use theirs."""
FABRIC_SOCKETS = Code(
    "fabric_sockets", "collectives use sockets; the log does not show whether network cards were requested"
)
"""NCCL or RCCL uses sockets, and the log does not show whether network cards were requested."""
FABRIC_NOT_LOGGED = Code("fabric_not_logged", "no NCCL/RCCL startup lines in the log; set NCCL_DEBUG=INFO")
"""The log contains no NCCL or RCCL startup lines; set NCCL_DEBUG=INFO."""


def check(subject: Subject) -> Results:
    events = subject.events_of("fabric")
    requested = next((cards for event in events if (cards := event.text("asked")) is not None), None)
    networks = [(event, network) for event in events if (network := event.text("network")) is not None]
    sockets = [event for event, network in networks if network.lower() == "socket"]
    if not networks:
        yield CHECK.unknown(FABRIC_NOT_LOGGED, None, "NCCL_DEBUG=INFO")
    elif not sockets:
        names = ", ".join(dict.fromkeys(network for _, network in networks))
        yield CHECK.passed(FABRIC_IN_USE, names, None, networks[0][0].source, requested=requested)
    elif requested is not None or len(sockets) < len({event.node for event, _ in networks}):
        nodes = ", ".join(dict.fromkeys(event.node for event in sockets if event.node))
        expected = "IB" if requested is None else requested
        yield CHECK.failed(FABRIC_FELL_BACK, "Socket", expected, sockets[0].source, nodes=nodes, requested=requested)
    else:
        yield CHECK.unknown(FABRIC_SOCKETS, "Socket", None, sockets[0].source)
