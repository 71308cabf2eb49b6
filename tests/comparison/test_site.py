"""How the hosts are set up: versions, images, drivers, power caps and clocks, of one framework or one kind of GPU."""

import json
from pathlib import Path
from typing import Any

import pytest


def set_up(run: Any, **sampled: Any) -> None:
    """Add these to every sample of a run's telemetry."""
    path = run.directory / "telemetry.jsonl"
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**sample, **sampled}) + "\n" for sample in samples))


def version(run: Any, name: str) -> None:
    path = Path(run.directory, "run.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "software": {"version": name}}))


def of_platform(document: dict[str, Any]) -> dict[str, str]:
    keys = ("image", "driver", "power_cap_w", "clock_mhz")
    return {clause["key"]: clause["status"] for clause in document["contract"] if clause["key"] in keys}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, {"clock_mhz": "equal"}),
        ({"driver": "580.1"}, {"clock_mhz": "equal", "driver": "different"}),
        (
            {"driver": "575.0", "power_limit_w": 500.0},
            {"clock_mhz": "equal", "driver": "equal", "power_cap_w": "different"},
        ),
        ({"clock_mhz": 1000}, {"clock_mhz": "different"}),
    ],
)
def test_gpus_of_one_kind_that_are_set_up_differently(
    cli: Any, recorded: Any, own: dict[str, Any], expected: dict[str, str]
) -> None:
    target, baseline = recorded("again"), recorded("baseline")
    set_up(target, **own)
    set_up(baseline, **{name: {"driver": "575.0", "power_limit_w": 700.0}[name] for name in own if name != "clock_mhz"})
    done = cli("compare", target, baseline, "--json")
    assert of_platform(done.document) == expected
    differing = [f"platform.{key}" for key, status in expected.items() if status == "different"]
    named = [(reason["keys"], reason["effect"]) for reason in done.reasons("throughput", "setting_differs")]
    assert named == [([key], "caveat") for key in differing]
    other = cli("compare", target, baseline, "--mode", "matched", "--json").document["comparable"]["throughput"]
    assert other["status"] == ("not_comparable" if differing else "comparable")


def test_drivers_of_two_kinds_of_gpu_do_not_compare(cli: Any, recorded: Any) -> None:
    target, baseline = recorded("again").set("platform/gpu", "mi300x"), recorded("baseline")
    set_up(target, driver="6.4")
    set_up(baseline, driver="580.1")
    assert of_platform(cli("compare", target, baseline, "--json").document) == {}


def test_versions_of_one_framework_are_a_caveat_for_all(cli: Any, recorded: Any) -> None:
    target, baseline = recorded("again"), recorded("baseline")
    version(target, "core 0.20.0")
    version(baseline, "core 0.15.0")
    done = cli("compare", target, baseline, "--json")
    for metric in ("throughput", "memory", "flops", "convergence"):
        assert ["platform.framework_version"] in [reason["keys"] for reason in done.reasons(metric, "setting_differs")]
