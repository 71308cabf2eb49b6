"""Rows chosen without copies, and gone through in blocks, are the rows that a mask chooses."""

import numpy as np
import pytest

from steelyard.accounting import arrays
from steelyard.accounting.arrays import blocks, chosen, last_row, row_of
from steelyard.accounting.steady import warmup_records


@pytest.mark.parametrize("mask", ["00000", "11111", "00110", "10101", "10000", "00001", "01111", "11110", "0", "1", ""])
def test_the_chosen_are_those_of_the_mask(mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "BLOCK", 2)
    rows = np.array([bit == "1" for bit in mask], dtype=np.bool_)
    values = np.arange(len(mask)) * 10.0
    assert chosen(values, rows).tolist() == values[rows].tolist()
    places = np.flatnonzero(rows).tolist()
    assert [row_of(rows, at) for at in range(len(places))] == places
    if places:
        assert last_row(rows) == places[-1]
    with pytest.raises(IndexError):
        row_of(rows, len(places))


def test_rows_that_lie_together_are_not_copied() -> None:
    values, mask = np.arange(100.0), np.zeros(100, dtype=np.bool_)
    mask[10:90] = True
    assert np.shares_memory(chosen(values, mask), values)


def test_blocks_cover_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "BLOCK", 3)
    assert [(part.start, part.stop) for part in blocks(7)] == [(0, 3), (3, 6), (6, 7)]
    assert list(blocks(0)) == []


@pytest.mark.parametrize("records", [4, 9, 11, 20, 21, 57, 400])
def test_a_warm_up_is_found_in_blocks_as_in_one(records: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(records)
    times = 2 + 0.01 * chance.standard_normal(records) + 5 * (np.arange(records) < records // 5)
    times[chance.integers(records)] *= 10
    together = warmup_records(times)
    for size in (1, 2, 3, 7):
        monkeypatch.setattr(arrays, "BLOCK", size)
        assert warmup_records(times) == together
