"""What the intervals of a ladder are worth: ladders of which the truth is known.

Each ladder has four rungs and a target. Rungs of one repeat share what the machine does at that time, and each rung has
a noise of its own. Limits are printed next to what was measured; a miss exits with 1.
"""

import argparse
import math
import sys

import numpy as np

from steelyard.comparison.shares import Factor, Ladder

LADDERS = 4_000
TRUE = np.array([0.0, 0.1, 0.3, 0.25, 0.5])
"""Logarithms of the rates of the rungs and of the target."""
NOISE = (0.02, 0.05, 0.01, 0.03, 0.02)
WEATHER = 0.02
LEAST = 0.93


def factors(chance: np.random.Generator, repeats: int, runs: int) -> list[Factor]:
    weather, rungs = chance.normal(0, WEATHER, repeats), len(TRUE) - 1
    rates = [list(np.exp(TRUE[at] + weather + chance.normal(0, NOISE[at], repeats))) for at in range(rungs)]
    ladder = Ladder(rates, list(np.exp(chance.normal(TRUE[-1], NOISE[-1], runs))))
    rest = ladder.rest()
    return [*ladder.steps(), *([rest] if rest else [])]


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--ladders", type=int, default=LADDERS)
    count, chance, missed = asked.parse_args().ladders, np.random.default_rng(11), 0
    print(f"{count:,} ladders each; noise {NOISE}, shared {WEATHER}\n")
    print("| ladder | factors covered | shares covered | limit | |\n| --- | --- | --- | --- | --- |")
    for repeats, runs in ((3, 3), (3, 8), (5, 5), (3, 0), (5, 0)):
        covered = np.zeros((2, len(TRUE) - (1 if runs else 2)))
        for _ in range(count):
            made = factors(chance, repeats, runs)
            true = np.diff(TRUE)[: len(made)]
            for at, (factor, log) in enumerate(zip(made, true, strict=True)):
                low, high = factor.interval or (math.nan, math.nan)
                covered[0, at] += low <= math.exp(log) <= high
                covered[1, at] += bool(factor.share and factor.share.low <= log / true.sum() <= factor.share.high)
        kept = covered.min() / count >= LEAST
        missed += not kept
        spans = " | ".join(f"{row.min() / count:.1%} to {row.max() / count:.1%}" for row in covered)
        print(f"| {repeats} repeats, {runs} target runs | {spans} | >= {LEAST:.0%} | {'kept' if kept else 'MISSED'} |")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
