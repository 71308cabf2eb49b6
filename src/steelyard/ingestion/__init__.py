"""Makes a run of a foreign log or result: read once, forward, whoever wrote it."""

from steelyard.ingestion.foreign import Request, ingest
from steelyard.ingestion.sources import MOST_UNPACKED

__all__ = ["MOST_UNPACKED", "Request", "ingest"]
