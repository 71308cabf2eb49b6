"""Pure arithmetic without I/O: each figure that is checked, planned or compared is computed here, once."""

from steelyard.accounting.flops import Convention, flops_per_token, parameters
from steelyard.accounting.memory import (
    Layout,
    Memory,
    StateBytes,
    data_parallel_size,
    holds,
    layout,
    memory_gib,
    model_parallel_size,
    sequences_per_wave,
    state_bytes,
)
from steelyard.accounting.vocabularies import first_loss, loss_floor, padded_vocab_size

__all__ = ["Convention", "flops_per_token", "parameters"]
__all__ += ["Layout", "data_parallel_size", "holds", "layout", "model_parallel_size", "sequences_per_wave"]
__all__ += ["Memory", "StateBytes", "memory_gib", "state_bytes"]
__all__ += ["first_loss", "loss_floor", "padded_vocab_size"]
