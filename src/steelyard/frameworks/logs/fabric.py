"""Which network NCCL or RCCL said it uses, and which cards it was asked to use."""

import re
from collections.abc import Iterator

from steelyard.frameworks.logs.dialect import Place, text_of
from steelyard.records.step import Event

_NETWORK = re.compile(rb"Using network (?P<network>[\w/.-]+)")
_PLUGIN = re.compile(rb"NET/(?P<network>IB|Socket|OFI|AWS Libfabric)\s*:\s*Using (?P<cards>\S.*)$")
_ASKED = re.compile(
    rb"\b(?:NCCL_IB_HCA|NCCL_NET)[\"']?(?: set by environment to| set to|\s*[=:])\s*[\"']?(?P<cards>[^\s;\"',]+)"
)
_HOST = re.compile(rb"(?P<host>[A-Za-z][\w.-]*):\d+:\d+ \[\d+\] NCCL INFO")


def evidence(text: bytes, place: Place) -> Iterator[Event]:
    """What a line says of the network."""
    host = _HOST.search(text)
    node = host["host"].decode("ascii", "replace") if host else place.origin.node
    for pattern, name in ((_ASKED, "asked"), (_PLUGIN, "network"), (_NETWORK, "network")):
        found = pattern.search(text)
        if found is None:
            continue
        value = found["cards" if name == "asked" else "network"].decode("utf-8", "replace")
        yield Event(kind="fabric", message=text_of(text), node=node, source=place.evidence, details={name: value})
        return
