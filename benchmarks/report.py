"""Measure the report of two runs of a million steps against its limits: 10 s, 2 GiB, 5 MB. Needs 1.1 GB of disk."""

import contextlib
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from steelyard.demo import RECORDED

STEPS = 1_000_000
LIMITS = {"seconds": 10.0, "GiB": 2.0, "MB": 5.0}


def write_run(directory: Path, seed: int) -> None:
    """Write a run of a million steps as the trainer records it, with spikes and a slow start."""
    shutil.copytree(RECORDED / "baseline", directory)
    manifest = json.loads((directory / "run.json").read_text())
    manifest["experiment"]["training"]["steps"] = manifest["steps"] = STEPS
    (directory / "run.json").write_text(json.dumps(manifest, indent=2))
    template = json.loads((directory / "steps.jsonl").read_text().splitlines()[0])
    chance = random.Random(seed)
    with (directory / "steps.jsonl").open("w") as file:
        for step in range(1, STEPS + 1):
            seconds = 2.1 * (1 + 0.01 * chance.gauss(0, 1)) + (5.0 if step < 20 or step % 77_777 == 0 else 0.0)
            rate = template["tokens"] / seconds
            template |= {
                "step": step,
                "reported_step": step,
                # Both runs start alike, so every tier of convergence is tested.
                "loss": 1.3 + 11.3 / math.sqrt(step) + (0.01 * chance.gauss(0, 1) if step > 20 else 0.0),
                "step_time_s": seconds,
                "tokens_per_s_per_gpu": rate,
                "tflops_per_gpu": rate * 0.0466,
                "reported_tokens_per_s_per_gpu": rate,
                "source": {"file": "logs/node0.log", "line": step + 2},
            }
            file.write(json.dumps(template, separators=(",", ":")) + "\n")


def measured(*words: str, cwd: Path) -> tuple[float, float, int]:
    """Run a command: seconds, peak GiB over all its processes, exit status."""
    before, peak = time.perf_counter(), 0
    process = psutil.Popen([sys.executable, "-m", "steelyard", *words], cwd=cwd, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):  # a process may end meanwhile
            tree = [process, *process.children(recursive=True)]
            peak = max(peak, sum(member.memory_info().rss for member in tree))
        time.sleep(0.01)
    return time.perf_counter() - before, peak / 1024**3, process.returncode


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        for seed, name in enumerate(("target", "baseline")):
            write_run(place / "runs" / name, seed)
        os.sync()  # late writes would be measured as reads
        size = (place / "runs" / "target" / "steps.jsonl").stat().st_size
        print(f"two runs of {STEPS:,} steps, {size / 1e6:,.0f} MB each")
        seconds, gib, status = measured("compare", "target", "baseline", "--name", "both", cwd=place)
        print(f"compare: {seconds:.1f} s, {gib:.2f} GiB, status {status}")
        seconds, gib, status = measured("report", "both", cwd=place)
        page = place / "runs" / "comparisons" / "both" / "report.html"
        measures = {"seconds": seconds, "GiB": gib, "MB": page.stat().st_size / 1e6}
        for unit, limit in LIMITS.items():
            print(f"report: {measures[unit]:.2f} {unit}, {measures[unit] / limit:.2f} of its limit of {limit:g}")
        before = time.perf_counter()
        with (place / "runs" / "target" / "steps.jsonl").open("rb") as file:
            lines = sum(1 for _ in file)
        print(f"a bare loop over the lines of one run: {time.perf_counter() - before:.2f} s ({lines:,} lines)")
    if status or any(measures[unit] >= limit for unit, limit in LIMITS.items()):
        sys.exit("a limit is exceeded")


if __name__ == "__main__":
    main()
