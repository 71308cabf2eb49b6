"""What the intervals and words of a comparison are worth: campaigns of which the truth is known.

Each campaign is so many runs a side of 50 correlated steps (1 % noise that remembers half of itself), runs that differ
by 1 %, and goes through the code that `compare` uses. Limits are printed beside what was found; a miss ends with 1.
"""

import argparse
import math
import sys

import numpy as np

from steelyard.campaign.suite_means import adjusted_outcomes, mean
from steelyard.comparison.intervals import MARGIN, Between, Outcome, between, outcome_of

CAMPAIGNS, STEPS, NOISE, CORRELATION, RUN_CV = 20_000, 50, 0.01, 0.5, 0.01
JOBS = 10
"""Cells of a suite."""


def figures(chance: np.random.Generator, campaigns: int, runs: int, rate: float) -> np.ndarray:
    """The rate of each run of each campaign, as a ratio of sums."""
    shape = (campaigns, runs)
    time = chance.standard_normal(shape) * NOISE
    total = np.zeros(shape)
    between_runs = np.exp(chance.standard_normal(shape) * RUN_CV)
    for _ in range(STEPS):
        total += np.exp(time)
        time = CORRELATION * time + chance.standard_normal(shape) * NOISE * math.sqrt(1 - CORRELATION**2)
    return rate * between_runs * STEPS / total


def campaign(chance: np.random.Generator, campaigns: int, runs: int, speedup: float) -> list[Between]:
    sides = figures(chance, campaigns, runs, speedup), figures(chance, campaigns, runs, 1.0)
    found = [between(target, baseline) for target, baseline in zip(*sides, strict=True)]
    return [one for one in found if one is not None]


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--campaigns", type=int, default=CAMPAIGNS)
    count = asked.parse_args().campaigns
    chance = np.random.default_rng(7)
    missed = 0

    def tell(what: str, found: float, limit: str, kept: bool) -> None:
        nonlocal missed
        missed += not kept
        print(f"| {what} | {found:.4f} | {limit} | {'kept' if kept else 'MISSED'} |")

    print(f"{count:,} campaigns each; lag-1 correlation {CORRELATION}, run CV {RUN_CV:.0%}, margin {MARGIN:.0%}\n")
    print("| what | found | limit | |")
    print("| --- | --- | --- | --- |")
    for runs in (3, 5, 8):
        for speedup, what in ((1.0, "equal platforms"), (1 + MARGIN, f"a true speedup of {1 + MARGIN:g}")):
            made = campaign(chance, count, runs, speedup)
            covered = np.mean([low <= speedup <= high for low, high in (one.interval() for one in made)])
            tell(f"{runs} runs a side, {what}: the 95 % interval covers", covered, ">= 0.935", covered >= 0.935)
            faster = np.mean([outcome_of(one) == Outcome.BETTER for one in made])
            most = 0.001 if speedup == 1.0 else 0.027
            tell(f"{runs} runs a side, {what}: said to be faster", faster, f"<= {most}", faster <= most)
    made = campaign(chance, count, 5, 1.0)
    power = np.mean([one.equivalent(0.03) for one in made])
    tell("5 runs a side, equal platforms: equivalent within 3 %", power, ">= 0.95", power >= 0.95)
    alone = sum(between([one], [1.0]) is not None for one in figures(chance, count, 1, 2.0)[:, 0])
    tell("1 run a side, twice as fast: an interval, so that words could be said", alone / count, "0", not alone)
    made = campaign(chance, count, 5, 1 + MARGIN)
    suites = [made[at : at + JOBS] for at in range(0, len(made) - JOBS + 1, JOBS)]
    what = f"a suite of {JOBS} cells, 5 runs a side, a true speedup of {1 + MARGIN:g} in each"
    alone = np.mean([any(outcome_of(one) == Outcome.BETTER for one in suite) for suite in suites])
    print(f"| {what}: some cell by itself said to be faster | {alone:.4f} | | |")
    some = np.mean([Outcome.BETTER in adjusted_outcomes(suite, MARGIN) for suite in suites])
    tell(f"{what}: some cell among all said to be faster", some, "<= 0.05", some <= 0.05)
    over_all = [mean(suite).interval() for suite in suites]
    covered = np.mean([low <= 1 + MARGIN <= high for low, high in over_all])
    tell(f"{what}: the 95 % interval over all covers", covered, ">= 0.935", covered >= 0.935)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
