"""Which run of a fleet stands out, and when nothing can be said."""

import statistics

import pytest

from steelyard.campaign.fleet_verdict import outliers
from steelyard.verdict import Status, worst


def found(*values: float) -> dict[str, float | None]:
    named = {f"g{at}": value for at, value in enumerate(values, start=1)}
    return {outlier.host: outlier.robust_z for outlier in outliers("step_time_s", named)}


def test_the_slow_host_is_named_with_its_modified_z_score() -> None:
    values = [1.00, 1.01, 0.99, 1.02, 1.20]
    median = statistics.median(values)
    mad = statistics.median(abs(value - median) for value in values)
    assert found(*values) == {"g5": pytest.approx(0.6745 * (1.20 - median) / mad)}


def test_a_host_within_5_percent_of_the_median_is_none_however_closely_the_others_agree() -> None:
    assert found(1.000, 1.001, 0.999, 1.002, 1.049) == {}
    assert set(found(1.000, 1.001, 0.999, 1.002, 1.06)) == {"g5"}


def test_a_wide_spread_hides_what_is_far_from_the_median() -> None:
    assert found(1.0, 1.2, 0.8, 1.3, 1.4) == {}


def test_fewer_than_four_runs_say_nothing() -> None:
    assert found(1.0, 1.0, 9.0) == {}
    assert found() == {}


def test_where_most_runs_agree_to_the_last_digit_the_share_alone_decides() -> None:
    assert found(40.0, 40.0, 40.0, 40.0, 41.0) == {}
    assert found(40.0, 40.0, 40.0, 40.0, 30.0) == {"g5": None}
    assert found(40.0, 40.0, 40.0, 40.0) == {}


def test_an_outlier_says_host_metric_share_and_score() -> None:
    (outlier,) = outliers("step_time_s", {"a": 1.0, "b": 1.01, "c": 0.99, "gpu07": 1.5})
    assert outlier.words == "gpu07: step_time_s is 1.5, 49.3% above the median of 1.005 (robust z 33.4)"


def test_the_verdict_of_a_fleet_is_the_worst_of_its_runs() -> None:
    assert worst([Status.PASS, Status.PASS]) == Status.PASS
    assert worst([Status.PASS, Status.UNKNOWN]) == Status.UNKNOWN
    assert worst([Status.UNKNOWN, Status.FAIL, Status.PASS]) == Status.FAIL
