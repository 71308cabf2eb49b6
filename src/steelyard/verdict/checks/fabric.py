"""The network the job was given is the one it uses: NCCL and RCCL fall back to sockets without a word of complaint."""

from collections.abc import Iterator

from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("fabric")


def check(subject: Subject) -> Iterator[Found]:
    found = subject.events_of("fabric")
    asked = next((event for event in found if event.text("asked") is not None), None)
    networks = [(event, network) for event in found if (network := event.text("network")) is not None]
    sockets = [event for event, network in networks if network.lower() == "socket"]
    cards = f" (asked: {asked.text('asked')})" if asked else ""
    if not networks:
        yield CHECK.unknown("no line of NCCL's or RCCL's start says which network is used", None, "NCCL_DEBUG=INFO")
    elif not sockets:
        names = ", ".join(dict.fromkeys(network for _, network in networks))
        yield CHECK.passed(f"collectives go over {names}{cards}", names, None, networks[0][0].source)
    elif asked is not None or len(sockets) < len({event.node for event, _ in networks}):
        where = ", ".join(dict.fromkeys(event.node for event in sockets if event.node))
        why = "and network cards were asked for" if asked else "and other nodes use their network cards"
        message = f"collectives fell back to sockets{f' on {where}' if where else ''}, {why}{cards}"
        yield CHECK.failed(message, "Socket", asked.text("asked") if asked else "IB", sockets[0].source)
    else:
        message = "collectives go over sockets, and no line says that network cards were asked for"
        yield CHECK.unknown(message, "Socket", None, sockets[0].source)
