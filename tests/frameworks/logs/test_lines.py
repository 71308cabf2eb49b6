"""What launchers, terminals and collectors do to a line is undone."""

import math

import pytest

from steelyard.frameworks.logs.fields import UnreadError, first_number
from steelyard.frameworks.logs.prefixes import pieces, unprefixed
from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered
from steelyard.records import Event, Step
from steelyard.secrets import redact

LINE = (
    b" [2026-01-20 10:00:%02d] iteration %8d/     500 | consumed samples:         %4d |"
    b" elapsed time per iteration (ms): 1712.6 | throughput per GPU (TFLOP/s/GPU): 446.2 |"
    b" learning rate: 6.000000E-06 | global batch size:    64 |"
    b" lm loss: 1.258031E+01 | loss scale: 1.0 | grad norm: 7.861 | number of skipped iterations:   0 |"
    b" number of nan iterations:   0 |"
)


def line(step: int) -> bytes:
    return LINE % (step % 60, step, step * 64)


def read(*lines: bytes) -> tuple[list[Step], list[Event]]:
    said = Gathered()
    reader = LogReader("train.log", said)
    reader.feed(lines)
    reader.end()
    found = said.take()
    return [one for one in found if isinstance(one, Step)], [one for one in found if isinstance(one, Event)]


@pytest.mark.parametrize(
    ("prefix", "node", "rank"),
    [
        (b"[default7]:", None, 7),
        (b"[rank3]: ", None, 3),
        (b"[node-4:31]: ", "node-4", 31),
        (b"12: ", None, 12),
        (b"job-a/0 [default0]:", "job-a", 0),
        (b"gpu-17: ", "gpu-17", None),
        (b"2026-01-20T10:00:09.123456789Z stdout F ", None, None),
        (b"\x1b[32m[default7]:\x1b[0m", None, 7),
        (b"", None, None),
    ],
)
def test_a_launcher_s_prefix_says_who_printed_and_hides_nothing(
    prefix: bytes, node: str | None, rank: int | None
) -> None:
    steps, events = read(*(prefix + line(step) for step in range(1, 4)))
    assert [(step.step, step.loss, step.node, step.rank) for step in steps] == [
        (at, 12.58031, node, rank) for at in (1, 2, 3)
    ]
    assert not events


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        (b"[default7]:", 7),
        (b"[rank3]: ", 3),
        (b"[1,4]<stdout>:", 4),
        (b"[\x1b[32m20251202 09:12:08\x1b[0m][rank-5/8][INFO ] [--------trainer.py:2560] : ", 5),
    ],
)
def test_a_stray_byte_before_a_prefix_makes_no_second_series(prefix: bytes, rank: int) -> None:
    steps, events = read(prefix + line(1), b"0" + prefix + line(2), b"\xff>" + prefix + line(3))
    assert [(step.step, step.node, step.rank) for step in steps] == [(at, None, rank) for at in (1, 2, 3)]
    assert not events


def test_prefixes_may_be_stacked() -> None:
    origin, rest = unprefixed(b"[default3]:[titan] 2025-10-30 20:34:24,804 - root - INFO - Training starts at step 1")
    assert (origin.rank, rest) == (3, b"Training starts at step 1")


def test_each_carriage_return_is_a_line() -> None:
    assert list(pieces(b"10%\r20%\r\x1b[31m30%\x1b[0m\r")) == [b"10%", b"20%", b"30%"]


@pytest.mark.parametrize(
    ("prefix", "moment"),
    [
        (b"[20251202 09:12:08][rank-7/8][INFO ] [--------trainer.py:2560] : ", "2025-12-02T09:12:08"),
        (b"[titan] 2026-01-20 10:00:01,074 - root - INFO - ", "2026-01-20T10:00:01.074"),
        (b" ", None),
    ],
)
def test_a_moment_is_iso(prefix: bytes, moment: str | None) -> None:
    steps, _ = read(prefix + line(1).partition(b"] ")[2])
    assert [step.time for step in steps] == [moment]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b" 13372.8/13364.7 ", 13372.8),
        (b"695.3 (avg 695.3)  ", 695.3),
        (b"117.99GB/74.00GB/191.98GB/61.46%", 117.99),
        (b"7,034", 7034.0),
        (b"52.53GiB(66.33%)", 52.53),
        (b"1.072453E+01", 10.72453),
    ],
)
def test_the_first_of_a_pair_is_the_value(text: bytes, number: float) -> None:
    assert first_number(text) == number


def test_nan_is_a_number_and_a_word_is_none() -> None:
    assert math.isnan(first_number(b" nan "))
    assert first_number(b"-inf") == -math.inf
    with pytest.raises(UnreadError):
        first_number(b"many")


def test_glued_lines_are_two_steps() -> None:
    steps, events = read(line(1), line(2) + line(3), line(4) + b"Number of parameters in billions: 6.98", line(5))
    assert [step.step for step in steps] == [1, 2, 3, 4, 5]
    assert not events


def test_doubled_lines_are_one_step_and_no_restart() -> None:
    steps, events = read(line(1), line(1), line(2), line(2), line(3))
    assert [step.step for step in steps] == [1, 2, 3]
    assert not events


@pytest.mark.parametrize(
    "spoilt",
    [
        line(2)[:150],
        line(2).replace(b"1712.6", b"17\xff2.6"),
        line(2).replace(b"1712.6", b"17\x002.6"),
        line(2).replace(b"lm loss: 1.258031E+01", b"lm loss: none"),
        line(2).replace(b"1712.6", b""),
    ],
)
def test_a_step_line_that_cannot_be_read_is_an_event_with_its_line(spoilt: bytes) -> None:
    steps, events = read(line(1), spoilt, line(3))
    assert [step.step for step in steps] == [1, 3]
    assert [(event.kind, event.step, event.source.line) for event in events if event.source] == [("unread_line", 2, 2)]


def test_keys_may_stand_in_any_order() -> None:
    head, *fields = line(2).removesuffix(b" |").split(b" | ")
    steps, _ = read(line(1), b" | ".join([head, *reversed(fields)]) + b" |", line(3))
    assert [(step.step, step.loss, step.step_time_s) for step in steps][1] == (2, 12.58031, 1.7126)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (b"using token hf_abcdefghijklmnopqrstuvwx to pull", b"hf_abcdefghijklmnopqrstuvwx"),
        (b"HF_TOKEN=hf_abcdefghijklmnopqrstuvwx", b"abcdefghij"),
        (b"export WANDB_API_KEY='0123456789abcdef0123456789abcdef01234567'", b"0123456789abcdef"),
        (b"  wandb_api_key ................... 0123456789abcdef0123", b"0123456789abcdef0123"),
        (b"Authorization: Bearer abc.def-ghi_jkl", b"abc.def"),
        (b'{"password": "correct horse"}', b"correct"),
        (b"AWS key AKIAIOSFODNN7EXAMPLE", b"AKIAIOSFODNN7EXAMPLE"),
    ],
)
def test_a_secret_is_taken_out(text: bytes, secret: bytes) -> None:
    hidden, found = redact(text)
    assert found
    assert secret not in hidden


@pytest.mark.parametrize(
    "text",
    [
        line(1),
        b"tokens per GPU (tokens/s/GPU): 13509.8/13509.8",
        b"TOKENIZER_MODEL=meta-llama/Llama-3.1-8B",
        b"HF_TOKEN=<changeme>",
        b"HF_TOKEN: None",
        b"NCCL_DEBUG=INFO",
        b"hf_transfer is not installed",
    ],
)
def test_what_is_no_secret_is_left_alone(text: bytes) -> None:
    assert redact(text) == (text, False)
