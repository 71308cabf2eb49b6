"""`check` of a run of 13.8 million steps, as a long log is read: seconds and peak memory. Needs 4 GB of disk."""

import argparse
import json
import math
import random
import shutil
import sys
import tempfile
from pathlib import Path

from report import measured
from steelyard.demo import RECORDED
from steelyard.records.rows import StepRows

STEPS = 13_800_000
LIMIT_GIB = 1.0
_ROWS = 100_000


def write_run(directory: Path, steps: int) -> None:
    """Steps with a loss, a gradient norm, a step time and a rate, each with its own value and its line of the log."""
    shutil.copytree(RECORDED / "baseline", directory)
    manifest = json.loads((directory / "run.json").read_text())
    manifest["experiment"]["training"]["steps"] = manifest["steps"] = steps
    (directory / "run.json").write_text(json.dumps(manifest, indent=2))
    template = json.loads((directory / "steps.jsonl").read_text().splitlines()[0])
    same = {"steps_covered": 1, "tokens": template["tokens"], "memory_gib": 60.5, "memory_kind": "torch_reserved_peak"}
    chance = random.Random(1)
    noise = [chance.gauss(0, 1) for _ in range(9973)]
    with (directory / "steps.jsonl").open("wb") as file:
        for begin in range(1, steps + 1, _ROWS):
            numbers = range(begin, min(begin + _ROWS, steps + 1))
            drawn = [noise[number % len(noise)] for number in numbers]
            seconds = [round(2.1 * (1 + 0.01 * one), 6) for one in drawn]
            rates = [template["tokens"] / one for one in seconds]
            columns = {
                "step": list(numbers),
                "loss": [1.3 + 11.3 / math.sqrt(at) + 0.01 * one for at, one in zip(numbers, drawn, strict=True)],
                "grad_norm": [round(1 + 0.1 * one, 3) for one in drawn],
                "step_time_s": seconds,
                "tokens_per_s_per_gpu": rates,
            }
            rows = StepRows(same=same, columns=columns, log="logs/node0.log", numbers=[at + 2 for at in numbers])
            file.write(rows.lines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        write_run(place / "runs" / "long", steps)
        size = (place / "runs" / "long" / "steps.jsonl").stat().st_size
        print(f"a run of {steps:,} steps, {size / 1e6:,.0f} MB")
        seconds, gib, status = measured("check", "long", cwd=place)
        print(f"check: {seconds:.1f} s, {gib:.2f} GiB, status {status}")
    if gib >= LIMIT_GIB:
        sys.exit(f"over its limit of {LIMIT_GIB:g} GiB")


if __name__ == "__main__":
    main()
