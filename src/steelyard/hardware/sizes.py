"""Largest plausible cluster sizes; larger numbers are taken for a mistake."""

MAX_NODES = 16_384
"""A plan of this size takes 0.8 GiB."""
MAX_GPUS_PER_NODE = 1_024
