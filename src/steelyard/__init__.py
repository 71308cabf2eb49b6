"""Steelyard weighs LLM training: it runs it, judges it against physics, and compares platforms."""

__version__ = "0.1.0"
