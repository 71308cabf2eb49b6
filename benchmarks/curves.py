"""What the tiers of learning are worth: pairs of loss curves of which the truth is known, by one run or by seeds.

Curves fall by a power law or exponentially, with noise that remembers part of itself, and go through the code that
`compare` uses. Limits are printed beside what was found; a miss ends with 1.
"""

import argparse
import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from steelyard.comparison.curve import LossCurve
from steelyard.comparison.intervals import between
from steelyard.comparison.starts import NO_COMMON_SEED
from steelyard.comparison.tiers import Basis, OverSeeds, learning_speed
from steelyard.comparison.tiers import level as level_tier
from steelyard.comparison.tiers.learning_speed import COMPARED, MARGIN, OBSERVED, reached
from steelyard.comparison.tiers.level import judged
from steelyard.comparison.tiers.reference import Within, ratio
from steelyard.reasons import Reason

PAIRS, CAMPAIGNS, TOKENS = 400, 200, 512
NOISES = (("power law", 300, 0.5, 0.02), ("power law", 1000, 0.3, 0.01), ("exponential", 300, 0.5, 0.02))
"""Shape, steps, what the noise remembers, and how large it is, as a share of the loss."""
SLOW = 1.3


def curve(chance: np.random.Generator, shape: str, steps: int, memory: float, size: float, slow: float) -> LossCurve:
    step = np.arange(1, steps + 1)
    at = step / slow
    loss = 3 + 7.8 * np.exp(-at / (steps / 6)) if shape == "exponential" else 2 + 9 * (5 / (at + 5)) ** 0.3
    fresh = chance.standard_normal(steps) * math.sqrt(1 - memory**2)
    noise = np.empty(steps)
    noise[0] = chance.standard_normal()
    for row in range(1, steps):
        noise[row] = memory * noise[row - 1] + fresh[row]
    ones = np.ones(steps, dtype=np.int64)
    return LossCurve(step, ones, step * float(TOKENS), loss * np.exp(size * noise), "tokens")


def speed(chance: np.random.Generator, kind: tuple[str, int, float, float], slow: float) -> tuple[bool, str]:
    """Whether the 95 % interval holds the truth, and what the tier says."""
    curves = [[curve(chance, *kind, slow)], [curve(chance, *kind, 1.0)]]
    found = reached(SimpleNamespace(curves=curves, begin=0.0, end=float(kind[1] * TOKENS), warm_up=None))
    assert not isinstance(found, str), found
    ratio = found.by_chance()
    low, high = ratio.interval()
    return low <= slow <= high, judged("learning_speed", (COMPARED, OBSERVED), ratio, MARGIN, {}).status.value


def tokens(chance: np.random.Generator, seeds: int, slow: float, end: float) -> list[Within]:
    """Between which records seeds that differ by 3 % come down to a loss; some do not before the end."""
    found = []
    for at in slow * np.exp(0.03 * chance.standard_normal(seeds)):
        record = math.floor(at / 0.02) * 0.02
        found.append(Within(record * 1e6, (record + 0.02) * 1e6) if at < end else Within(end * 1e6, math.inf))
    return found


def campaign(chance: np.random.Generator, seeds: int, spread: float, level: float, slow: float) -> set[str]:
    """The tiers that find a difference between sides of so many seeds, whose levels differ by `spread`."""
    sides = []
    for own_level, own_speed in ((level, slow), (1.0, 1.0)):
        runs = []
        for _ in range(seeds):
            made = curve(chance, *NOISES[0], own_speed)
            runs.append(replace(made, loss=made.loss * own_level * math.exp(spread * chance.standard_normal())))
        sides.append(runs)
    pair = Sides(sides, seeds)
    answers = level_tier.ask(pair), learning_speed.ask(pair)  # type: ignore[arg-type]
    return {tier.tier for tier in answers if tier.status == "fail"}


class Sides(SimpleNamespace):
    """Two sides of runs with different known seeds, as the tiers read them."""

    def __init__(self, curves: list[list[LossCurve]], seeds: int) -> None:
        end, names = float(NOISES[0][1] * TOKENS), ("target", "baseline")
        super().__init__(curves=curves, begin=0.0, end=end, warm_up=None, seeds=(seeds, seeds), called=names)
        self.unmatched, self.matched, self.axis = Reason(NO_COMMON_SEED), [], "tokens"

    def same(self, key: str) -> bool:
        return True

    def over_seeds(self, figures: list[list[float]]) -> OverSeeds | None:
        made = between(*figures[:2])
        return OverSeeds(made, self.seeds, Basis.SEEDS) if made else None


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--pairs", type=int, default=PAIRS)
    asked.add_argument("--campaigns", type=int, default=CAMPAIGNS)
    words = asked.parse_args()
    count, campaigns, missed = words.pairs, words.campaigns, 0

    def tell(what: str, found: float, limit: str, kept: bool) -> None:
        nonlocal missed
        missed += not kept
        print(f"| {what} | {found:.3f} | {limit} | {'kept' if kept else 'MISSED'} |", flush=True)

    print(f"{count:,} pairs each\n\n| what | found | limit | |\n| --- | --- | --- | --- |")
    for kind in NOISES:
        shape, steps, memory, size = kind
        words = f"{shape}, {steps} steps, {size:.0%} noise that remembers {memory:g}"
        chance = np.random.default_rng(7)
        alike = [speed(chance, kind, 1.0) for _ in range(count)]
        covered, failed = (
            float(np.mean(one)) for one in zip(*((held, said == "fail") for held, said in alike), strict=True)
        )
        tell(f"{words}: the 95 % interval of equal curves covers", covered, ">= 0.93", covered >= 0.93)
        tell(f"{words}: equal curves said to differ", failed, "<= 0.07", failed <= 0.07)
        slower = float(np.mean([speed(chance, kind, SLOW)[1] == "fail" for _ in range(count)]))
        tell(f"{words}: {SLOW - 1:.0%} slower said to differ", slower, ">= 0.95", slower >= 0.95)
    for seeds, end in ((3, math.inf), (5, math.inf), (8, 1.05)):
        chance, held, made = np.random.default_rng(7), 0, 0
        while made < count:
            sides = tokens(chance, seeds, 1.0, end), tokens(chance, seeds, 1.0, end)
            if all(any(math.isfinite(one.by) for one in side) for side in sides):
                low, high = ratio(*sides).interval()
                held, made = held + (low <= 1 <= high), made + 1
        until = "" if math.isinf(end) else ", cut short where one of twenty is not there yet"
        covered = held / count
        tell(
            f"{seeds} seeds a side, tokens to a loss{until}: the 95 % interval covers",
            covered,
            ">= 0.92",
            covered >= 0.92,
        )
    spread = 0.003
    print("\n| sides | levels 2% apart | speed 0.95 | equal sides said to differ |\n| --- | --- | --- | --- |")
    for seeds in (1, 2, 3, 5):
        chance = np.random.default_rng(7)
        shares = [
            np.mean([bool(campaign(chance, seeds, spread, *truth)) for _ in range(campaigns)])
            for truth in ((1.02, 1.0), (1.0, 0.95), (1.0, 1.0))
        ]
        print(
            f"| {seeds} seeds each, {spread:.1%} apart | {' | '.join(f'{share:.3f}' for share in shares)} |", flush=True
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
