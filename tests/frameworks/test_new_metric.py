"""A metric of a step is added by its declaration and a label: it is then read, recorded, a column and compared."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import steelyard

LINE = (
    " iteration {step:8d}/      40 | consumed samples: {samples} | elapsed time per iteration (ms): 10.0 |"
    " global batch size: 64 | lm loss: 2.0 | z loss: {step}.5 | number of skipped iterations: 0 |"
    " number of nan iterations: {nans} |"
)
READ = """
import sys
import steelyard
from steelyard.comparison.files import fingerprint
from steelyard.records.columns import table
from steelyard.verdict import read_subject

run = steelyard.ingest("train.log", name="read")
columns = table(run.directory)
for name in ("z_loss", "nan_steps"):
    print(*columns.columns[name].values.tolist())
print(fingerprint(read_subject(run)))
steps = run.directory / "steps.jsonl"
steps.write_text(steps.read_text().replace('"z_loss":20.5', '"z_loss":20.25'))
print(fingerprint(read_subject(run)))
for name in sys.argv[1:]:
    print(fingerprint(read_subject(steelyard.load(name))))
"""
DIGESTS = {
    "native": "2bf6a19ce18fda0e1eb9f4f7f3e1e314",
    "ingested": "871d926b3d2a31805894481d5528da92",
    "hosts": "d73ccbd281780d19e013f2493373e751",
    "fleet/10.77.0.11": "772cf0747091214e8f25c7e9d3170478",
}
"""Fingerprints of runs of version 0.1 as comparisons of that version have them."""


@pytest.mark.processes
@pytest.mark.quick
def test_a_metric_is_declared_once_and_labelled_where_it_is_read(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(Path(steelyard.__file__).parent, source / "steelyard", ignore=shutil.ignore_patterns("__pycache__"))
    added = {
        "records/step.py": {
            "    grad_norm: float | None = None\n": "    z_loss: float | None = None\n",
            "    def derived(": "    nan_steps: TokenCount | None = None\n\n",
        },
        "frameworks/megatron_family/log.py": {
            'b"lm loss": Field("loss"),\n': 'b"z loss": Field("z_loss"),\n',
            'b"grad norm": Field("grad_norm"),\n': 'b"number of nan iterations": Field("nan_steps"),\n',
        },
    }
    for path, lines in added.items():
        text = (source / "steelyard" / path).read_text()
        for following, line in lines.items():
            assert text.count(following) == 1
            text = text.replace(following, line + following)
        (source / "steelyard" / path).write_text(text)
    steps = range(1, 41)
    log = "\n".join(LINE.format(step=step, samples=step * 64, nans=step % 2) for step in steps)
    (tmp_path / "train.log").write_text(log + "\n[after training is done]\n")
    environment = {**os.environ, "PYTHONPATH": str(source)}
    saved = [str(Path(__file__).parents[1] / "fixtures" / "version_0_1" / name) for name in DIGESTS]
    command = [sys.executable, "-c", READ, *saved]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *columns, before, after = done.stdout.splitlines()[: -len(saved)]
    assert before != after
    assert done.stdout.splitlines()[-len(saved) :] == list(DIGESTS.values())
    z_loss, nan_steps = ([float(word) for word in line.split()] for line in columns)
    assert z_loss == [step + 0.5 for step in steps]
    assert nan_steps == [step % 2 for step in steps]
    recorded = [json.loads(line) for line in (tmp_path / "runs/read/steps.jsonl").read_text().splitlines()]
    changed = [20.25 if step == 20 else step + 0.5 for step in steps]
    assert [(step["z_loss"], step["nan_steps"]) for step in recorded] == [
        (loss, step % 2) for loss, step in zip(changed, steps, strict=True)
    ]
