"""Settings and figures that a comparison lacks, and the options that supply them."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.comparison import codes
from steelyard.comparison.assumption import ASSUMABLE, COMPUTED
from steelyard.comparison.comparison import Comparison
from steelyard.comparison.contract import known_value
from steelyard.comparison.ratios import FIGURE_OF
from steelyard.comparison.side import Side
from steelyard.experiment.experiment import GROUPS
from steelyard.experiment.keys import fields_of
from steelyard.experiment.policy import Metric
from steelyard.experiment.presets import PRESETS
from steelyard.experiment.problems import spelt
from steelyard.files import place_of
from steelyard.reasons import Code, Effect, Reason, SideName
from steelyard.verdict import Subject, figures

_OPTIONS = {"platform.gpu": "--gpu GPU", "platform.world_size": "--gpus N", "platform.nodes": "--nodes N"}
"""Options of `ingest` for what `--set` does not take."""
_PRESET = "model.preset"
_OF_PRESETS = frozenset(f"model.{key}" for preset in PRESETS.values() for key in preset)
_FEWEST_OF_PRESET = 3
"""Dimensions that a preset replaces."""
_ANY = "import a log of {side} that contains the figure"
_BY_DTYPE = ("precision.fp8", "precision.loss_scale")
"""What a dtype says too: no other product format, and for bf16 and fp32 no loss scale."""
_TIMES = "import a log of {side} that contains step times"
_MEMORY = "import a log of {side} that contains one kind of peak memory, or run it with telemetry"
_PEAK = "state the peak of the GPU of {side}"
_FIRST: Mapping[Code, str] = {
    **dict.fromkeys((figures.STEPS_UNTIMED, figures.NO_STEP_TIME, figures.RATE_NOT_FINITE), _TIMES),
    figures.NO_STEADY_STEP: "use longer runs of {side}",
    figures.CLOCK_CONTRADICTS_STEP_TIMES: "accept clock_contradicts if the step times of {side} are right",
    **dict.fromkeys((figures.NO_MEMORY, figures.MEMORY_KINDS_DIFFER, figures.MEMORY_NOT_POSITIVE), _MEMORY),
    figures.FLOPS_PER_TOKEN_UNKNOWN: "the FLOP formula does not cover the model of {side}: compare tokens/s",
    figures.CPU_HAS_NO_PEAK: "a CPU has no peak: compare tokens/s",
    figures.GPU_NOT_IN_CATALOG: _PEAK,
    figures.NO_PEAK_FOR_PRECISION: _PEAK,
}
"""What to do first where a figure is missing, by its reason."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A setting that a side does not record."""

    side: SideName
    key: str
    suggestion: str | None = None
    """The value of the other side."""

    @property
    def option(self) -> str:
        """The option of `compare` that supplies it."""
        return f"--assume {self.side}:{self.key}=VALUE"

    @property
    def of_ingest(self) -> str | None:
        """The option of `ingest` that supplies it; None if only `compare` can."""
        group, _, key = self.key.partition(".")
        if group in GROUPS and key in fields_of(group):
            return f"--set {self.key}=VALUE"
        return _OPTIONS.get(self.key)

    def document(self) -> dict[str, Any]:
        return {"side": self.side, "key": self.key, "suggestion": self.suggestion, "option": self.option}


def missing_settings(made: Comparison, metric: Metric, reasons: Sequence[Reason]) -> tuple[Missing, ...]:
    """What would decide it, by side: unknown settings, and what a missing figure is computed from."""
    names: tuple[SideName, ...] = ("both", "target", "baseline")
    keys: dict[SideName, dict[str, None]] = {name: {} for name in names}
    for reason in (reason for reason in reasons if reason.effect == Effect.UNKNOWN):
        side = reason.side or "both"
        if reason.code is codes.SETTINGS_UNKNOWN:
            keys[side] |= dict.fromkeys(reason.keys)
        elif reason.code is codes.FIGURE_MISSING:
            keys[side] |= dict.fromkeys(_inputs(made.sides[side == "baseline"], metric))
        elif reason.code is codes.FORMULAS_DIFFER:
            keys[side] |= dict.fromkeys([_PRESET, "training.sequence_length"])
    missing = {(name, each.key): each for name in names for each in _of_side(made, name, keys[name])}
    return tuple(each for (name, key), each in missing.items() if name == "both" or ("both", key) not in missing)


def _inputs(side: Side, metric: Metric) -> Iterator[str]:
    """The unknown settings that a missing figure is computed from."""
    reason = _why(side, metric)
    if reason is None:
        return
    if reason.code is figures.GPU_UNKNOWN:
        yield "platform.gpu"
    elif reason.code is figures.GPU_COUNT_UNKNOWN:
        yield "platform.world_size"
    elif missing := reason.values.get("missing"):
        settings = [missing] if isinstance(missing, str) else missing
        yield from (setting.partition("=")[0] for setting in settings)


def _why(side: Side, metric: Metric) -> Reason | None:
    given = (subject.figures.metric(FIGURE_OF[metric]) for subject in side.subjects)
    return next((figure.reason for figure in given if figure.value is None), None)


def _of_side(made: Comparison, name: SideName, keys: Mapping[str, None]) -> Iterator[Missing]:
    """Computed keys are replaced by what they are computed from, and many dimensions by a preset."""
    subjects = [side.subjects[0] for side in made.sides]
    own, other = subjects[:: -1 if name == "baseline" else 1]
    wanted = [key for computed in keys for key in COMPUTED.get(computed, (computed,))]
    of_preset = [key for key in wanted if key in _OF_PRESETS]
    if len(of_preset) >= _FEWEST_OF_PRESET:
        wanted = [_PRESET, *(key for key in wanted if key not in of_preset)]
    if "precision.dtype" in wanted:
        wanted = [key for key in wanted if key not in _BY_DTYPE]
    for key in dict.fromkeys(wanted):
        lacking = subjects if name == "both" else [own]
        if key in ASSUMABLE and not all(_known(subject, key)[0] for subject in lacking):
            known, value = _known(other, key) if name != "both" else (False, None)
            yield Missing(name, key, spelt(value) if known else None)


def _known(subject: Subject, key: str) -> tuple[bool, Any]:
    return known_value(subject, key) if key != _PRESET else subject.run.manifest.experiment.known(key)


def without_a_figure(made: Comparison, metric: Metric, reason: Reason) -> tuple[str, str | None]:
    """What to do where settings cannot supply a figure: in words, and as a command if there is one."""
    side = made.sides[reason.side == "baseline"]
    why = _why(side, metric)
    first = _FIRST.get(why.code, _ANY) if why is not None else _ANY
    command = None
    if first == _PEAK:
        subject = side.subjects[0]
        directory, precision = shlex.quote(place_of(subject.run.directory)), subject.precision or "bf16"
        command = f"steelyard check {directory} --gpu-peak {precision}=TFLOPS"
    return first.format(side=side.called), command
