"""`gradient_accumulation_steps` contradicts the batch sizes.

Why: it follows from them. If it disagrees, the intended batch is unclear.
Fix: remove it, or correct the batch that it contradicts.
"""

from steelyard import accounting
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY204", "error")


def check(case: Case) -> Problems:
    training = case.resolved.experiment.training
    replicas = accounting.data_parallel_size(case.resolved.experiment.parallelism, case.placement.world_size)
    given, batch, micro = training.gradient_accumulation_steps, training.global_batch_size, training.micro_batch_size
    if given is None or replicas is None:
        return
    derived, ragged = divmod(batch, accounting.sequences_per_wave(training, replicas))
    if not ragged and given != derived:
        expected = f"{derived} (global batch {batch} / micro-batch {micro} / {replicas} data parallel)"
        yield RULE.wrong(case, "training.gradient_accumulation_steps", given, expected, derived)
