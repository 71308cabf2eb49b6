"""World size = nodes x GPUs per node = tensor x pipeline x context x data parallel, as in the plan."""

import math
from collections.abc import Sequence

from steelyard.experiment.sources import DERIVED
from steelyard.frameworks.logs.settings import WORLD_SIZE
from steelyard.reasons import Code
from steelyard.verdict.figures import GPU_COUNT_UNKNOWN
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("world_identity")


def _product(sizes: Sequence[int]) -> str:
    names = ("tensor", "pipeline", "context", "data")
    return f"{' x '.join(f'{size} {name}' for size, name in zip(sizes, names, strict=True))} parallel"


WORLD_SIZE_MATCHES = Code(
    "world_size_matches", lambda sizes, expected, **_: f"world size {expected} = {_product(sizes)}"
)
"""The parallel sizes multiply to the world size."""
WORLD_SIZE_DIVIDES = Code(
    "world_size_divides",
    lambda sizes, data_parallel, expected, **_: f"world size {expected} = {_product((*sizes, data_parallel))}",
)
"""The parallel sizes divide the world size, and the data-parallel size follows from them."""
WORLD_SIZE_DIFFERS = Code(
    "world_size_differs",
    lambda sizes, expected, **_: f"{_product(sizes)} = {math.prod(sizes)}, but the world size is {expected}",
)
"""The parallel sizes do not multiply to the world size."""
WORLD_SIZE_NOT_DIVISIBLE = Code(
    "world_size_not_divisible",
    lambda sizes, expected, **_: (
        f"world size {expected} is not a multiple of {' x '.join(f'{name} {size}' for name, size in sizes.items())}"
    ),
)
"""The world size is not a multiple of the known parallel sizes."""
NODES_DIFFER_FROM_WORLD_SIZE = Code(
    "nodes_differ_from_world_size",
    "{nodes} nodes x {gpus_per_node} GPUs = {observed}, but the world size is {expected}",
)
"""Nodes x GPUs per node is not the world size."""
PARALLEL_SIZES_UNKNOWN = Code("parallel_sizes_unknown", lambda missing, **_: f"{', '.join(missing)} unknown")
"""At least one parallel size is unknown."""
_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size", "data_parallel_size")
KEYS = (WORLD_SIZE, *(f"parallelism.{name}" for name in _SIZES))
"""Settings whose logged value must equal the plan."""


def check(subject: Subject) -> Results:
    platform = subject.run.manifest.platform
    world, at = platform.world_size, subject.evidence_of_manifest("world_size")
    known = {name: size for name in _SIZES if (size := subject.whole(f"parallelism.{name}")) is not None}
    missing = [name for name in _SIZES if name not in known]
    sizes, product = tuple(known.values()), math.prod(known.values())
    if contradictions := subject.contradictions(*KEYS):
        yield CHECK.contradicted(contradictions)
    elif world is None:
        yield CHECK.unknown(GPU_COUNT_UNKNOWN)
    elif platform.nodes and platform.gpus_per_node and platform.nodes * platform.gpus_per_node != world:
        values = {"nodes": platform.nodes, "gpus_per_node": platform.gpus_per_node}
        yield CHECK.failed(NODES_DIFFER_FROM_WORLD_SIZE, math.prod(values.values()), world, at, **values)
    elif missing and world % product:
        yield CHECK.failed(WORLD_SIZE_NOT_DIVISIBLE, product, world, at, sizes=known)
    elif missing:
        yield CHECK.unknown(PARALLEL_SIZES_UNKNOWN, None, world, missing=missing)
    elif subject.source("parallelism.data_parallel_size") == DERIVED:
        *others, data = sizes
        yield CHECK.passed(WORLD_SIZE_DIVIDES, math.prod(others), world, at, sizes=others, data_parallel=data)
    else:
        codes = (WORLD_SIZE_MATCHES, WORLD_SIZE_DIFFERS)
        yield CHECK.judged(product == world, codes, product, world, at, sizes=sizes)
