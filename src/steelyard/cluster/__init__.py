"""WHERE: how this machine and others are reached; one module a transport and a word in the table."""

import importlib

from steelyard.cluster.transport import Process, Transport

MODULES = {name: f"{__name__}.{name}" for name in ("local",)}


def transport(name: str) -> Transport:
    """The transport of that name."""
    found: Transport = importlib.import_module(MODULES[name]).TRANSPORT
    return found


__all__ = ["MODULES", "Process", "Transport", "transport"]
