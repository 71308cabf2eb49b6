"""Thresholds say their direction."""

import pytest

from steelyard.experiment.thresholds import Direction, Threshold, parse_threshold


@pytest.mark.parametrize(
    ("text", "threshold"),
    [
        ("tokens_per_s_per_gpu>=6500", Threshold("tokens_per_s_per_gpu", Direction.AT_LEAST, 6500.0)),
        ("step_time_s <= 12", Threshold("step_time_s", Direction.AT_MOST, 12.0)),
        ("memory_peak_gib within 118 +- 5%", Threshold("memory_peak_gib", Direction.WITHIN, 118.0, 5.0)),
        ("mfu>=4e-1", Threshold("mfu", Direction.AT_LEAST, 0.4)),
    ],
)
def test_a_threshold_is_read(text: str, threshold: Threshold) -> None:
    assert parse_threshold(text) == threshold


@pytest.mark.parametrize(
    "text", ["mfu>4", "mfu 4", "mfu>=nan", "mfu>=-1", "mfu within 4", "speed>=1", "mfu>=1 or 1", ""]
)
def test_what_has_no_direction_or_metric_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_threshold(text)
