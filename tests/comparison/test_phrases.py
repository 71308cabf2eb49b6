"""Numbers as a person reads them."""

import pytest

from steelyard.comparison.phrases import compared, each, figure, percent, percent_interval, rounded, signed


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.07, "7.0%"),
        (0.3655, "36.5%"),
        (1.52, "152%"),
        (12.5, "1,250%"),
        (0.0014, "0.14%"),
        (-1e-9, "0.0%"),
        (0, "0.0%"),
    ],
)
def test_a_percentage_has_two_or_three_digits(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("shares", "texts"),
    [
        ((0.07, 0.058, 0.082), ("7.0%", "95% CI 5.8 to 8.2%")),
        ((0.003, -0.081, 0.092), ("0.3%", "95% CI -8.1 to 9.2%")),
        ((0.0, 0.0, 0.0), ("0.0%", "95% CI 0.0 to 0.0%")),
    ],
)
def test_an_interval_has_one_number_of_decimals(shares: tuple[float, float, float], texts: tuple[str, str]) -> None:
    assert percent_interval(*shares) == texts


def test_a_difference_below_1_turns_its_interval_round() -> None:
    assert compared(1.07, 1.058, 1.082, "faster", "slower") == ("7.0% faster", "95% CI 5.8 to 8.2%")
    assert compared(0.93, 0.918, 0.942, "faster", "slower") == ("7.0% slower", "95% CI 5.8 to 8.2%")
    assert compared(0.93, None, None, "faster", "slower") == ("7.0% slower", "")


def test_a_signed_difference_has_no_sign_at_0() -> None:
    assert (signed(1.003), signed(0.997), signed(1.0)) == ("+0.30%", "-0.30%", "0.0%")
    assert signed(1.003, 0.99, 1.016) == "+0.3%, 95% CI -1.0 to 1.6%"


def test_figures_have_three_digits_or_are_whole() -> None:
    assert [figure(value) for value in (7753.6, 132.4, 22.512, 10.0, 0.01234)] == [
        "7,754",
        "132",
        "22.5",
        "10.0",
        "0.0123",
    ]
    assert rounded(1_254_773) == "1,250,000"


def test_counts_of_both_sides() -> None:
    assert [each(counts, "run") for counts in ((1, 1), (4, 4), (4, 1))] == [
        "one run each",
        "4 runs each",
        "4 and 1 runs",
    ]
