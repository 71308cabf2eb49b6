"""Bundles of each kind, and what an attacker does to them."""

import hashlib
import json
import random
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import steelyard
from steelyard import demo
from steelyard.records.fleet import Fleet, FleetManifest, FleetRun
from steelyard.records.suite import LadderSides, Suite, SuiteCell, SuiteManifest, load_suite

KINDS = ("run", "comparison", "fleet", "suite", "suite_comparison")
MANIFEST = "bundle.json"
_RATES = ("tokens_per_s_per_gpu", "tflops_per_gpu", "reported_tokens_per_s_per_gpu")
_AXIS = "model.num_layers"


def make(kind: str, root: Path) -> Path:
    """A bundle of this kind in an empty directory, of recorded runs."""
    runs, bundle = root / "runs", root / f"{kind}.zip"
    name = getattr(_Made(runs), kind)()
    steelyard.report(name, to="html,md", bundle=bundle, out=runs)
    return bundle


class _Made:
    """Runs under a directory, and what is made of them: each method returns a name."""

    def __init__(self, runs: Path) -> None:
        self.runs, self.count = runs, 0

    def run(self) -> str:
        self._copy("first")
        steelyard.check("first", thresholds="step_time_s<=100", out=self.runs)
        return "first"

    def comparison(self) -> str:
        self._copy("first"), self._copy("again", "again")
        steelyard.compare("again", "first", metrics="throughput,memory,convergence", name="fair", out=self.runs)
        return "fair"

    def fleet(self) -> str:
        hosts = [f"g{at}" for at in range(3)]
        for host in hosts:
            self._copy(f"nightly/{host}")
        entries = [FleetRun(host=host, directory=host) for host in [*hosts, "absent"]]
        Fleet(self.runs / "nightly", FleetManifest(name="nightly", runs=entries)).save()
        return "nightly"

    def ladder(self) -> str:
        """A suite that names runs outside of it."""
        self._copy("a100/first"), self._copy("h100/first", "again")
        self.suite()
        sides = LadderSides(
            target="h100", baseline="a100", target_runs=["../h100/first"], baseline_runs=["../a100/first", "../absent"]
        )
        suite = load_suite(self.runs / "layers")
        suite.updated(ladder=sides).save()
        return "layers"

    def suite(self, name: str = "layers") -> str:
        cells = []
        for layers in (2, 4):
            places = [f"layers{layers}/repeat-{at}" for at in range(2)]
            for place in places:
                self._copy(f"{name}/{place}", layers=layers)
            values, own = {_AXIS: layers}, [place.partition("/")[2] for place in places]
            memory = {"planned_gib": 91.25, "available_gib": 79.25}
            cells.append(SuiteCell(name=f"l{layers}", directory=f"layers{layers}", values=values, runs=own, **memory))
        Suite(self.runs / name, SuiteManifest(name=name, axes=[_AXIS], cells=cells)).save()
        return name

    def suite_comparison(self) -> str:
        sides = self.runs / self.suite("ours"), self.runs / self.suite("theirs")
        made = steelyard.api.compare_suites(*sides, name="suites", out=self.runs)
        return made.directory.name

    def _copy(self, to: str, recording: str = "baseline", layers: int | None = None) -> None:
        """A recorded run under a name; each copy has step times of its own."""
        directory = self.runs / to
        shutil.copytree(demo.RECORDED / recording, directory)
        self.count += 1
        factor = 1 + 1e-3 * self.count
        steps = [json.loads(line) for line in (directory / "steps.jsonl").read_text().splitlines()]
        for step in steps:
            step["step_time_s"] *= factor
            step |= {name: step[name] / factor for name in _RATES if name in step}
        (directory / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
        if layers is not None:
            manifest = json.loads((directory / "run.json").read_text())
            manifest["experiment"]["model"]["num_layers"] = layers
            (directory / "run.json").write_text(json.dumps(manifest))


def files_of(bundle: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(bundle) as packed:
        return {entry.filename: packed.read(entry) for entry in packed.infolist()}


def pack(bundle: Path, files: Mapping[str, bytes], with_checksums: bool = False) -> Path:
    """Write a zip; `with_checksums` the manifest has those of the files, whatever they are."""
    if with_checksums:
        manifest = json.loads(files[MANIFEST])
        others = {name: content for name, content in files.items() if name != MANIFEST}
        manifest["files"] = {name: entry_of(content) for name, content in others.items()}
        files = {**files, MANIFEST: json.dumps(manifest).encode()}
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return bundle


def entry_of(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def changed(files: Mapping[str, bytes], chance: random.Random) -> tuple[dict[str, bytes], str]:
    """The files with one change at random, and which was changed: a digit, a field of a step, or a whole file."""
    names = sorted(files.keys() - {MANIFEST})
    match chance.choice(["report", "any", "step", "removed"]):
        case "report":
            name = chance.choice([name for name in names if name.startswith("report/")])
            content = _other_digit(files[name], chance)
        case "any":
            name = chance.choice(names)
            content = _other_digit(files[name], chance)
        case "step":
            name = chance.choice([name for name in names if name.endswith("steps.jsonl")])
            content = _other_step(files[name], chance)
        case _:
            name, content = chance.choice(names), None
    rest = {other: text for other, text in files.items() if other != name}
    return rest if content is None else {**rest, name: content}, name


def _other_digit(content: bytes, chance: random.Random) -> bytes:
    at = chance.choice([match.start() for match in re.finditer(rb"\d", content)])
    digit = chance.choice([digit for digit in b"0123456789" if digit != content[at]])
    return content[:at] + bytes([digit]) + content[at + 1 :]


def _other_step(content: bytes, chance: random.Random) -> bytes:
    """A field of a step with another value: any step, in the steady window or not."""
    lines = content.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    step = json.loads(lines[at])
    key = chance.choice([name for name, value in step.items() if isinstance(value, int | float)])
    step[key] = step[key] + 1 if isinstance(step[key], int) else step[key] * 1.0001 + 1e-9
    lines[at] = json.dumps(step).encode() + b"\n"
    return b"".join(lines)
