"""What the loss must be before anything is learned, and what it can never go below."""

import math

from steelyard.experiment.experiment import Data
from steelyard.experiment.model import Model


def first_loss(model: Model, init_method_std: float, padded_vocab_size: int) -> float:
    """ln(V padded) + h sigma^2 / 2: logits of an untrained model are N(0, h sigma^2) after the final norm."""
    return math.log(padded_vocab_size) + model.hidden_size * init_method_std**2 / 2


def loss_floor(data: Data, vocab_size: int, samples: int) -> float | None:
    """The entropy rate of a made source in nats a token, for a run of `samples` sequences.

    None for a corpus, whose entropy nobody knows, and for samples that repeat, which can be learned by heart.
    """
    if data.source == "tokens" or (data.samples is not None and data.samples < samples):
        return None
    from steelyard.trainer.tokens import entropy_rate

    return entropy_rate(data.source, vocab_size)


MOCK_FLOORS = {"counting": math.log(4095) / 2048}
"""Nats a token that Megatron's mock data cannot be learnt below: it counts 1, 2, 3 … and only where a document of 1 to
4095 tokens ends is not to be foreseen (megatron/core/datasets/gpt_dataset.py, MockGPTLowLevelDataset)."""
