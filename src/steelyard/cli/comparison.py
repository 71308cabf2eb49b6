"""A comparison on the terminal: the answer first, then why."""

from collections.abc import Iterator, Sequence

from steelyard.cli import printing
from steelyard.comparison import NAME_OF, Comparability, Comparison, Metric, Ratio, Ruling
from steelyard.comparison.codes import SETTINGS_UNKNOWN, counted, sentence
from steelyard.comparison.contract import Agreement
from steelyard.comparison.convergence import LossesAt
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import Answer, Tier
from steelyard.comparison.time_to_loss import SideToLoss, TimeToLoss
from steelyard.reporting.curves import with_interval

_UNDER = " " * 15
_FEW_KEYS = 4


def show(made: Comparison) -> None:
    """What may be said of each metric, whether the sides learn alike, and what explains where they do not."""
    printing.say(printing.inert(f"target {_named(made.target)} against baseline {_named(made.baseline)}"))
    if made.banner:
        printing.item("  ", made.banner)
    explained: list[Metric] = []
    for metric, ruling in made.comparable.items():
        asked = " (asked)" if metric in made.asked else ""
        printing.say(f"  {metric.value:<11}  {_status(made, metric)}{asked}{_figure(made, metric)}")
        if metric not in made.asked:
            continue
        ratio = made.ratios.get(metric)
        for note in ratio.notes if ratio else ():
            printing.item(_UNDER, f"but {note.message}")
        same = next((other for other in explained if made.comparable[other].reasons == ruling.reasons), None)
        if same and ruling.reasons:
            printing.say(f"{_UNDER}as {same.value}")
            continue
        explained.append(metric)
        for reason in _decisive(ruling):
            printing.item(_UNDER, reason)
    if _says_too_little(made):
        hint = "what a log does not say is told to ingest: --config FILE, or --set training.global_batch_size=N"
        printing.item("  ", hint)
    _show_learning(made)
    free = [clause.dotted for clause in made.contract if clause.status == Agreement.DIFFERENT and not clause.governs]
    if free:
        printing.item("  ", f"free to differ, and do: {', '.join(free)}")
    for diagnosis in made.diagnoses:
        printing.item(f"  {diagnosis.code.name}: ", diagnosis.message, 4)
        printing.item("    rests on ", "; ".join(diagnosis.evidence), 4)
        printing.item("    to confirm: ", diagnosis.confirm, 4)


def _says_too_little(made: Comparison) -> bool:
    """Whether a foreign log leaves open what was asked."""
    open_ = any(made.comparable[metric].status == Comparability.UNKNOWN for metric in made.asked)
    runs = (subject.run.manifest for side in (made.target, made.baseline) for subject in side.subjects)
    return open_ and any(manifest.ingested is not None for manifest in runs)


def _named(side: Side) -> str:
    runs = [verdict.run.name for verdict in side.verdicts]
    return runs[0] if len(runs) == 1 else f"{side.label} ({len(runs)} runs: {', '.join(runs)})"


def _decisive(ruling: Ruling) -> Iterator[str]:
    """The reasons that decide, keys that are not known by their number; the others are counted, and in the report."""
    for reason in ruling.decisive:
        if reason.code is SETTINGS_UNKNOWN and len(reason.keys) > _FEW_KEYS:
            yield sentence(reason, f"{counted(reason)}, {reason.keys[0]} among them")
        else:
            yield sentence(reason)
    if others := len(ruling.reasons) - len(ruling.decisive):
        yield f"and {others} more to be said beside it: in the report, and with --json"


def _status(made: Comparison, metric: Metric) -> str:
    """Of curves that fail a tier it is no matter what else is not known of them."""
    status = made.comparable[metric].status.value
    if metric == Metric.CONVERGENCE and status == "unknown":
        status = made.convergence.status
    return status.replace("_", " ")


def _figure(made: Comparison, metric: Metric) -> str:
    if metric == Metric.CONVERGENCE:
        status = made.convergence.status.replace("_", " ")
        return "" if status == _status(made, metric) else f"  {status}"
    ratio = made.ratios[metric]
    return f"  {NAME_OF[metric]} {ratio_words(ratio)}" if ratio else ""


def _show_learning(made: Comparison) -> None:
    """Tiers and losses where convergence is asked; the time to a loss wherever it can be told."""
    if Metric.CONVERGENCE in made.asked:
        for tier in made.convergence.tiers:
            word = "n/a" if tier.status == Answer.NOT_APPLICABLE else tier.status.value
            printing.item(f"{_UNDER}{word:<8} {tier.tier:<15}", _short(tier), 39)
        for limit in made.convergence.scope:
            printing.item(_UNDER, limit.message)
        _show_losses("step from 0", made.convergence.losses)
        _show_losses("eval at", made.convergence.evaluations)
    reached = made.time_to_loss
    if isinstance(reached, TimeToLoss):
        basis = "without an interval: the step times do not tell how far they spread"
        if reached.low is not None and reached.high is not None:
            basis = "between runs" if reached.interval == "runs" else "within these runs"
        ratio = with_interval(reached.ratio, reached.low, reached.high)
        sides = f"{_side(reached.target)} on the target and {_side(reached.baseline)} on the baseline"
        printing.item("  ", f"time to loss {reached.loss:.4g}: {sides}, {ratio} times, {basis}")
        for figure, reason in _not_known(made, reached):
            printing.item(_UNDER, f"{figure} is not known: {reason}")
    elif made.prices:
        printing.item("  ", f"no time to loss, and so no cost: {reached.message}")


def _show_losses(head: str, losses: Sequence[LossesAt]) -> None:
    rows = [
        [str(at.step), *("-" if value is None else f"{value:.4f}" for value in (at.target, at.baseline))]
        for at in losses
    ]
    if rows:
        printing.table([[head, "target", "baseline"], *rows], _UNDER)


def _not_known(made: Comparison, reached: TimeToLoss) -> Iterator[tuple[str, str]]:
    """Energy and cost that are missing, and why; of a cost nobody asked for nothing is said."""
    sides = (("target", reached.target), ("baseline", reached.baseline))
    energy = {name: side.energy_reason.message for name, side in sides if side.energy_reason}
    cost = {name: side.cost_reason.message for name, side in sides if side.cost_reason and made.prices}
    for figure, reasons in (("energy", energy), ("cost", cost)):
        if len(reasons) == 2 and len(set(reasons.values())) == 1:
            yield f"{figure} of both sides", reasons["target"]
        else:
            yield from ((f"{figure} of the {name}", why) for name, why in reasons.items())


def _short(tier: Tier) -> str:
    """What a tier says; several settings that the contract does not know are counted."""
    return counted(tier.reason) if tier.reason.code is SETTINGS_UNKNOWN and len(tier.reason.keys) > 1 else tier.message


def _side(side: SideToLoss) -> str:
    energy = f", {side.energy_kwh:.3g} kWh" if side.energy_kwh is not None else ""
    cost = f", {side.cost:.3g} by the price sheet" if side.cost is not None else ""
    return f"{side.seconds:,.4g} s{energy}{cost}"


def ratio_words(ratio: Ratio) -> str:
    return f"{with_interval(ratio.value, ratio.low, ratio.high)}  {'FORCED, ' * ratio.forced}{ratio.words}"
