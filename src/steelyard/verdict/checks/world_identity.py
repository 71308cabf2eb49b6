"""The world is nodes x GPUs a node, tensor x pipeline x context x data parallel, and the plan's."""

import math
from collections.abc import Iterator

from steelyard.experiment.sources import DERIVED
from steelyard.frameworks.logs.said import WORLD_SIZE
from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("world_identity")
_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size", "data_parallel_size")
KEYS = (WORLD_SIZE, *(f"parallelism.{name}" for name in _SIZES))
"""What the log must not say otherwise than the plan."""


def check(subject: Subject) -> Iterator[Found]:
    if denied := subject.denied(*KEYS):
        yield CHECK.contradicted(denied)
        return
    platform = subject.run.manifest.platform
    world, at = platform.world_size, subject.evidence_of_manifest("world_size")
    sizes = [size for name in _SIZES if (size := subject.whole(f"parallelism.{name}")) is not None]
    missing = [name for name in _SIZES if subject.whole(f"parallelism.{name}") is None]
    if world is None:
        yield CHECK.unknown("how many GPUs it ran on is not known")
    elif platform.nodes and platform.gpus_per_node and platform.nodes * platform.gpus_per_node != world:
        found = platform.nodes * platform.gpus_per_node
        message = f"{platform.nodes} nodes x {platform.gpus_per_node} GPUs are {found}, and the world is {world}"
        yield CHECK.failed(message, found, world, at)
    elif missing and world % math.prod(sizes):
        words = " x ".join(f"{name} {subject.whole(f'parallelism.{name}')}" for name in _SIZES if name not in missing)
        yield CHECK.failed(f"the world of {world} is no multiple of {words}", math.prod(sizes), world, at)
    elif missing:
        yield CHECK.unknown(f"{', '.join(missing)} not known", None, world)
    elif subject.source("parallelism.data_parallel_size") == DERIVED:
        words = " x ".join(map(str, sizes[:-1]))
        message = f"tensor x pipeline x context parallel is {words}, which divides the world of {world}"
        yield CHECK.passed(f"{message}: {sizes[-1]} data parallel", math.prod(sizes[:-1]), world, at)
    else:
        product = math.prod(sizes)
        words = " x ".join(map(str, sizes))
        message = f"tensor x pipeline x context x data parallel is {words} = {product}, and the world is {world}"
        yield CHECK.judged(product == world, message, product, world, at)
