"""A difference has one step, whichever part of a comparison reports it."""

from pathlib import Path
from typing import Any

from steelyard.comparison import Metric, load_runs, weigh


def test_tier_and_diagnosis_name_the_same_step(cli: Any, tmp_path: Path) -> None:
    """The difference at step 15 is above 0.1%, but not by more than the digits that are not printed."""
    losses = [6 - step / 100 for step in range(1, 41)]
    apart = [0.0] * 14 + [0.006] + [0.1] * 25
    for name, curve in {
        "baseline": losses,
        "target": [loss + more for loss, more in zip(losses, apart, strict=True)],
    }.items():
        rows = [f"{step},{loss:.3f}" for step, loss in enumerate(curve, start=1)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["step,loss", *rows]) + "\n")
        assert (
            cli("ingest", f"{name}.csv", "--name", name, "--framework", "native", "--set", "training.seed=1").status
            == 0
        )
    sides = (load_runs("RUN", [name], Path("runs")) for name in ("target", "baseline"))
    made = weigh(*sides, [Metric.CONVERGENCE])
    (tier,) = (tier for tier in made.convergence.tiers if tier.tier == "first_steps")
    (diagnosis,) = (diagnosis for diagnosis in made.diagnoses if diagnosis.code.name == "parting")
    assert [step for _, step in tier.reason.values["passed"]] == [15, 16]
    assert [diagnosis.values[name] for name in ("first", "wide")] == [15, 16]
