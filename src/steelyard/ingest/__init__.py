"""Makes a run of a foreign log or result: read once, forward, whoever wrote it."""

from steelyard.ingest.foreign import Request, ingest

__all__ = ["Request", "ingest"]
