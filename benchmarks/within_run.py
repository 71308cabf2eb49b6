"""How often an interval from inside one run a side calls two equal platforms different, by how much whole runs differ.

Two equal platforms, 50 steps a run, 1 % step noise that remembers half of itself, 4,000 pairs a row; 0.05 is nominal.
"""

import numpy as np

from steelyard.comparison.intervals import spread, within_runs

PAIRS, STEPS, NOISE = 4000, 50, 0.01


def run(chance: np.random.Generator, correlation: float, between_runs: float) -> np.ndarray:
    noise = chance.standard_normal(STEPS) * NOISE * np.sqrt(1 - correlation**2)
    steps = np.empty(STEPS)
    steps[0] = chance.standard_normal() * NOISE
    for at in range(1, STEPS):
        steps[at] = correlation * steps[at - 1] + noise[at]
    return np.exp(steps + between_runs * chance.standard_normal())


def main() -> None:
    print("| lag-1 correlation | run-to-run CV | equal platforms called different |")
    print("| --- | --- | --- |")
    for correlation, between_runs in ((0.0, 0.0), (0.5, 0.0), (0.8, 0.0), (0.5, 0.005), (0.5, 0.01)):
        chance = np.random.default_rng(1)
        wrong = 0
        for _ in range(PAIRS):
            target, baseline = (run(chance, correlation, between_runs) for _ in range(2))
            around = within_runs(baseline.sum() / target.sum(), spread(target), spread(baseline))
            assert around is not None
            wrong += not around[0] <= 1 <= around[1]
        print(f"| {correlation} | {between_runs:.1%} | {wrong / PAIRS:.2f} |")


if __name__ == "__main__":
    main()
