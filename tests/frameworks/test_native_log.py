"""The built-in trainer's log."""

import math

from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered
from steelyard.records import Event, Evidence, Step

LINE = (
    "step: 3/200 | loss: 4.861166894435883 | grad_norm: 0.5 | learning_rate: 0.0005 | step_time_s: 0.25 | tokens: 8192"
    " | tokens_per_s_per_gpu: 32768.0 | memory_gib: 0.5 | memory_kind: process_rss_peak"
    " | time: 2026-01-01T00:00:00.000+00:00"
)


def read(*lines: str) -> list[Step | Event]:
    said = Gathered()
    reader = LogReader("logs/node0.log", said, "native")
    reader.feed([text.encode() for text in lines])
    reader.end()
    return said.take()


def test_a_step_line_is_read_by_name_in_full_precision() -> None:
    (step,) = read(LINE)
    assert isinstance(step, Step)
    assert (step.step, step.loss, step.tokens) == (3, 4.861166894435883, 8192)
    assert step.reported_tokens_per_s_per_gpu == 32768.0
    assert step.tokens_per_s_per_gpu is None  # ours is derived, not read
    assert step.source == Evidence("logs/node0.log", 1)


def test_nan_and_infinity_are_read_as_such() -> None:
    (step,) = read(LINE.replace("4.861166894435883", "nan").replace("grad_norm: 0.5", "grad_norm: inf"))
    assert isinstance(step, Step)
    assert math.isnan(step.loss or 0)
    assert step.grad_norm == math.inf


def test_a_step_line_that_cannot_be_read_is_an_event_and_not_a_gap() -> None:
    cut = LINE[:40]
    for line in (cut, LINE.replace("tokens: 8192", "tokens: many"), "step: 3/200", LINE.replace(" | loss", " / loss")):
        (event,) = read(line)
        assert isinstance(event, Event)
        assert event.kind == "unread_line"
        assert event.source == Evidence("logs/node0.log", 1)


def test_the_start_says_what_it_runs_on() -> None:
    (event,) = read("steelyard trainer | torch: 2.13.0+cpu | device: cpu | ranks: 2 | dtype: fp32 | steps: 5")
    assert isinstance(event, Event)
    assert event.details == {"torch": "2.13.0+cpu", "device": "cpu", "ranks": "2", "dtype": "fp32", "steps": "5"}


def test_the_exception_that_ended_it_is_found() -> None:
    events = read(
        "Traceback (most recent call last):", '  File "x.py", line 1', "ValueError: token 300", "RuntimeError: no"
    )
    assert [(event.kind, event.message) for event in events if isinstance(event, Event)] == [
        ("error", "ValueError: token 300")
    ]


def test_the_exception_of_a_rank_is_found_before_torchrun_s_own() -> None:
    events = read(
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "x.py", line 1',
        "[rank1]: ValueError: token 300",
        "Traceback (most recent call last):",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    )
    assert next(event.message for event in events if isinstance(event, Event)) == "ValueError: token 300"


def test_running_out_of_memory_is_told_from_other_errors() -> None:
    (event,) = read(
        "Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a capacity of 79.10 GiB",
    )
    assert isinstance(event, Event)
    assert event.kind == "oom"
