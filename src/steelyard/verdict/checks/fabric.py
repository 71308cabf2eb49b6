"""The network the job was given is the one it uses: NCCL and RCCL fall back to sockets without a word of complaint."""

from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("fabric")


def _cards(asked: str | None) -> str:
    return "" if asked is None else f" (asked: {asked})"


def _fallback(nodes: str, asked: str | None, **_: object) -> str:
    why = "and other nodes use their network cards" if asked is None else "and network cards were asked for"
    return f"collectives fell back to sockets{f' on {nodes}' if nodes else ''}, {why}{_cards(asked)}"


FABRIC_IN_USE = Code("fabric_in_use", lambda observed, asked, **_: f"collectives go over {observed}{_cards(asked)}")
"""NCCL or RCCL uses a network other than sockets."""
FABRIC_FELL_BACK = Code("fabric_fell_back", _fallback)
"""NCCL or RCCL uses sockets, although network cards were requested or other nodes use theirs."""
FABRIC_SOCKETS = Code(
    "fabric_sockets", "collectives go over sockets, and no line says that network cards were asked for"
)
"""NCCL or RCCL uses sockets, and the log does not show whether network cards were requested."""
FABRIC_NOT_LOGGED = Code("fabric_not_logged", "no line of NCCL's or RCCL's start says which network is used")
"""The log contains no NCCL or RCCL startup lines; set NCCL_DEBUG=INFO."""


def check(subject: Subject) -> Results:
    events = subject.events_of("fabric")
    asked = next((cards for event in events if (cards := event.text("asked")) is not None), None)
    networks = [(event, network) for event in events if (network := event.text("network")) is not None]
    sockets = [event for event, network in networks if network.lower() == "socket"]
    if not networks:
        yield CHECK.unknown(FABRIC_NOT_LOGGED, None, "NCCL_DEBUG=INFO")
    elif not sockets:
        names = ", ".join(dict.fromkeys(network for _, network in networks))
        yield CHECK.passed(FABRIC_IN_USE, names, None, networks[0][0].source, asked=asked)
    elif asked is not None or len(sockets) < len({event.node for event, _ in networks}):
        nodes = ", ".join(dict.fromkeys(event.node for event in sockets if event.node))
        expected = "IB" if asked is None else asked
        yield CHECK.failed(FABRIC_FELL_BACK, "Socket", expected, sockets[0].source, nodes=nodes, asked=asked)
    else:
        yield CHECK.unknown(FABRIC_SOCKETS, "Socket", None, sockets[0].source)
