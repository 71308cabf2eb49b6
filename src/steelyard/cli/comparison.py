"""A comparison on the terminal: the answer first, then the reasons for it."""

import shlex
from collections.abc import Iterator, Sequence

from steelyard.cli import printing
from steelyard.cli.printing import STATUS_STYLES, Style
from steelyard.comparison import Comparison, Metric, Ratio
from steelyard.comparison.codes import sentence
from steelyard.comparison.contract import ONE_PLATFORM, Agreement, Comparability
from steelyard.comparison.convergence import LossesAt
from steelyard.comparison.declared import unused
from steelyard.comparison.headline import difference_of, further_reasons, lines, short
from steelyard.comparison.next_step import NextStep, next_step
from steelyard.comparison.phrases import compared, figure, listed, plural
from steelyard.comparison.tiers import Answer
from steelyard.comparison.time_to_loss import SideToLoss, TimeToLoss
from steelyard.errors import Exit
from steelyard.reasons import Effect
from steelyard.reporting.causes import likely
from steelyard.reporting.curves import with_interval

_MOST_REASONS, _MOST_CAUSES, _MOST_KEYS = 3, 4, 4
"""Printed without -v."""
_EXIT_STYLES = {Exit.GOOD: Style.GOOD, Exit.UNKNOWN: Style.DOUBTFUL}


def show(made: Comparison, verbose: bool = False, quiet: bool = False) -> None:
    """The answer; then the reasons, likely causes, other metrics in one line, and the next step."""
    for line in lines(made):
        head = f"{line.answer} " if line.answer else ""
        printing.item(printing.inert(head), line.detail, 2, _EXIT_STYLES.get(made.exit_of(line.metrics[0]), Style.BAD))
    if made.banner:
        printing.item("  ", made.banner, 4)
    if quiet:
        return
    for text in unused(made.accepted, made.assumed):
        printing.item("  notice: ", text)
    _show_reasons(made, verbose)
    if Metric.CONVERGENCE in made.asked:
        _show_learning(made, verbose)
    _show_time_to_loss(made, verbose)
    _show_causes(made, verbose)
    _show_others(made)
    _show_free_differences(made, verbose)
    _show_next(made, next_step(made), f"steelyard report {shlex.quote(str(made.directory))}", verbose)


def _show_next(made: Comparison, step: NextStep | None, report: str, verbose: bool) -> None:
    """Commands are not wrapped, to be copied."""
    if step is None:
        printing.say(f"next: {report}")
        return
    printing.say(f"report: {report}")
    if step.words:
        printing.item("", step.words)
    for command in step.commands:
        printing.say(f"next: {printing.inert(command)}")
    for command in step.instead:
        printing.say(f"or: {printing.inert(command)}")
    if step.missing and not verbose and made.exit == Exit.NOT_COMPARABLE:  # they decide nothing yet
        printing.say(f"{plural(len(step.missing), 'setting')} not recorded (-v prints the options that supply them)")
        return
    called = {side.name: side.called for side in made.sides} | {"both": "both sides"}
    for side in dict.fromkeys(each.side for each in step.missing):
        printing.item("", f"Not recorded for {called[side]}. Add the true values to compare:")
        other = called["baseline" if side == "target" else "target"]
        for each in (each for each in step.missing if each.side == side):
            hint = f"  ({each.suggestion} on {other})" if each.suggestion is not None else ""
            printing.say(f"  {each.option}{printing.inert(hint)}")


def _show_reasons(made: Comparison, verbose: bool) -> None:
    if verbose:
        reasons = [reason for metric in made.asked for reason in made.comparable[metric].reasons]
        ratios = [ratio for metric in made.asked if (ratio := made.ratios.get(metric))]
        every = map(sentence, (*reasons, *(note for ratio in ratios for note in ratio.notes)))
        given = {line.detail for line in lines(made)}
        for text in dict.fromkeys(text for text in every if text not in given):
            printing.item("  ", text, 4)
        return
    first, rest = further_reasons(made)
    shown, hidden = [*first[:_MOST_REASONS]], [*first[_MOST_REASONS:], *rest]
    if len(hidden) == 1:  # a count would take the line of the reason
        shown, hidden = [*shown, *hidden], []
    for reason in shown:
        printing.item("  ", sentence(reason, short(reason)), 4)
    if more := len(hidden):
        noun = "more caveat" if all(reason.effect == Effect.CAVEAT for reason in hidden) else "more reason"
        printing.say(f"  {plural(more, noun)} (see the report, or -v)")


def _show_learning(made: Comparison, verbose: bool) -> None:
    """Tiers that are not in the headline, limits of the answer, and losses unless the sides agree."""
    curves = made.convergence
    given = {line.detail for line in lines(made)}
    open_ = [] if curves.first_failing_tier else [tier for tier in curves.tiers if tier.status == Answer.UNKNOWN]
    for tier in (tier for tier in (curves.tiers if verbose else open_) if short(tier.reason) not in given):
        word = "n/a" if tier.status == Answer.NOT_APPLICABLE else tier.status.value
        printing.item(f"  {word:<7}  {tier.tier}: ", short(tier.reason), 11, STATUS_STYLES[word])
    for limit in curves.scope:
        printing.item("  ", f"caveat: {limit.message}", 4)
    if verbose or curves.status in ("not_equivalent", "unknown"):
        _show_losses(made, "step", curves.losses if verbose else [*curves.losses[:-1:2], *curves.losses[-1:]])
        _show_losses(made, "eval step", curves.evaluations if verbose else curves.evaluations[-1:])


