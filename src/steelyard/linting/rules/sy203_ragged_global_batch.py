"""The global batch is not a whole number of micro-batches per data-parallel rank.

Why: the job stops, or trains with another batch and other tokens per step than planned.
Fix: make `global_batch_size` a multiple of `micro_batch_size` x data-parallel size.
"""

from steelyard import accounting
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY203", "error", may_be_allowed=False)


def check(case: Case) -> Problems:
    training = case.resolved.experiment.training
    replicas = accounting.data_parallel_size(case.resolved.experiment.parallelism, case.placement.world_size)
    if replicas is None or case.reading.nodes_open:  # SY201 reports the first
        return
    batch, wave = training.global_batch_size, accounting.sequences_per_wave(training, replicas)
    if batch % wave:
        expected = f"a multiple of {wave} (micro-batch {training.micro_batch_size} x {replicas} data parallel)"
        yield RULE.wrong(case, "training.global_batch_size", batch, expected, -(-batch // wave) * wave)
