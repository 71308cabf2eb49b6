"""Columns say what steps say."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard import records
from steelyard.errors import InputError
from steelyard.records import Evidence, Step
from steelyard.records.columns import _Row
from steelyard.records.step import to_line


def test_a_row_has_the_types_of_the_step_it_is_read_from() -> None:
    hints = Step.__annotations__
    for name, kind in _Row.__annotations__.items():
        if name != "nonfinite":
            assert kind == hints[name], name


def test_columns_equal_the_steps_of_a_recorded_run(recorded: Callable[..., Any]) -> None:
    run = recorded()
    table, steps = records.table(run), list(records.steps(run))
    assert len(table) == len(steps) == 60
    for row, step in enumerate(steps):
        assert table.step[row] == step.step
        assert table.loss.values[row] == step.loss
        assert table.step_time_s.values[row] == step.step_time_s
        assert table.memory_gib.values[row] == step.memory_gib
        assert table.evidence(row) == step.source
    assert table.memory_kinds == ("torch_reserved_peak",)


def test_absent_null_nan_and_infinite_are_told_apart(recorded: Callable[..., Any]) -> None:
    run = recorded()
    lines = [
        to_line(Step(step=1, loss=2.0, flags=("eval",))),
        to_line(Step(step=2)),
        to_line(Step(step=3, loss=math.nan, source=Evidence("logs/node0.log", 9))),
        to_line(Step(step=4, loss=-math.inf, flags=("eval", "checkpoint"))),
    ]
    (Path(run) / "steps.jsonl").write_bytes(b"".join(lines))
    table = records.table(run)
    assert table.loss.given.tolist() == [True, False, True, True]
    assert table.loss.nonfinite.tolist() == [False, False, True, True]
    assert table.loss.values[3] == -math.inf
    assert table.flag("eval").tolist() == [True, False, False, True]
    assert table.flag("checkpoint").tolist() == [False, False, False, True]
    assert not table.flag("nonsense").any()
    assert table.evidence(1) == Evidence("steps.jsonl", 2)
    assert table.evidence(2) == Evidence("logs/node0.log", 9)


def test_a_chunk_may_end_anywhere(recorded: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    run = recorded()
    whole = records.table(run)
    for size in (1, 100, 503, 4096):
        monkeypatch.setattr("steelyard.records.columns._CHUNK_BYTES", size)
        assert records.table(run).loss.values.tolist() == whole.loss.values.tolist()


def test_a_last_line_cut_short_is_no_step(recorded: Callable[..., Any]) -> None:
    run = recorded()
    path = Path(run) / "steps.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert len(records.table(run)) == 59


@pytest.mark.parametrize(
    "line",
    ['{"step": 3, "loss": "2.5"}', '{"step": "3"}', '{"step": 3,', "[]", '{"step": 3, "nonfinite": {"loss": "nan"}}'],
)
def test_a_line_that_cannot_be_read_is_named(recorded: Callable[..., Any], line: str) -> None:
    run = recorded()
    (Path(run) / "steps.jsonl").write_text(f'{{"step": 1}}\n{{"step": 2}}\n{line}\n{{"step": 4}}\n')
    with pytest.raises(InputError, match="line 3 cannot be read"):
        records.table(run)
    with pytest.raises(InputError, match="line 3 cannot be read"):
        list(records.steps(run))


def test_a_run_without_steps_has_an_empty_table(recorded: Callable[..., Any]) -> None:
    run = recorded()
    (Path(run) / "steps.jsonl").unlink()
    table = records.table(run)
    assert len(table) == 0
    assert not table.loss.given.any()


def test_runs_read_side_by_side_are_the_same_runs(
    recorded: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [Path(recorded(name)) for name in ("baseline", "again", "half-batch")]
    alone = [records.table(run).step_time_s.values.tolist() for run in runs]
    monkeypatch.setattr("steelyard.records.columns._WORTH_A_PROCESS", 0)
    assert [one.step_time_s.values.tolist() for one in records.tables(runs)] == alone
    (runs[1] / "steps.jsonl").write_text('{"step": 1}\n{"step"}\n')
    with pytest.raises(InputError, match="line 2 cannot be read") as raised:
        records.tables(runs)
    assert raised.value.key == "RUN"


def test_first_and_last_are_found_without_the_rest(recorded: Callable[..., Any]) -> None:
    run = recorded()
    steps = list(records.steps(run))
    assert records.first_and_last(run) == (steps[0], steps[-1])
    path = Path(run) / "steps.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert records.first_and_last(run) == (steps[0], steps[-2])
    path.write_bytes(b"".join(to_line(Step(step=at, loss=1.0, node="n" * 200_000)) for at in (1, 2)))
    first, last = records.first_and_last(run)
    assert first is not None
    assert last is not None
    assert (first.step, last.step) == (1, 2)
    path.write_bytes(to_line(Step(step=7)))
    assert records.first_and_last(run) == (Step(step=7), Step(step=7))
    path.write_text("")
    assert records.first_and_last(run) == (None, None)
