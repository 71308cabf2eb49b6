"""MLPerf events are steps, settings and an end, whatever framework logs them."""

import json
from typing import Any

import pytest

from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered
from steelyard.frameworks.logs.settings import Setting
from steelyard.records import Event, Step


class Read(Gathered):
    def __init__(self, *lines: str) -> None:
        super().__init__()
        self.settings: dict[str, object] = {}
        self.reader = LogReader("result_0.txt", self)
        self.reader.feed([line.encode() for line in lines])
        self.reader.end()
        records = self.take()
        self.steps = [record for record in records if isinstance(record, Step)]
        self.events = [record for record in records if isinstance(record, Event)]

    def setting(self, setting: Setting) -> None:
        self.settings[setting.key] = setting.value

    @property
    def numbers(self) -> list[tuple[int, int]]:
        return [(step.step, step.steps_covered) for step in self.steps]


def line(key: str, value: Any = None, seconds: float = 0.0, **metadata: Any) -> str:
    event = {"namespace": "", "time_ms": int(1_700_000_000_000 + 1000 * seconds), "event_type": "POINT_IN_TIME"}
    return ":::MLLOG " + json.dumps({**event, "key": key, "value": value, "metadata": {"lineno": 1, **metadata}})


BATCH = line("global_batch_size", 8)
START = line("run_start")


def test_samples_over_the_batch_size_are_the_step_and_the_clock_is_the_time() -> None:
    losses = [line("train_loss", 2.0, 16.0 * at, samples_count=80 * at, lr=5e-4) for at in (1, 2, 3)]
    read = Read(BATCH, START, *losses, line("run_stop", None, 60, status="success"))
    assert list(read.reader.seen) == ["mlperf"]
    assert read.numbers == [(10, 10), (20, 10), (30, 10)]
    assert [(step.loss, step.learning_rate, step.step_time_s, step.flags) for step in read.steps] == [
        (2.0, 5e-4, pytest.approx(1.6), ("clocked",))
    ] * 3
    assert read.steps[0].time == "2023-11-14T22:13:36.000Z"
    assert [(event.kind, event.step) for event in read.events] == [("finished", 30)]


def test_statistics_have_their_own_step_time() -> None:
    stats = [
        line("tracked_stats", {"train_step_time": 0.4, "reduced_train_loss": 8.0}, step=n - 1.0, samples_count=8.0 * n)
        for n in (32, 64)
    ]
    others = [line("tracked_stats", {"warmup_time": 47.7}, step=0), line("tracked_stats", {"validation_step_time": 1})]
    read = Read(BATCH, others[0], START, *stats, *others, line("tracked_stats", {"throughput": 20.0}, step=512))
    assert read.numbers == [(32, 32), (64, 32)]
    assert [(step.step_time_s, step.flags) for step in read.steps] == [(0.4, ()), (0.4, ())]
    assert not read.events


def test_a_first_record_at_no_samples_is_step_1() -> None:
    read = Read(BATCH, START, *(line("train_loss", 11.8, samples_count=8 * at) for at in (0, 1, 2)))
    assert read.numbers == [(1, 1), (2, 1), (3, 1)]


def test_records_unequally_far_apart_have_no_gap() -> None:
    read = Read(BATCH, START, *(line("train_loss", 1.0, samples_count=8 * step) for step in (10, 20, 40, 50)))
    assert read.numbers == [(10, 10), (20, 10), (40, 20), (50, 10)]


def test_throughput_is_a_record_where_there_is_no_loss() -> None:
    blocks = [line("tracked_stats", {"throughput": 4.0}, step=384 * at) for at in (4, 5)]
    read = Read(BATCH, START, *blocks, line("eval_accuracy", 0.93, samples_count=1920))
    assert read.numbers == [(192, 192), (240, 48)]
    assert [(step.loss, step.step_time_s) for step in read.steps] == [(None, 2.0), (None, 2.0)]
    assert [(event.kind, event.step) for event in read.events] == [("eval", None)]


