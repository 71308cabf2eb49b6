"""The whole story on one machine: runs, verdicts, one comparison that holds and one that is refused."""

from pathlib import Path

RECORDED = Path(__file__).parent / "recorded"
"""Runs that were recorded on an H200, for a machine without torch."""
