"""A stated global batch that is not the batch MaxText trains.

Why: MaxText's global batch is per_device_batch_size x all GPUs; whoever reads batch_size computes with another job.
Fix: remove batch_size, or change per_device_batch_size.
"""

from collections.abc import Iterator

from steelyard.configs.suite.keys import JAX
from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY210", "error")


def check(case: Case) -> Iterator[Problem]:
    stated = case.reading.params.get("batch_size")
    if case.reading.family != JAX or stated is None:
        return
    batch, each = case.resolved.experiment.training.global_batch_size, case.reading.params["per_device_batch_size"]
    if case.reading.nodes_open:
        one = batch // case.placement.nodes
        nodes, ragged = divmod(stated.value, one)
        if nodes and not ragged:
            only = f"{nodes} nodes train" if nodes > 1 else "1 node trains"
            words = f"which only {only}: {each.value:g} a GPU is {one} a node"
        else:
            words = f"which no number of nodes trains: {each.value:g} a GPU is {one} a node"
        expected = f"{one} x the number of nodes"
    elif stated.value == batch:
        return
    else:
        gpus = case.placement.world_size
        words = f"and {each.value:g} a GPU on {gpus} GPUs is {batch}"
        expected = str(batch)
    yield RULE.at(
        case.reading,
        stated.path,
        message=f"batch_size is {stated.value}, {words}",
        fix="remove batch_size: nothing reads it",
        value=stated.value,
        expected=expected,
    )
