"""What users declare about a comparison: acceptances, assumptions, overrides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from steelyard.comparison import assumption, codes
from steelyard.comparison.acceptance import Acceptance
from steelyard.comparison.assumption import Assumption
from steelyard.comparison.side import Side
from steelyard.experiment.keys import KEYS
from steelyard.experiment.policy import Metric
from steelyard.reasons import Effect, Reason
from steelyard.records.manifest import Override
from steelyard.verdict import Subject


@dataclass(frozen=True, slots=True)
class Declared:
    """What `--accept` and `--assume` declare for one comparison."""

    accepted: tuple[Acceptance, ...] = ()
    assumed: tuple[Assumption, ...] = ()

    def supplied(
        self, target: Sequence[Subject], baseline: Sequence[Subject], called: tuple[str, str]
    ) -> tuple[tuple[Subject, ...], tuple[Subject, ...], "Declared"]:
        """The runs of both sides with what is declared of them, and the declarations with what they supplied."""
        assumed = assumption.of_sides(self.assumed, called)
        target, assumed = assumption.supply("target", target, assumed)
        baseline, assumed = assumption.supply("baseline", baseline, assumed)
        if any(each.key == codes.CLOCK_CONTRADICTS.name for each in self.accepted):
            target, baseline = (
                tuple(replace(subject, trusts_step_times=True) for subject in side) for side in (target, baseline)
            )
        return tuple(target), tuple(baseline), replace(self, assumed=assumed)


NOTHING = Declared()


def overrides(subjects: Sequence[Subject]) -> dict[str, Override]:
    """The settings that were set against the logs of these runs (`ingest --override`)."""
    imported = (subject.run.manifest.ingested for subject in subjects)
    return {key: override for made in imported if made is not None for key, override in made.overridden.items()}


def override_words(subjects: Sequence[Subject]) -> list[str]:
    return [f"{key} = {override.words}" for key, override in overrides(subjects).items()]


def override_caveats(metric: Metric, sides: Sequence[Side]) -> Iterator[Reason]:
    for side in sides:
        keys = tuple(overrides(side.subjects))
        effects = [KEYS[key].policy.effects for key in keys if key in KEYS]
        if any(not own or metric in own for own in effects):
            values = {"settings": override_words(side.subjects), "side": side.called}
            yield codes.because(codes.SETTINGS_OVERRIDDEN, Effect.CAVEAT, side.name, *keys, **values)


def banner(accepted: Sequence[Acceptance], assumed: Sequence[Assumption], sides: Sequence[Side]) -> str | None:
    """What was declared and used, for the first lines of every output; None if nothing was."""
    called = {side.name: side.called for side in sides} | {"both": "both sides"}
    parts = {
        "accepted": [each.words for each in accepted if each.metrics],
        "assumed": [each.words(called) for each in assumed if each.keys],
        "overridden": [f"{text} on {side.called}" for side in sides for text in override_words(side.subjects)],
    }
    declared = "; ".join(f"{name} {', '.join(words)}" for name, words in parts.items() if words)
    return f"Declared by the user: {declared}" if declared else None


def unused(accepted: Sequence[Acceptance], assumed: Sequence[Assumption]) -> Iterator[str]:
    """Declarations that changed nothing."""
    for acceptance in accepted:
        if not acceptance.metrics:
            yield f"--accept {acceptance.key} changed nothing: no such difference or unknown"
    for supplied in assumed:
        if not supplied.keys:
            yield f"--assume {supplied.typed} changed nothing: the record has this value"
