"""Arguments that both logs contain and no rule governs: each that differs is a caveat, since it may matter."""

from collections.abc import Sequence

from steelyard.comparison import codes
from steelyard.comparison.contract import effect_in
from steelyard.comparison.side import Side
from steelyard.experiment.experiment import Mode
from steelyard.experiment.policy import Effect
from steelyard.reasons import Reason


def arguments_apart(sides: Sequence[Side], mode: Mode) -> Reason | None:
    """One reason with all arguments that differ; matched mode refuses because of it."""
    target, baseline = map(_arguments, sides)
    apart = {
        name: (target[name], baseline[name])
        for name in sorted(target.keys() & baseline.keys())
        if not _equal(target[name], baseline[name])
    }
    if not apart:
        return None
    called = tuple(side.called for side in sides)
    values = [{name: pair[at] for name, pair in apart.items()} for at in range(2)]
    keys = (f"arguments.{name}" for name in apart)
    effect = effect_in(mode, Effect.QUALIFIES)
    return codes.because(
        codes.ARGUMENTS_DIFFER, effect, "both", *keys, target=values[0], baseline=values[1], called=called
    )


def _arguments(side: Side) -> dict[str, str]:
    """Arguments that all runs of a side print; several values in one text."""
    printed = [subject.run.manifest.arguments for subject in side.subjects]
    names = set(printed[0]).intersection(*printed[1:])
    return {name: " | ".join(sorted({own[name] for own in printed})) for name in names}


def _equal(text: str, other: str) -> bool:
    """Whether two texts are one value; numbers may be spelled in two ways."""
    if text == other:
        return True
    try:
        return float(text) == float(other)
    except ValueError:
        return False
