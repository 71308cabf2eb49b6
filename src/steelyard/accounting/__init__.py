"""Pure arithmetic, no I/O: every figure that is judged, linted, planned or compared is computed here, once."""

from steelyard.accounting.flops import Convention, flops_by_convention, flops_per_token
from steelyard.accounting.layout import (
    Layout,
    data_parallel_size,
    holds,
    layout,
    model_parallel_size,
    sequences_per_wave,
)
from steelyard.accounting.loss import first_loss, loss_floor
from steelyard.accounting.memory import Memory, StateBytes, memory_gib, state_bytes
from steelyard.accounting.parameters import Parameters, padded_vocab_size, parameters

__all__ = [
    "Convention",
    "Layout",
    "Memory",
    "Parameters",
    "StateBytes",
    "data_parallel_size",
    "first_loss",
    "flops_by_convention",
    "flops_per_token",
    "holds",
    "layout",
    "loss_floor",
    "memory_gib",
    "model_parallel_size",
    "padded_vocab_size",
    "parameters",
    "sequences_per_wave",
    "state_bytes",
]
