"""A comparison: the contract, what it allows, the ratios, and what it all comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from steelyard.accounting.steady import MIN_STEADY_RECORDS, MIN_STEADY_STEPS
from steelyard.compare.contract import Clause, Comparability, Ruling, check_side, contract, ruling
from steelyard.compare.convergence import Convergence, convergence
from steelyard.compare.policy import Metric
from steelyard.compare.ratios import NAME_OF, Ratio, missing, ratio
from steelyard.compare.side import Side, side
from steelyard.errors import Exit
from steelyard.experiment.experiment import Mode
from steelyard.records import Run
from steelyard.verdict import Subject, figures_document, policy_of, read_subjects


@dataclass(frozen=True, slots=True)
class Comparison:
    """Target runs against baseline runs."""

    target: Side
    baseline: Side
    asked: tuple[Metric, ...]
    mode: Mode
    warmup_steps: int
    contract: tuple[Clause, ...]
    comparable: Mapping[Metric, Ruling]
    ratios: Mapping[Metric, Ratio | None]
    convergence: Convergence

    @property
    def exit(self) -> Exit:
        """The worst of what was asked: refused, then failed, then not known."""
        ends = [self._exit_of(metric) for metric in self.asked]
        return next((end for end in (Exit.NOT_COMPARABLE, Exit.FAILED, Exit.UNKNOWN) if end in ends), Exit.GOOD)

    def _exit_of(self, metric: Metric) -> Exit:
        status = self.comparable[metric].status
        if status == Comparability.NOT_COMPARABLE:
            return Exit.NOT_COMPARABLE
        return Exit.UNKNOWN  # one run a side is an observation, several have no interval between runs yet

    def document(self, directory: Path | None) -> dict[str, Any]:
        """What `compare --json` prints."""
        return {
            "comparison": str(directory.resolve()) if directory else None,
            "target": [str(subject.run.directory.resolve()) for subject in self.target.subjects],
            "baseline": [str(subject.run.directory.resolve()) for subject in self.baseline.subjects],
            "asked": [metric.value for metric in self.asked],
            "mode": self.mode,
            "warmup_steps": self.warmup_steps,
            "comparable": {
                metric.value: {"status": found.status.value, "reasons": list(found.reasons)}
                for metric, found in self.comparable.items()
            },
            "contract": [_clause_document(clause) for clause in self.contract],
            **{name: asdict(found) if (found := self.ratios[metric]) else None for metric, name in NAME_OF.items()},
            "convergence": asdict(self.convergence),
            "diagnoses": [],
            "runs": {side.name: _runs_document(side) for side in (self.target, self.baseline)},
        }


def _clause_document(clause: Clause) -> dict[str, Any]:
    governs = {metric.value: effect.value for metric, effect in clause.governs.items()}
    return {
        "group": clause.group,
        "key": clause.key,
        "target": clause.target,
        "baseline": clause.baseline,
        "status": clause.status.value,
        "governs": governs,
    }


def _runs_document(side: Side) -> list[dict[str, Any]]:
    return [
        {"name": verdict.run.name, "verdict": verdict.status.value, "figures": figures_document(verdict.figures)}
        for verdict in side.verdicts
    ]


def compare(
    target: Sequence[Subject], baseline: Sequence[Subject], asked: Sequence[Metric], mode: Mode, warmup_steps: int
) -> Comparison:
    """Weigh target against baseline."""
    sides = side("target", tuple(target)), side("baseline", tuple(baseline))
    for one in sides:
        check_side(one)
    clauses = contract(*sides)
    rulings = {metric: ruling(metric, clauses, sides, mode) for metric in Metric}
    for metric in NAME_OF:
        rulings[metric] = _with_figures(metric, rulings[metric], sides)
    both = {one.run.directory.resolve() for one in target} & {one.run.directory.resolve() for one in baseline}
    if both:
        names = ", ".join(sorted(place.name for place in both))
        reason = f"qualified: {names} stands on both sides, and equals itself"
        rulings = {metric: found.worsened(Comparability.QUALIFIED, reason) for metric, found in rulings.items()}
    held = (Comparability.COMPARABLE, Comparability.QUALIFIED)
    return Comparison(
        target=sides[0],
        baseline=sides[1],
        asked=tuple(asked),
        mode=mode,
        warmup_steps=warmup_steps,
        contract=clauses,
        comparable=rulings,
        ratios={metric: ratio(metric, *sides) if rulings[metric].status in held else None for metric in NAME_OF},
        convergence=convergence(rulings[Metric.CONVERGENCE], clauses),
    )


def weigh(
    target: Sequence[Run], baseline: Sequence[Run], asked: Sequence[Metric], mode: Mode | None, warmup_steps: int
) -> Comparison:
    """Read the runs of both sides and compare them; the runs' own policies stand where nothing else is asked."""
    runs = (*target, *baseline)
    policies = [policy_of(run) for run in runs]
    if mode is None:
        mode = "matched" if any(policy.mode == "matched" for policy in policies) else "best"
    asked_steps = max([warmup_steps, *(policy.warmup_steps for policy in policies)])
    by_place = {run.directory.resolve(): run for run in runs}  # a run that stands on both sides is read once
    read = dict(zip(by_place, read_subjects(list(by_place.values()), asked_steps), strict=True))
    ours, theirs = ([read[run.directory.resolve()] for run in side] for side in (target, baseline))
    return compare(ours, theirs, asked, mode, asked_steps)


def _with_figures(metric: Metric, found: Ruling, sides: tuple[Side, Side]) -> Ruling:
    """A comparison also needs both figures, and rates enough steady steps to stand on."""
    for one in sides:
        if metric != Metric.MEMORY:
            for subject in one.subjects:
                window = subject.figures.window
                run, records = f"the {one.name} ({subject.run.directory.name})", int(window.mask.sum())
                if window.steps < MIN_STEADY_STEPS:
                    few = f"{run} has {window.steps} steady steps, expected {MIN_STEADY_STEPS} or more"
                    found = found.worsened(Comparability.NOT_COMPARABLE, few)
                elif records < MIN_STEADY_RECORDS:
                    few = f"{run} has {records} steady records, expected {MIN_STEADY_RECORDS} or more"
                    found = found.worsened(Comparability.NOT_COMPARABLE, few)
        reason = missing(metric, one)
        if reason:
            found = found.worsened(Comparability.UNKNOWN, reason)
    return found