def _show_losses(made: Comparison, head: str, losses: Sequence[LossesAt]) -> None:
    """Steps are counted from 1 here, as in every other line."""
    rows = [
        [f"{at.step + 1:,}", *("-" if value is None else f"{value:.4f}" for value in (at.target, at.baseline))]
        for at in losses
    ]
    if rows:
        printing.table([[head, *(f"loss of {side.called}" for side in made.sides)], *rows], "  ")


def _show_time_to_loss(made: Comparison, verbose: bool) -> None:
    reached = made.time_to_loss
    if not (verbose or made.prices or made.target_loss or Metric.CONVERGENCE in made.asked):
        return
    if isinstance(reached, TimeToLoss):
        sides = zip(made.sides, (reached.target, reached.baseline), strict=True)
        less, interval = compared(reached.ratio, reached.low, reached.high, "more time", "less time")
        basis = "" if reached.interval == "runs" else ", from these runs only"
        interval = f"{interval}{basis}" if interval else "no CI: the spread of step times is unknown"
        times = ", ".join(_needs(side.called, needs) for side, needs in sides)
        printing.item("  ", f"time to loss {reached.loss:.4g}: {times}; {less}, {interval}", 4)
        for text in _missing(made, reached, verbose):
            printing.item("  ", text, 4)
    elif made.prices:
        printing.item("  ", f"time and cost to a loss unknown: {reached.message}", 4)


def _needs(name: str, side: SideToLoss) -> str:
    energy = f"{side.energy_kwh:.3g} kWh" if side.energy_kwh is not None else ""
    cost = f"cost {side.cost:.3g}" if side.cost is not None else ""
    also = ", ".join(filter(None, (energy, cost)))
    return f"{name} {figure(side.seconds)} s{f' ({also})' if also else ''}"


def _missing(made: Comparison, reached: TimeToLoss, verbose: bool) -> Iterator[str]:
    """Why energy or cost is unknown: cost only with prices."""
    sides = ((made.target.called, reached.target), (made.baseline.called, reached.baseline))
    energy = {name: side.energy_reason.message for name, side in sides if side.energy_reason and verbose}
    cost = {name: side.cost_reason.message for name, side in sides if side.cost_reason and made.prices}
    for quantity, reasons in (("energy", energy), ("cost", cost)):
        if len(reasons) == 2 and len(set(reasons.values())) == 1:
            yield f"{quantity} unknown: {next(iter(reasons.values()))}"
        else:
            yield from (f"{quantity} of {name} unknown: {why}" for name, why in reasons.items())


def _show_causes(made: Comparison, verbose: bool) -> None:
    """Likely causes, most decisive first, where convergence was asked or an answer was refused."""
    refused = [made.comparable[metric] for metric in made.asked if not made.comparable[metric].holds]
    if not (verbose or refused or Metric.CONVERGENCE in made.asked):
        return
    explained = {key for ruling in refused for reason in ruling.decisive for key in reason.keys}
    adding = [cause for cause in likely(made) if not cause.keys or not explained.issuperset(cause.keys)]
    causes = made.diagnoses if verbose else adding
    if not causes:
        return
    printing.say("Likely causes, most decisive first:")
    for cause in causes if verbose else causes[:_MOST_CAUSES]:
        printing.item("  ", cause.message, 4)
        if verbose:
            for text in cause.evidence:
                printing.item("    evidence: ", text, 6)
            printing.item("    to confirm: ", cause.confirm, 6)
    if not verbose and (more := len(causes) - _MOST_CAUSES) > 0:
        printing.say(f"  {plural(more, 'more cause')} (see the report, or -v)")


def _show_others(made: Comparison) -> None:
    """The metrics that were not asked, in one line."""
    names: dict[str, list[str]] = {}
    given = {line.detail for line in lines(made)}
    for metric, ruling in made.comparable.items():
        if metric not in made.asked:
            refused = ruling.status == Comparability.NOT_COMPARABLE and short(ruling.reasons[0])
            why = f" ({refused})" if refused and refused not in given else ""
            names.setdefault(f"{difference_of(made, metric)}{why}", []).append(metric.value)
    if names:
        printing.item("", f"Not asked: {', '.join(f'{listed(each)} {text}' for text, each in names.items())}", 2)


def _show_free_differences(made: Comparison, verbose: bool) -> None:
    """Settings without an effect on any metric; without -v neither the platforms nor those of a refused comparison."""
    if not (verbose or all(made.comparable[metric].holds for metric in made.asked)):
        return
    free = [clause.dotted for clause in made.contract if clause.status == Agreement.DIFFERENT and not clause.governs]
    keys = free if verbose else [key for key in free if key not in ONE_PLATFORM]
    if keys:
        shown = keys if verbose else keys[:_MOST_KEYS]
        more = f" and {len(keys) - len(shown)} more" if len(keys) > len(shown) else ""
        printing.item("", f"Differences that do not affect this comparison: {', '.join(shown)}{more}", 2)


def ratio_words(ratio: Ratio) -> str:
    return f"{with_interval(ratio.value, ratio.low, ratio.high)}  {ratio.words}"
