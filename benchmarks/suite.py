"""`runs list`, `check` and `report` of a suite of 1,000 cells: seconds and peak memory, against 60 s and 1 GiB."""

import argparse
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

from report import measured
from steelyard.demo import RECORDED
from steelyard.records.suite import Suite, SuiteCell, SuiteManifest

CELLS, STEPS = 1_000, 100
LIMITS = {"s": 60.0, "GiB": 1.0}
AXES = ("training.micro_batch_size", "training.sequence_length")


def write_suite(directory: Path, cells: int) -> None:
    """Cells of one run with a hundred steps each; every run has its own times."""
    chance, template = random.Random(1), RECORDED / "baseline"
    lines = (template / "steps.jsonl").read_text().splitlines()[:STEPS]
    steps = [json.loads(line) for line in lines]
    described = []
    for at in range(cells):
        values = dict(zip(AXES, (1 + at % 10, 1024 * (1 + at // 10)), strict=True))
        name = f"cell-{at}"
        run = directory / name / "repeat-1"
        shutil.copytree(template, run, ignore=shutil.ignore_patterns("telemetry.jsonl", "logs", "steps.jsonl"))
        (run / "logs").mkdir()
        (run / "telemetry.jsonl").touch()
        manifest = json.loads((run / "run.json").read_text())
        manifest["experiment"]["training"]["steps"] = manifest["steps"] = len(steps)
        (run / "run.json").write_text(json.dumps(manifest))
        noise = [1 + 0.01 * chance.gauss(0, 1) for _ in steps]
        with (run / "steps.jsonl").open("w") as file:
            for step, own in zip(steps, noise, strict=True):
                rates = {key: step[key] / own for key in step if "tokens_per_s" in key or "tflops" in key}
                file.write(json.dumps({**step, "step_time_s": step["step_time_s"] * own, **rates}) + "\n")
        described.append(SuiteCell(name=name, directory=name, values=values, runs=["repeat-1"]))
    Suite(directory, SuiteManifest(name=directory.name, axes=list(AXES), cells=described)).save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=CELLS)
    cells, total, most = parser.parse_args().cells, 0.0, 0.0
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        write_suite(place / "runs" / "wide", cells)
        print(f"a suite of {cells:,} cells, {STEPS} steps each")
        for words in (("runs", "list"), ("check", "wide"), ("report", "wide")):
            seconds, gib, status = measured(*words, cwd=place)
            total, most = total + seconds, max(most, gib)
            print(f"{' '.join(words)}: {seconds:.1f} s, {gib:.2f} GiB, status {status}")
    print(f"together: {total:.1f} s (limit {LIMITS['s']:g}), {most:.2f} GiB (limit {LIMITS['GiB']:g})")
    if total >= LIMITS["s"] or most >= LIMITS["GiB"]:
        sys.exit("over its limit")


if __name__ == "__main__":
    main()
