"""The questions about two sides' losses, one file each, in the order they are asked; the first that fails is named."""

from steelyard.comparison.tiers.tier import Answer, Pair, Tier

TIERS = ("first_loss", "first_steps", "level", "learning_speed", "reference", "stability")
"""After the contract, which decides whether the others mean anything; `reference` only where a loss is asked for."""

__all__ = ["TIERS", "Answer", "Pair", "Tier"]
