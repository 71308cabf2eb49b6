"""Memory on one measure: device memory by telemetry where both sides have it, else the kinds of the logs."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from steelyard import demo
from steelyard.comparison.device_memory import KIND


def copied(to: Path, used_gib: float | None, kind: str, devices: int = 1, samples: int = 5) -> Path:
    """A copy of a recorded run whose log measures memory in another way, with telemetry or without."""
    run = demo.RECORDED / "baseline"
    shutil.copytree(run, to)
    manifest = json.loads((run / "run.json").read_text())
    manifest["platform"] |= {"gpu": "h200", "gpu_name": "h200", "world_size": 1, "gpus_per_node": 1, "nodes": 1}
    (to / "run.json").write_text(json.dumps(manifest))
    steps = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    lines = (json.dumps({**step, "memory_kind": kind}) for step in steps)
    (to / "steps.jsonl").write_text("\n".join(lines) + "\n")
    at = [steps[len(steps) * number // samples]["time"] for number in range(samples)] if used_gib else []
    sampled = [
        {"time": time, "node": "n1", "device": f"gpu{device}", "memory_used_gib": (used_gib or 0) - number / 10}
        for number, time in enumerate(at)
        for device in range(devices)
    ]
    (to / "telemetry.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in sampled))
    return to


def ruling(document: dict[str, Any]) -> tuple[str, Any]:
    made = document["memory_usage_efficiency"]
    return document["comparable"]["memory"]["status"], made and (made["kind"], made["target_figure"])


@pytest.mark.parametrize(
    ("target", "baseline", "expected"),
    [
        ({"used_gib": 40.0}, {"used_gib": 80.0}, (KIND, 40.0)),
        ({"used_gib": 40.0}, {"used_gib": None}, None),
        ({"used_gib": 40.0, "devices": 2}, {"used_gib": 80.0}, None),
        ({"used_gib": 40.0, "samples": 2}, {"used_gib": 80.0}, None),
    ],
)
def test_two_kinds_of_log_compare_by_telemetry_of_the_runs_own_gpus(
    cli: Any, tmp_path: Path, target: dict[str, Any], baseline: dict[str, Any], expected: Any
) -> None:
    copied(tmp_path / "nemo", kind="torch_reserved_peak", **target)
    copied(tmp_path / "primus", kind="device_used", **baseline)
    document = cli("compare", "nemo", "primus", "--for", "memory", "--json").document
    status, made = ruling(document)
    assert made == expected
    assert (status == "not_comparable") == (expected is None)
    row = next(clause for clause in document["contract"] if clause["key"] == "memory_kind")
    assert row["status"] == ("different" if expected is None else "equal")
    if expected is not None:
        assert document["memory_usage_efficiency"]["value"] == pytest.approx(2.0)


def test_the_kind_is_part_of_the_answer(cli: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        copied(tmp_path / name, None, "torch_reserved_peak")
    done = cli("compare", "a", "b", "--for", "memory")
    assert "torch reserved peak" in done.out.splitlines()[0]
