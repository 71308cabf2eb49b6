"""Imports logs and results as runs; each file is read forward, once, and again only if it holds several runs."""

from steelyard.ingestion.foreign import ingest
from steelyard.ingestion.request import Request, RunChoice
from steelyard.ingestion.sources import MOST_UNPACKED

__all__ = ["MOST_UNPACKED", "Request", "RunChoice", "ingest"]
