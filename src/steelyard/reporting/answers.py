"""What a comparison comes to: one sentence for each thing that was asked, and none speaks for another."""

from collections.abc import Iterator

from steelyard.comparison import Comparability, Comparison, Metric, Ratio
from steelyard.comparison.codes import sentence
from steelyard.comparison.intervals import FEWEST, Outcome
from steelyard.comparison.tiers import Answer as TierAnswer
from steelyard.errors import Exit
from steelyard.reporting.page import Answer, Tone

NAMES = {
    Metric.THROUGHPUT: "Throughput",
    Metric.MEMORY: "Memory",
    Metric.FLOPS: "FLOPs utilization",
    Metric.CONVERGENCE: "Convergence",
}
_OF_WHAT = {
    Metric.THROUGHPUT: "tokens/s a GPU, target over baseline",
    Metric.MEMORY: "peak memory, baseline over target",
    Metric.FLOPS: "MFU, target over baseline",
}
_TARGET = {Metric.THROUGHPUT: "The target is", Metric.MEMORY: "The target", Metric.FLOPS: "The target's GPUs are"}
_NOTHING = "Nothing here says that one side is better."
_ALIKE_TONES = {
    "equivalent": Tone.GOOD,
    "not_equivalent": Tone.BAD,
    "not_comparable": Tone.BAD,
    "unknown": Tone.UNSURE,
}
_TOGETHER = {
    Exit.GOOD: "decided",
    Exit.FAILED: "not equivalent",
    Exit.NOT_COMPARABLE: "not comparable",
    Exit.UNKNOWN: "not decided",
}
_TONE_TOGETHER = {Exit.GOOD: Tone.GOOD, Exit.UNKNOWN: Tone.UNSURE}


def answers(made: Comparison) -> list[Answer]:
    """One for each metric that was asked, in the order it was asked."""
    return [
        _of_curves(made) if metric == Metric.CONVERGENCE else _of_ratio(metric, made.ratios[metric], made)
        for metric in made.asked
    ]


def together(made: Comparison, found: list[Answer]) -> Answer:
    """The one word a reader came for; of several answers that differ, the worst, since each stands by itself."""
    if len(found) == 1:
        return found[0]
    words = {one.word for one in found}
    word = words.pop() if len(words) == 1 else _TOGETHER[made.exit]
    tone = found[0].tone if len({one.tone for one in found}) == 1 else _TONE_TOGETHER.get(made.exit, Tone.BAD)
    worst = (
        "That is the worst of what was asked. "
        if made.exit != Exit.GOOD and len({one.word for one in found}) > 1
        else ""
    )
    *names, last = [metric.value for metric in made.asked]
    other = "neither vouches for the other" if len(found) == 2 else "none vouches for another"
    return Answer(
        "", word, tone, f"{worst}{', '.join(names).capitalize()} and {last} are answered one by one, and {other}."
    )


def tone_of(ratio: Ratio) -> Tone:
    """What is decided for the target or says that both are alike is good; what is not decided is a note."""
    if ratio.forced:
        return Tone.BAD
    if not ratio.decided:
        return Tone.UNSURE if ratio.interval == "runs" and ratio.low is not None else Tone.NOTE
    return Tone.NOTE if ratio.outcome.below else Tone.GOOD


def around(ratio: Ratio) -> str:
    """The interval in words, with what it is an interval of; empty where there is none."""
    if ratio.low is None or ratio.high is None:
        return ""
    basis = f"between {ratio.target_runs} and {ratio.baseline_runs} runs"
    if ratio.interval != "runs":
        basis = "inside these runs, which says nothing of another run"
    return f"{ratio.level:.0%} interval {ratio.low:.4f} to {ratio.high:.4f} {basis}"


def _of_ratio(metric: Metric, ratio: Ratio | None, made: Comparison) -> Answer:
    ruling = made.comparable[metric]
    first = sentence(ruling.reasons[0]) if ruling.reasons else ""
    more = len(ruling.decisive) - 1
    refused = ruling.status == Comparability.NOT_COMPARABLE
    because = f"{'Refused' if refused else 'Not known'}: {first}{f'; {more} more below' if more > 0 else ''}."
    if ratio is not None and ratio.forced:
        forced = f"The ratio, {ratio.value:.4f}, is FORCED: it compares different jobs, and no claim is made."
        return Answer(NAMES[metric], f"{_spaced(ruling.status)}, ratio forced", Tone.BAD, f"{because} {forced}")
    if ratio is None:
        tone = Tone.BAD if refused else Tone.UNSURE
        return Answer(NAMES[metric], _spaced(ruling.status), tone, f"{because} No claim is made.")
    beside = " The differences below are said beside it." if ruling.status == Comparability.QUALIFIED else ""
    return Answer(NAMES[metric], ratio.words, tone_of(ratio), f"{_said(metric, ratio)}{beside}")


def _said(metric: Metric, ratio: Ratio) -> str:
    interval = around(ratio)
    figure = f"{ratio.value:.4f} ({_OF_WHAT[metric]}){f', {interval}' if interval else ''}"
    if not ratio.decided:
        return f"The ratio is {figure}. {_NOTHING}"
    if ratio.outcome == Outcome.EQUIVALENT:
        return f"The two sides are {ratio.words}: {figure}."
    beyond = ratio.outcome in (Outcome.BETTER, Outcome.WORSE)
    where = f", all of it beyond the margin of {ratio.margin:.3g}" if beyond else ""
    return f"{_TARGET[metric]} {ratio.words}: {figure}{where}."


def _of_curves(made: Comparison) -> Answer:
    found = made.convergence
    return Answer(NAMES[Metric.CONVERGENCE], _spaced(found.status), _ALIKE_TONES[found.status], " ".join(_learnt(made)))


def _learnt(made: Comparison) -> Iterator[str]:
    found = made.convergence
    match found.status:
        case "not_comparable":
            yield f"Refused: {found.tiers[0].message}. The curves are of different jobs, and no claim is made."
        case "not_equivalent":
            failed = next(one for one in found.tiers if one.tier == found.first_failing_tier)
            yield f"The two sides do not learn alike: {failed.tier} is the first tier that fails: {failed.message}."
        case "unknown":
            open_ = next(one for one in found.tiers if one.status == TierAnswer.UNKNOWN)
            yield f"Whether the two sides learn alike is not known: {open_.tier}: {open_.message}."
        case _:
            yield f"The two sides learn alike: none of {len(found.tiers)} tiers fails, and none is open."
            if min(found.known_seeds) < FEWEST:
                yield "That is said of these seeds; what another would do is not known."
    if found.qualified:
        yield "The differences below are said beside it."


def _spaced(word: str) -> str:
    return word.replace("_", " ")
