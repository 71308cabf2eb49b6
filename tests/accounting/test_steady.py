"""The steady window drops warm-up and marked steps, and no more."""

import numpy as np
import pytest

from steelyard.accounting.steady import SteadyWindow, steady_window, warmup_records


def window(times: list[float] | np.ndarray, asked: int = 0, **marks: list[int]) -> SteadyWindow:
    times = np.asarray(times, dtype=float)
    step = np.arange(1, len(times) + 1)
    masks = {name: np.isin(step, at) for name, at in marks.items()}
    return steady_window(step, np.ones_like(step), times, masks, asked)


def noisy(count: int, seed: int = 0) -> np.ndarray:
    return 1 + 0.01 * np.random.default_rng(seed).standard_normal(count)


@pytest.mark.parametrize("warm", [1, 3, 10, 23])
def test_slow_first_steps_are_dropped_in_batches_of_five(warm: int) -> None:
    for seed in range(20):
        times = noisy(100, seed)
        times[:warm] *= 1.5
        found = window(times)
        assert found.first_step == -(-warm // 5) * 5 + 1
        assert found.settled


def test_a_compilation_in_the_first_step_of_a_short_run_is_dropped() -> None:
    assert window([9.0, 1.0, 1.01, 1.0, 0.99, 1.0]).first_step == 2


def test_steady_times_are_kept_whole() -> None:
    kept = [window(noisy(100, seed)).steps for seed in range(200)]
    assert np.mean(np.array(kept) == 100) > 0.8


def test_a_slow_step_amid_steady_ones_is_no_warm_up() -> None:
    times = noisy(100)
    times[39] = 20.0
    found = window(times)
    assert found.mask[39]
    assert found.steps == 100


def test_a_drift_of_a_percent_is_no_warm_up() -> None:
    assert window(np.linspace(1.01, 1.0, 100)).steps == 100


def test_times_that_never_settle_leave_half_and_say_so() -> None:
    found = window(np.linspace(2.0, 1.0, 100))
    assert (found.steps, found.settled) == (50, False)
    assert "not steady" in found.words()


@pytest.mark.parametrize("warm", [55, 60, 72])
def test_a_warm_up_may_be_longer_than_half_of_the_run(warm: int) -> None:
    for seed in range(20):
        times = noisy(100, seed)
        times[:warm] *= 3
        found = window(times)
        assert (found.first_step, found.settled) == (-(-warm // 5) * 5 + 1, True)


@pytest.mark.parametrize("warm", [77, 81])
def test_what_is_left_of_a_long_warm_up_must_be_a_quarter(warm: int) -> None:
    for seed in range(20):
        times = noisy(100, seed)
        times[:warm] *= 3
        assert not window(times).settled


@pytest.mark.parametrize("slower", [1.03, 1.1, 1.5])
@pytest.mark.parametrize("begin", [60, 75])
def test_an_end_that_is_slower_stays_in(slower: float, begin: int) -> None:
    for seed in range(20):
        times = noisy(100, seed)
        times[begin:] *= slower
        found = window(times)
        assert (found.steps, found.settled) == (100, True)


def test_a_warm_up_before_a_slower_end_is_dropped() -> None:
    times = noisy(100)
    times[:10] *= 1.5
    times[75:] *= 1.1
    found = window(times)
    assert (found.first_step, found.last_step, found.settled) == (11, 100, True)


def test_a_warm_up_slower_than_the_run_is_long_is_not_settled() -> None:
    found = [window(noisy(200, seed) * (1 + 0.5 * np.exp(-np.arange(200) / 80))) for seed in range(100)]
    assert np.mean([each.settled for each in found]) <= 0.1


@pytest.mark.parametrize("tau", [2, 5, 15])
def test_a_warm_up_that_ends_within_the_run_leaves_a_rate_without_it(tau: float) -> None:
    for seed in range(50):
        times = noisy(200, seed) * (1 + 0.5 * np.exp(-np.arange(200) / tau))
        found = window(times)
        assert found.settled
        assert times[found.mask].mean() == pytest.approx(1.0, abs=0.01)


def test_the_fall_of_step_times_inside_the_window_is_known() -> None:
    assert window(np.linspace(1.005, 0.995, 100)).fall == pytest.approx(0.005, rel=0.02)
    assert window(np.linspace(0.995, 1.005, 100)).fall == pytest.approx(-0.005, rel=0.02)
    assert window(noisy(7)).fall == 0


@pytest.mark.parametrize("memory", [0.5, 0.9])
def test_noise_that_remembers_is_no_warm_up(memory: float) -> None:
    chance, kept = np.random.default_rng(2), []
    for _ in range(200):
        noise = chance.standard_normal(200)
        for at in range(1, 200):
            noise[at] = memory * noise[at - 1] + np.sqrt(1 - memory**2) * noise[at]
        kept.append(window(1 + 0.01 * noise))
    assert np.mean([each.settled for each in kept]) >= 0.99
    assert np.mean([each.steps for each in kept]) >= 0.97 * 200


def test_the_larger_of_asked_and_detected_is_dropped() -> None:
    times = noisy(100)
    times[:10] *= 2
    assert window(times, asked=3).first_step == 11
    assert window(times, asked=30).first_step == 31


def test_marked_steps_are_dropped_and_named() -> None:
    found = window(noisy(60), eval=[20, 40], checkpoint=[30], nonsense=[50])
    assert found.steps == 57
    assert found.words() == "57 steady steps, 1 to 60 (dropped: 2 eval, 1 checkpoint)"


def test_steps_without_a_usable_time_are_counted() -> None:
    times = noisy(40)
    times[[20, 21, 22]] = np.nan, 0.0, -1.0
    assert window(times).dropped["without a time"] == 3


def test_records_that_cover_several_steps_count_as_many() -> None:
    step = np.arange(10, 510, 10)
    found = steady_window(step, np.full(50, 10), noisy(50), {}, 0)
    assert (found.steps, found.first_step, found.last_step) == (500, 1, 500)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_few_records_are_kept_as_they_are(count: int) -> None:
    assert warmup_records(np.ones(count)) == (0, True)
    assert window([1.0] * count).steps == count
