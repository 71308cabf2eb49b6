"""How large a cluster may be before its numbers are taken for a mistake."""

MAX_NODES = 16_384
"""Of one plan, which takes 0.8 GiB then."""
MAX_GPUS_PER_NODE = 1_024