def test_evaluations_are_records_where_there_is_nothing_else() -> None:
    benchmark = line("submission_benchmark", "gpt3")
    length = line("max_sequence_length", 2048)
    evaluations = [line("eval_accuracy", 2.7, 240.0 * at, epoch_num=2048 * 96 * at) for at in (1, 2)]
    read = Read(benchmark, BATCH, length, START, *evaluations, line("run_stop", status="success"))
    assert read.numbers == [(12, 12), (24, 12)]
    assert [(step.loss, step.step_time_s) for step in read.steps] == [(None, 20.0), (None, 20.0)]


def test_events_state_settings() -> None:
    values = {
        "submission_benchmark": "llama31_405b",
        "submission_platform": "4xXE9680Lx8B200-SXM-180GB",
        "seed": 7,
        "gradient_accumulation_steps": 2.0,
        "max_sequence_length": 8192,
        "opt_name": "adamw",
        "opt_base_learning_rate": 0.0004,
        "opt_adamw_beta_2": 0.95,
        "opt_gradient_clip_norm": 1.0,
        "max_steps": 1_200_000,
        "tensor_parallelism": 4,
    }
    read = Read(*(line(key, value) for key, value in values.items()))
    expected = {
        "platform.gpu_name": "b200",
        "model.num_layers": 126,
        "training.seed": 7,
        "training.gradient_accumulation_steps": 2,
        "training.sequence_length": 8192,
        "optimizer": "adam",
        "training.learning_rate": 0.0004,
        "training.adam_beta2": 0.95,
        "training.clip_grad_norm": 1.0,
        "parallelism.tensor_parallel_size": 4,
    }
    assert {key: read.settings.get(key) for key in expected} == expected
    assert "training.steps" not in read.settings


@pytest.mark.parametrize("prefix", ["0: ", "[node-3]: ", "ray-training  | "])
def test_an_event_behind_a_prefix_is_read(prefix: str) -> None:
    read = Read(*(prefix + text for text in (BATCH, START, line("train_loss", 2.0, samples_count=80))))
    assert [step.step for step in read.steps] == [10]


def test_joined_and_broken_events_are_read_and_reported() -> None:
    broken = ':::MLLOG {"namespace": "", "time_ms": 17000'
    joined = line("train_loss", 2.0, samples_count=8) + line("train_loss", 1.9, samples_count=16)
    read = Read(BATCH, joined, broken, line("train_loss", {"no": 1}, samples_count=24), line("train_loss", None))
    assert [(step.step, step.loss) for step in read.steps] == [(1, 2.0), (2, 1.9)]
    assert [event.kind for event in read.events] == ["unread_line", "unread_line"]


def test_an_aborted_run_failed() -> None:
    read = Read(BATCH, line("train_loss", 2.0, samples_count=8), line("run_stop", status="aborted"))
    assert [(event.kind, event.step) for event in read.events] == [("fatal", 1)]


def test_a_step_that_counts_samples_is_divided_by_the_batch_size() -> None:
    """Some submissions to MLPerf give samples as the step, without samples_count."""
    stats = {"train_step_time": 55.0, "reduced_train_loss": 7.0}
    read = Read(BATCH, START, *(line("tracked_stats", stats, 55.0 * at, step=8.0 * at) for at in (1, 2, 3, 4)))
    assert read.numbers == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert [step.step_time_s for step in read.steps] == [55.0] * 4


def test_a_step_as_large_as_the_batch_size_is_a_step_if_the_times_say_so() -> None:
    stats = {"train_step_time": 2.0, "reduced_train_loss": 7.0}
    read = Read(BATCH, START, *(line("tracked_stats", stats, 16.0 * at, step=8.0 * at) for at in (1, 2, 3, 4)))
    assert [step.step for step in read.steps] == [8, 16, 24, 32]
