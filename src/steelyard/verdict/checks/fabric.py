"""The network the job was given is the one it uses: NCCL and RCCL fall back to sockets without a word of complaint."""

from collections.abc import Iterator

from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("fabric")


def check(subject: Subject) -> Iterator[Found]:
    found = subject.events_of("fabric")
    asked = next((event for event in found if "asked" in event.details), None)
    networks = [event for event in found if "network" in event.details]
    sockets = [event for event in networks if str(event.details["network"]).lower() == "socket"]
    cards = f" (asked: {asked.details['asked']})" if asked else ""
    if not networks:
        yield CHECK.unknown("no line of NCCL's or RCCL's start says which network is used", None, "NCCL_DEBUG=INFO")
    elif not sockets:
        names = ", ".join(dict.fromkeys(str(event.details["network"]) for event in networks))
        yield CHECK.passed(f"collectives go over {names}{cards}", names, None, networks[0].source)
    elif asked is not None:
        where = ", ".join(dict.fromkeys(event.node for event in sockets if event.node))
        message = f"collectives fell back to sockets{f' on {where}' if where else ''}, and network cards were asked for"
        yield CHECK.failed(f"{message}{cards}", "Socket", asked.details["asked"], sockets[0].source)
    else:
        message = "collectives go over sockets, and no line says that network cards were asked for"
        yield CHECK.unknown(message, "Socket", None, sockets[0].source)
