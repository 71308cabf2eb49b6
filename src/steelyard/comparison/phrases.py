"""Numbers and lists as a person reads them: percentages, intervals, figures, counts."""

import math
from collections.abc import Sequence

_MOST_DECIMALS = 2


def percents(*shares: float, decimals: int = _MOST_DECIMALS) -> list[str]:
    """Shares as percentages with one number of decimals: two digits of the largest, at most `decimals`."""
    largest = max((abs(100 * share) for share in shares if math.isfinite(share)), default=0.0)
    size = math.floor(math.log10(largest)) if largest else 0
    places = min(max(1 - size, 0 if size > 1 else 1), decimals)
    texts = (f"{100 * share:,.{places}f}" for share in shares)
    return [text.lstrip("-") if float(text.replace(",", "")) == 0 else text for text in texts]


def percent(share: float, signed: bool = False, decimals: int = _MOST_DECIMALS) -> str:
    """`7.0%`, or `+7.0%`."""
    (text,) = percents(share, decimals=decimals)
    text = text if text.strip("0.") else "0.0"
    return f"{_plus(text) if signed else text}%"


def _plus(number: str) -> str:
    """With a `+` if it is above 0."""
    return number if number.startswith("-") or not number.strip("0.,%") else f"+{number}"


def plain_percent(share: float) -> str:
    """A margin as it is typed: `5%`, `0.1%`."""
    return f"{100 * share:.3g}%"


def percent_interval(share: float, low: float, high: float, decimals: int = _MOST_DECIMALS) -> tuple[str, str]:
    """A percentage and its 95% CI: `7.0%` and `95% CI 5.8 to 8.2%`."""
    value, first, last = percents(share, low, high, decimals=decimals)
    return f"{value}%", f"95% CI {first} to {last}%"


def figure(value: float) -> str:
    """A rate, memory or time: whole numbers from 100 on, else three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def rounded(value: float) -> str:
    """A large number that was computed from printed figures, to three significant digits: `459,000`."""
    return f"{float(f'{value:.3g}'):,.0f}"


def each(counts: Sequence[int], noun: str) -> str:
    """`4 runs each`, `one run each`, `4 and 3 runs`."""
    target, baseline = counts
    if target != baseline:
        return f"{target} and {baseline} {noun}s"
    return f"{target} {noun}s each" if target != 1 else f"one {noun} each"


def plural(count: int, noun: str) -> str:
    """`1 step`, `20 steps`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def listed(words: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else words[0]


def shortened(words: Sequence[str], most: int) -> str:
    """`a, b, c and 7 more`; all words if only one more is left."""
    more = len(words) - most
    return f"{', '.join(words[:most])} and {more} more" if more > 1 else listed(words)


def compared(ratio: float, low: float | None, high: float | None, more: str, less: str) -> tuple[str, str]:
    """A ratio as a difference with its 95% CI: `7.0% faster` and `95% CI 5.8 to 8.2%`; an empty CI if it is unknown."""
    word, sign = (more, 1) if ratio >= 1 else (less, -1)
    shares = [sign * (value - 1) for value in (ratio, low, high) if value is not None]
    if len(shares) < 3:
        return f"{percent(shares[0])} {word}", ""
    first, last = sorted(shares[1:])
    value, interval = percent_interval(shares[0], first, last)
    return f"{value} {word}", interval


def signed(ratio: float, low: float | None = None, high: float | None = None) -> str:
    """A ratio as a signed difference: `+0.3%`, or `+0.3%, 95% CI -1.0 to 1.6%`."""
    if low is None or high is None:
        return percent(ratio - 1, signed=True)
    value, interval = percent_interval(ratio - 1, low - 1, high - 1)
    return f"{_plus(value)}, {interval}"
