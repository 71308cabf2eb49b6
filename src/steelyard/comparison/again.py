"""A saved comparison, made anew from its runs, which must be what they were."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from steelyard.comparison.comparison import Comparison, weigh
from steelyard.comparison.files import runs_of, saved
from steelyard.comparison.fingerprint import fingerprints
from steelyard.comparison.policy import Metric
from steelyard.errors import InputError
from steelyard.experiment.experiment import Mode


def weigh_again(directory: Path) -> Comparison:
    """As it was asked then; refused where a run has changed: it would have other figures than were saved."""
    content = saved(directory)
    sides = [runs_of(directory, content, name) for name in ("target", "baseline")]
    made = weigh(
        sides[0],
        sides[1],
        [Metric(name) for name in content["asked"]],
        cast("Mode", content["mode"]),
        content["warmup_steps"],
        content.get("margin"),
        bool(content.get("forced")),
        content.get("prices"),
        content.get("target_loss"),
    )
    _check_unchanged(directory, content, made)
    return made


def _check_unchanged(directory: Path, content: dict[str, Any], made: Comparison) -> None:
    kept = content.get("digests")
    if kept is None:  # an older comparison
        return
    subjects = [*made.target.subjects, *made.baseline.subjects]
    for subject, was, now in zip(subjects, [*kept["target"], *kept["baseline"]], fingerprints(subjects), strict=True):
        if was != now:
            raise InputError(
                f"{subject.run.directory} has changed since the comparison {directory.resolve().name} was made",
                key="COMPARISON",
                value=str(directory),
                next=" && ".join(commands(made)),
            )


def commands(made: Comparison) -> Iterator[str]:
    """What makes the comparison, with paths as this one was given them; a price sheet is written out first."""
    sides = [",".join(str(subject.run.directory) for subject in side.subjects) for side in (made.target, made.baseline)]
    words = ["steelyard", "compare", *sides, "--for", ",".join(made.asked), "--mode", made.mode]
    words += ["--margin", f"{made.margin:.15g}"]
    if made.warmup_steps:
        words += ["--warmup-steps", str(made.warmup_steps)]
    if made.forced:
        words.append("--force")
    if made.target_loss is not None:
        words += ["--target-loss", f"{made.target_loss:.15g}"]
    if made.prices:
        yield f"echo {shlex.quote(json.dumps(dict(made.prices)))} > prices.json"
        words += ["--prices", "prices.json"]
    yield shlex.join(words)
