"""The stated global batch is not the batch that MaxText trains.

Why: MaxText's global batch is per_device_batch_size x all GPUs. Anyone who uses batch_size computes with the wrong
batch.
Fix: remove batch_size, or change per_device_batch_size.
"""

from steelyard.configs.cvs.keys import JAX
from steelyard.linting.rule import Case, Edit, Problems, Rule

RULE = Rule("SY210", "error")


def check(case: Case) -> Problems:
    stated = case.reading.params.get("batch_size")
    if case.reading.family != JAX or stated is None:
        return
    batch = case.resolved.experiment.training.global_batch_size
    each = f"{case.reading.params['per_device_batch_size'].value:g} per GPU"
    if case.reading.nodes_open:
        per_node = batch // case.placement.nodes
        nodes, ragged = divmod(stated.value, per_node)
        fitting = f", so it fits {nodes} node{'s' * (nodes != 1)} only" if nodes and not ragged else ""
        trained = f"{each} is {per_node} per node{fitting}"
        expected = f"{per_node} x the number of nodes"
    elif stated.value == batch:
        return
    else:
        trained, expected = f"{each} on {case.placement.world_size} GPUs is {batch}", str(batch)
    message, fix = f"batch_size is {stated.value}, but {trained}", "remove batch_size: nothing reads it"
    yield RULE.at(case.reading, stated, message, fix, expected, corrections=[Edit(stated.path)])
