"""A stated global batch that is not the batch MaxText trains.

Why: MaxText's global batch is per_device_batch_size x all GPUs; whoever reads batch_size computes with another job.
Fix: remove batch_size, or change per_device_batch_size.
"""

from steelyard.configs.suite.keys import JAX
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY210", "error")


def check(case: Case) -> Problems:
    stated = case.reading.params.get("batch_size")
    if case.reading.family != JAX or stated is None:
        return
    batch = case.resolved.experiment.training.global_batch_size
    each = f"{case.reading.params['per_device_batch_size'].value:g} a GPU"
    if case.reading.nodes_open:
        per_node = batch // case.placement.nodes
        nodes, ragged = divmod(stated.value, per_node)
        only = f"only {nodes} nodes train" if nodes > 1 else "only 1 node trains"
        trained = only if nodes and not ragged else "no number of nodes trains"
        contradiction = f"which {trained}: {each} is {per_node} a node"
        expected = f"{per_node} x the number of nodes"
    elif stated.value == batch:
        return
    else:
        contradiction, expected = f"and {each} on {case.placement.world_size} GPUs is {batch}", str(batch)
    message, fix = f"batch_size is {stated.value}, {contradiction}", "remove batch_size: nothing reads it"
    yield RULE.at(case.reading, stated, message, fix, expected)
