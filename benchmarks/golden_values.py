"""Compares one job on several platforms: the golden values of Megatron-LM's tests, which stay outside the repository.

git archive HEAD tests/functional_tests/test_cases | tar x -C FOLDER   # in a clone of NVIDIA/Megatron-LM
python benchmarks/golden_values.py FOLDER

Each file golden_values_ENVIRONMENT_dgx_GPU.json has the losses of a case on one platform, next to the case's arguments.
Every pair of platforms of a case is compared for convergence. Pairs with records of the same steps are one job; a pair
with other steps was recorded in other years, often with another data set, and is counted apart.
"""

import json
import math
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import chdir
from itertools import combinations
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

import steelyard
from steelyard.comparison import Comparison
from steelyard.frameworks.megatron_family.facts import DEFAULTS, NAMES
from steelyard.records import Run

PLATFORM = re.compile(r"golden_values_(?P<environment>dev|lts)_dgx_(?P<gpu>[a-z0-9]+)\.json")
FEWEST = 10
Losses = Mapping[int, float]


def losses(path: Path) -> Losses:
    """The valid losses by step; older files are lists of every fifth step."""
    try:
        content = json.loads(path.read_text()).get("lm loss", {})
    except json.JSONDecodeError:  # some files are empty
        return {}
    values = content.get("values", {})
    if isinstance(values, list):
        values = {max(1, at * content["step_interval"]): value for at, value in enumerate(values)}
    numbers = {int(step): float(value) for step, value in values.items() if value is not None}
    return {step: value for step, value in numbers.items() if math.isfinite(value) and value > 0}


def settings(case: Path) -> dict[str, Any]:
    """The case's arguments as experiment keys, with Megatron's defaults for the others."""
    arguments = YAML(typ="safe").load(case / "model_config.yaml").get("MODEL_ARGS", {})
    given = {name.lstrip("-").replace("-", "_"): value for name, value in arguments.items()}
    keys = {key: value for key, value in DEFAULTS.items() if value is not None}
    for key, name in NAMES.items():
        if key not in _UNSET and name in given and "$" not in str(given[name]):
            keys[key] = given[name]
    if given.get("fp16"):
        keys |= {"precision.dtype": "fp16", "precision.loss_scale": "dynamic"}
    else:
        keys["precision.dtype"] = "bf16" if given.get("bf16") else "fp32"
    return keys | {"data.seed": keys["training.seed"], "data.source": "tokens", "data.path": "/data/ci"}


_UNSET = ("model.tied_embeddings", "training.recompute", "training.checkpointing", "training.tracking")


def ingested(case: Path, path: Path, gpu: str) -> Run:
    rows = [f"{step},{loss!r},1" for step, loss in sorted(losses(path).items())]
    name = f"{case.name}-{path.stem.removeprefix('golden_values_')}"
    Path(f"{name}.csv").write_text("\n".join(["step,loss,steps_covered", *rows]) + "\n")
    keys = [f"{key}={json.dumps(value)}" for key, value in settings(case).items()]
    return steelyard.ingest(f"{name}.csv", name=name, framework="megatron", gpu=gpu, gpus=8, settings=keys)


def compared(folder: Path) -> Iterator[tuple[str, str, str, Comparison]]:
    """Kind of pair, whether its records are of the same steps, the case, and the comparison."""
    cases: dict[Path, dict[tuple[str, str], Path]] = defaultdict(dict)
    for path in sorted(folder.rglob("golden_values_*.json")):
        if (match := PLATFORM.fullmatch(path.name)) and len(losses(path)) >= FEWEST:
            cases[path.parent][match["environment"], match["gpu"]] = path
    for case, platforms in cases.items():
        runs = {key: ingested(case, path, key[1]) for key, path in platforms.items()} if len(platforms) > 1 else {}
        for target, baseline in combinations(runs, 2):
            kind = " / ".join(" ".join(platform) for platform in (target, baseline))
            steps = [set(losses(platforms[platform])) for platform in (target, baseline)]
            records = "same steps" if steps[0] == steps[1] else "other steps"
            made = steelyard.compare(runs[target], runs[baseline], metrics=("convergence",))
            yield kind, records, case.name, made


def main(folder: Path) -> None:
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        for kind, records, case, made in compared(folder):
            counts[records, kind][made.convergence.status] += 1
            if made.convergence.status in ("not_equivalent", "not_comparable"):
                tier = made.convergence.tiers[-1]
                print(f"{records}, {kind}, {case}: {tier.message}", file=sys.stderr)
            elif os.environ.get("OPEN"):
                print(
                    kind, case, *(f"{t.tier}={t.status}:{t.observed}" for t in made.convergence.tiers), file=sys.stderr
                )
    words = ("equivalent", "not_equivalent", "not_comparable", "unknown")
    print(f"| records | pair | pairs | {' | '.join(words)} |\n{'| --- ' * (3 + len(words))}|")
    for (records, kind), count in sorted(counts.items(), reverse=True):
        print(f"| {records} | {kind} | {count.total()} | {' | '.join(str(count[word]) for word in words)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
