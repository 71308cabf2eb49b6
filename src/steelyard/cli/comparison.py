"""A comparison on the terminal: the answer first, then why."""

from collections.abc import Iterator

from steelyard.cli import printing
from steelyard.comparison import NAME_OF, Comparability, Comparison, Metric, Ratio, Ruling
from steelyard.comparison.codes import SETTINGS_UNKNOWN, counted, sentence
from steelyard.comparison.contract import Agreement
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import Answer, Tier
from steelyard.comparison.time_to_loss import SideToLoss, TimeToLoss

_UNDER = " " * 15
_FEW_KEYS = 4


def show(made: Comparison) -> None:
    """What may be said of each metric, whether the sides learn alike, and what explains where they do not."""
    printing.say(printing.inert(f"target {_named(made.target)} against baseline {_named(made.baseline)}"))
    if made.banner:
        printing.say(printing.hang("  ", made.banner))
    said: list[Metric] = []
    for metric, ruling in made.comparable.items():
        asked = " (asked)" if metric in made.asked else ""
        printing.say(f"  {metric.value:<11}  {_status(made, metric)}{asked}{_figure(made, metric)}")
        ratio = made.ratios.get(metric)
        for note in ratio.notes if ratio and metric in made.asked else ():
            printing.say(printing.hang(_UNDER, printing.inert(f"but {note.message}")))
        if metric not in made.asked:
            continue
        same = next((other for other in said if made.comparable[other].reasons == ruling.reasons), None)
        if same and ruling.reasons:
            printing.say(f"{_UNDER}as {same.value}")
            continue
        said.append(metric)
        for reason in _decisive(ruling):
            printing.say(printing.hang(_UNDER, printing.inert(reason)))
    if _says_too_little(made):
        hint = "what a log does not say is told to ingest: --config FILE, or --set training.global_batch_size=N"
        printing.say(printing.hang("  ", hint))
    _show_learning(made)
    free = [clause.dotted for clause in made.contract if clause.status == Agreement.DIFFERENT and not clause.governs]
    if free:
        printing.say(printing.hang("  ", f"free to differ, and do: {', '.join(free)}"))
    for found in made.diagnoses:
        printing.say(printing.hang(f"  {found.code.name}: ", printing.inert(found.message), 4))
        printing.say(printing.hang("    rests on ", printing.inert("; ".join(found.evidence)), 4))
        printing.say(printing.hang("    to confirm: ", printing.inert(found.confirm), 4))


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
    found = made.comparable[metric].status.value
    if metric == Metric.CONVERGENCE and found == "unknown":
        found = made.convergence.status
    return found.replace("_", " ")


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
            printing.say(printing.hang(f"{_UNDER}{word:<8} {tier.tier:<15}", printing.inert(_short(tier)), 39))
        for limit in made.convergence.scope:
            printing.say(printing.hang(_UNDER, limit.message))
        rows = [["step from 0", "target", "baseline"], *_losses(made)]
        if len(rows) > 1:
            printing.table(rows, _UNDER)
        if told := [
            [str(one.step), f"{one.target:.4f}", f"{one.baseline:.4f}"] for one in made.convergence.evaluations
        ]:
            printing.table([["eval at", "target", "baseline"], *told], _UNDER)
    found = made.time_to_loss
    if isinstance(found, TimeToLoss):
        sides = " and ".join(
            f"{_side(side)} on the {name}" for name, side in (("target", found.target), ("baseline", found.baseline))
        )
        around, basis = "", "without an interval: the step times do not tell how far they spread"
        if found.low is not None and found.high is not None:
            around = f" [{found.low:.4f}, {found.high:.4f}]"
            basis = "between runs" if found.interval == "runs" else "within these runs"
        ratio = f"{found.ratio:.4f}{around} times, {basis}"
        printing.say(printing.hang("  ", f"time to loss {found.loss:.4g}: {sides}, {ratio}"))
        for what, why in _not_known(made, found):
            printing.say(printing.hang(_UNDER, printing.inert(f"{what} is not known: {why}")))
    elif made.prices:
        printing.say(printing.hang("  ", printing.inert(f"no time to loss, and so no cost: {found.message}")))


def _not_known(made: Comparison, found: TimeToLoss) -> Iterator[tuple[str, str]]:
    """Energy and cost that are missing, and why; of a cost nobody asked for nothing is said."""
    sides = (("target", found.target), ("baseline", found.baseline))
    energy = {name: side.energy_reason.message for name, side in sides if side.energy_reason}
    cost = {name: side.cost_reason.message for name, side in sides if side.cost_reason and made.prices}
    for what, reasons in (("energy", energy), ("cost", cost)):
        if len(reasons) == 2 and len(set(reasons.values())) == 1:
            yield f"{what} of both sides", reasons["target"]
        else:
            yield from ((f"{what} of the {name}", why) for name, why in reasons.items())


def _short(tier: Tier) -> str:
    """What a tier says; several settings that the contract does not know are counted."""
    return counted(tier.reason) if tier.reason.code is SETTINGS_UNKNOWN and len(tier.reason.keys) > 1 else tier.message


def _losses(made: Comparison) -> Iterator[list[str]]:
    for one in made.convergence.losses:
        yield [str(one.step), *("-" if value is None else f"{value:.4f}" for value in (one.target, one.baseline))]


def _side(found: SideToLoss) -> str:
    energy = f", {found.energy_kwh:.3g} kWh" if found.energy_kwh is not None else ""
    cost = f", {found.cost:.3g} by the price sheet" if found.cost is not None else ""
    return f"{found.seconds:,.4g} s{energy}{cost}"


def ratio_words(ratio: Ratio) -> str:
    """A ratio, its interval and what may be said of it."""
    around = ""
    if ratio.low is not None and ratio.high is not None:
        around = f" [{ratio.low:.4f}, {ratio.high:.4f}]"
    forced = "FORCED, " if ratio.forced else ""
    return f"{ratio.value:.4f}{around}  {forced}{ratio.words}"
