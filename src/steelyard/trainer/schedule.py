"""The learning rate of each step."""

import math

from steelyard.trainer.spec import TrainingSpec


def learning_rate(training: TrainingSpec, step: int) -> float:
    """Rate of 1-based `step`: up linearly to the peak at `warmup_steps`, then down to the minimum at `decay_steps`.

    Which are all steps unless fewer or more are said; past them the rate stays at its minimum.
    """
    peak, low, warmup = training.learning_rate, training.min_learning_rate, training.warmup_steps
    if step <= warmup:
        return peak * step / warmup
    if training.schedule == "constant":
        return peak
    done = min(1.0, (step - warmup) / max(1, (training.decay_steps or training.steps) - warmup))
    left = (1 + math.cos(math.pi * done)) / 2 if training.schedule == "cosine" else 1 - done
    return low + (peak - low) * left
