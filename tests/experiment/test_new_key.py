"""A key of the experiment is added in one place: planners refuse it until they map it, and older runs have a value."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import steelyard

FIXTURES = Path(__file__).parents[1] / "fixtures" / "version_0_1"
RUN = """
import json, sys
from pathlib import Path
import steelyard
from steelyard.comparison.contract import contract
from steelyard.comparison.side import side
from steelyard.frameworks.registry import planned
from steelyard.verdict import read_subject

FILE = '''
schema_version: 1
name: x
model: {preset: llama3.1-8b}
training: {micro_batch_size: 1, global_batch_size: 16, sequence_length: 2048, steps: 30, learning_rate: 1e-4,
           label_smoothing: 0.1}
platforms: {p: {gpu: mi300x, nodes: 1, gpus_per_node: 8, framework: FRAMEWORK}}
'''
for name in planned():
    Path("x.yaml").write_text(FILE.replace("FRAMEWORK", name))
    problems = steelyard.lint("x.yaml")
    print(name, any("training.label_smoothing" in problem.message for problem in problems))

def clause(target, baseline):
    runs = {"target": target, "baseline": baseline}
    sides = [side(name, (read_subject(steelyard.load(run)),)) for name, run in runs.items()]
    for each in contract(*sides):
        if each.dotted == "training.label_smoothing":
            return f"{each.status.value} {each.target} {each.baseline}"
    return "not listed"

print(clause("native", "hosts"))
print(clause("native", "ingested"))
manifest = json.loads(Path("hosts/run.json").read_text())
manifest["experiment"]["training"]["label_smoothing"] = 0.1
Path("hosts/run.json").write_text(json.dumps(manifest))
print(clause("native", "hosts"))
print(clause("hosts", "ingested"))
"""


@pytest.mark.processes
@pytest.mark.quick
def test_a_key_declares_what_runs_from_before_it_had(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(Path(steelyard.__file__).parent, source / "steelyard", ignore=shutil.ignore_patterns("__pycache__"))
    path = source / "steelyard" / "experiment" / "experiment.py"
    text, following = path.read_text(), "    tracking: Annotated[bool, OVERHEAD] = False\n"
    assert text.count(following) == 1
    key = "    label_smoothing: Annotated[float, ALGORITHM, Before(0.0)] = Field(default=0.0, ge=0, lt=1)\n"
    text = text.replace(following, f'{key}    """Share of the target spread over all tokens."""\n{following}')
    path.write_text(text.replace("policy import ALGORITHM,", "policy import Before, ALGORITHM,"))
    runs = shutil.copytree(FIXTURES, tmp_path / "runs")
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run([sys.executable, "-c", RUN], cwd=runs, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *frameworks, before, foreign, differing, unknown = done.stdout.splitlines()
    assert len(frameworks) == 6
    assert all(line.endswith(" True") for line in frameworks), frameworks
    assert (before, foreign) == ("equal 0.0 0.0", "not listed")
    assert (differing, unknown) == ("different 0.0 0.1", "unknown 0.1 None")
