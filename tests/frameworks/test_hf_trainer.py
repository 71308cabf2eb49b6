"""Logs of the Hugging Face Trainer: the step of a dictionary is found, or honestly counted."""

import gzip
from pathlib import Path

import pytest

from steelyard.frameworks.hf_trainer.steps import Known, Record, by_bars, by_count, by_epochs
from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered
from steelyard.frameworks.logs.settings import Setting
from steelyard.records import Event, Step

FIELD = Path(__file__).parents[3] / "shared" / "logs" / "field"
BANNER = (
    "***** Running training *****",
    "  Num examples = 3,200",
    "  Num Epochs = 3",
    "  Instantaneous batch size per device = 2",
    "  Total train batch size (w. parallel, distributed & accumulation) = 32",
    "  Gradient Accumulation steps = 4",
    "  Total optimization steps = 300",
    "  Number of trainable parameters = 20,971,520",
)
SUMMARY = (
    "{'train_runtime': 1234.0, 'train_samples_per_second': 7.8, 'train_steps_per_second': 0.243,"
    " 'train_loss': 0.9, 'epoch': 3.0}"
)


def record(step: int, per_epoch: int = 100, digits: int | None = 2, **others: object) -> str:
    epoch = step / per_epoch if digits is None else round(step / per_epoch, digits)
    return str({"loss": 2 - step / 1000, "grad_norm": 0.5, "learning_rate": 1e-4, "epoch": epoch, **others})


def bar(step: int, total: int = 300, seconds: int | None = None) -> str:
    elapsed = 4 * step if seconds is None else seconds
    return f"\r {100 * step // total}%|███  | {step}/{total} [{elapsed // 60:02d}:{elapsed % 60:02d}<10:00,  4.0s/it]"


class Read(Gathered):
    def __init__(self, *lines: str) -> None:
        super().__init__()
        self.settings: dict[str, object] = {}
        self.reader = LogReader("train.log", self)
        self.reader.feed("\n".join(lines).encode().split(b"\n"))
        self.reader.end()
        records = self.take()
        self.steps = [one for one in records if isinstance(one, Step)]
        self.events = [one for one in records if isinstance(one, Event)]

    def setting(self, setting: Setting) -> None:
        self.settings[setting.key] = setting.value

    @property
    def numbers(self) -> list[int]:
        return [step.step for step in self.steps]

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


def test_the_bar_drawn_again_after_a_dictionary_has_its_step() -> None:
    lines = [text for step in (10, 20, 30, 40) for text in (bar(step) + "\r    \r" + record(step), bar(step))]
    read = Read(*lines)
    assert list(read.reader.seen) == ["hf-trainer"]
    assert read.numbers == [10, 20, 30, 40]
    assert {step.steps_covered for step in read.steps} == {10}
    assert [step.step_time_s for step in read.steps] == [None, 4.0, 4.0, 4.0]
    assert [step.source and step.source.line for step in read.steps] == [1, 3, 5, 7]
    assert read.settings["training.steps"] == 300
    assert not read.events


def test_the_banner_gives_steps_and_settings() -> None:
    read = Read(*BANNER, *(record(step, digits=None) for step in (1, 25, 50, 75)))
    assert read.numbers == [1, 25, 50, 75]
    assert [step.steps_covered for step in read.steps] == [1, 24, 25, 25]
    assert read.settings == {
        "training.micro_batch_size": 2,
        "training.global_batch_size": 32,
        "training.gradient_accumulation_steps": 4,
        "parallelism.data_parallel_size": 4,
        "training.steps": 300,
        "log_interval": 25,
    }


def test_values_in_quotes_are_numbers() -> None:
    line = "{'loss': '1.827', 'grad_norm': '0.067', 'learning_rate': '0.0002', 'num_tokens': '512', 'epoch': '%s'}"
    read = Read(*BANNER, line % "0.1", line % "0.2", line % "0.3", line % "0.4")
    assert read.numbers == [10, 20, 30, 40]
    assert (read.steps[0].loss, read.steps[0].grad_norm, read.steps[0].learning_rate) == (1.827, 0.067, 0.0002)


def test_the_summary_gives_the_interval_of_dictionaries_alone() -> None:
    read = Read(*(record(step) for step in (1, *range(10, 301, 10))), SUMMARY)
    assert read.numbers == [1, *range(10, 301, 10)]
    assert read.kinds() == ["finished"]


def test_dictionaries_printed_long_after_their_bars_are_numbered_by_epoch() -> None:
    bars = "".join(bar(step) for step in range(1, 151))
    read = Read(bars, *(record(step) for step in range(10, 151, 10)), bar(300), SUMMARY, "")
    assert read.numbers == list(range(10, 151, 10))
    assert read.steps[3].step_time_s == 4.0


def test_steps_are_counted_and_reported_where_nothing_shows_them() -> None:
    read = Read(*(record(step) for step in (25, 50, 75, 100)))
    assert read.numbers == [1, 2, 3, 4]
    assert read.kinds() == ["left_out"]
    assert "trainer_state.json" in read.events[0].message
    assert "training.steps" not in read.settings


def test_an_evaluation_is_an_event_and_no_step() -> None:
    evaluation = "{'eval_loss': 1.25, 'eval_runtime': 10.1, 'epoch': 0.2}"
    lines = [record(10, digits=None), record(20, digits=None), bar(25, 50) + "\r" + evaluation, record(30, digits=None)]
    read = Read(*BANNER, *lines, record(40, digits=None))
    assert read.numbers == [10, 20, 30, 40]
    assert [(event.kind, event.step, event.details) for event in read.events] == [("eval", 21, {"loss": 1.25})]


def test_a_nan_is_read_and_a_word_is_unread() -> None:
    lines = "{'loss': nan, 'grad_norm': nan, 'learning_rate': 0.0, 'epoch': %s}"
    read = Read(*BANNER, lines % 0.1, lines % 0.2, lines % 0.3, lines.replace("nan", "oops") % 0.4)
    assert [step.step for step in read.steps] == [10, 20, 30]
    assert all(step.loss != step.loss for step in read.steps)
    assert read.kinds() == ["unread_line"]


def test_ms_swift_prints_the_step_and_the_memory() -> None:
    read = Read(*(record(step, **{"global_step/max_steps": f"{step}/94", "memory(GiB)": 6.5}) for step in (1, 5, 10)))
    assert read.numbers == [1, 5, 10]
    assert [step.steps_covered for step in read.steps] == [1, 4, 5]
    assert (read.steps[0].memory_gib, read.steps[0].memory_kind) == (6.5, "torch_reserved_peak")
    assert read.settings["training.steps"] == 94


def test_a_record_of_two_loggers_counts_once() -> None:
    logged = "[INFO|2025-09-02 10:0%d:00] logging.py:157 >> {'loss': %.4f, 'learning_rate': 1.0000e-04, 'epoch': %.2f}"
    lines = []
    for at, step in enumerate((10, 20, 30, 40)):
        lines += [logged % (at, 2 - step / 1000, step / 100), record(step)]
    read = Read(*BANNER, *lines)
    assert read.numbers == [10, 20, 30, 40]
    assert [step.step_time_s for step in read.steps] == [None, 6.0, 6.0, 6.0]


def test_a_training_that_stops_early_has_no_planned_steps() -> None:
    read = Read(*BANNER, *(record(step, digits=None) for step in range(10, 101, 10)), SUMMARY.replace("3.0", "1.0"))
    assert read.numbers[-1] == 100
    assert read.settings["training.steps"] is None
    assert read.kinds() == ["finished"]


def test_a_checkpoint_is_continued_at_its_step() -> None:
    resumed = "  Continuing training from global step 100"
    read = Read(*BANNER, resumed, *(record(step, digits=None) for step in (110, 120, 130, 140)))
    assert read.numbers == [110, 120, 130, 140]
    assert [step.steps_covered for step in read.steps] == [10, 10, 10, 10]
    assert [(event.kind, event.step) for event in read.events] == [("resumed", 100)]


def test_logging_steps_of_the_arguments_are_the_interval() -> None:
    dump = ("TrainingArguments(", "learning_rate=0.0002,", "logging_steps=20,", "max_steps=-1,", "seed=7,", ")")
    read = Read(*dump, *(record(step) for step in (20, 40, 60, 80)))
    assert read.numbers == [20, 40, 60, 80]
    assert (read.settings["training.learning_rate"], read.settings["training.seed"]) == (0.0002, 7)


def test_nodes_that_print_the_same_records_are_kept_apart() -> None:
    lines = [
        f"node{node}: {text}" for node in (1, 2) for text in (*BANNER, *(record(s, digits=None) for s in (10, 20)))
    ]
    read = Read(*lines)
    assert [(step.node, step.step) for step in read.steps] == [
        ("node1", 10),
        ("node1", 20),
        ("node2", 10),
        ("node2", 20),
    ]


@pytest.mark.parametrize("bars", [[None, 10, 20], [10, 20], [10, 10, 20], [10, 30, 40]])
def test_bars_that_are_not_equally_far_apart_give_no_steps(bars: list[int | None]) -> None:
    assert by_bars([Record(bar_after=bar) for bar in bars]) is None


def test_epochs_that_allow_several_intervals_give_the_usual_one() -> None:
    records = [Record(round(20 * at / 625, 2), 0.005) for at in range(1, 6)]
    numbering = by_epochs(records, Known(total=200, last_epoch=Record(0.32, 0.005)))
    assert numbering is not None
    assert (list(numbering.numbers), numbering.exact) == ([20, 40, 60, 80, 100], True)


def test_epochs_without_steps_per_epoch_give_nothing_and_records_are_counted() -> None:
    records = [Record(0.1, 0.005), Record(0.2, 0.005), Record(0.3, 0.005)]
    assert by_epochs(records, Known()) is None
    assert list(by_count(records, Known(), ended=True).numbers) == [1, 2, 3]
    assert list(by_count(records, Known(total=31), ended=True).numbers) == [10, 20, 30]


def test_the_field_log_has_its_steps() -> None:
    field = FIELD / "f_hf_trainer.log.gz"
    if not field.is_file():
        pytest.skip("the field logs are not beside this checkout")
    read = Read(*gzip.decompress(field.read_bytes()).decode().splitlines())
    assert [(step.step, step.loss) for step in read.steps] == [
        (20, 1.7193),
        (40, 1.3242),
        (60, 1.2266),
        (80, 1.1534),
        (100, 0.9368),
    ]
    assert read.kinds()[-1] == "finished"


def test_each_banner_starts_a_run() -> None:
    read = Read(*BANNER, *(record(s, digits=None) for s in (10, 20, 30)), *BANNER, record(10, digits=None))
    assert [(start.first_step, start.last_step) for start in read.reader.attempts.all] == [(10, 30), (10, 10)]


def test_a_log_that_keeps_the_last_bar_of_each_line_has_it_before_the_record() -> None:
    """As W&B's output.log does: the bar after a record is already that of the next one."""
    read = Read(*(text for step in (10, 20, 30, 40) for text in (bar(step, 600), record(step))), bar(45, 600))
    assert read.numbers == [10, 20, 30, 40]


def test_a_training_that_was_interrupted_has_as_many_records_as_its_last_bar_allows() -> None:
    read = Read(
        "".join(bar(step, 3750) for step in range(1, 135)), *(record(step, 1250) for step in range(10, 131, 10))
    )
    assert read.numbers == list(range(10, 131, 10))


def test_a_message_of_slurm_behind_a_bar_is_an_event() -> None:
    cancelled = "[2026-02-06T10:15:37.189] error: *** JOB 4523781 ON node1 CANCELLED AT 2026-02-06T10:15:37 ***"
    lines = [text for step in (10, 20, 30, 40) for text in (bar(step) + "\r    \r" + record(step), bar(step))]
    read = Read(*BANNER, *lines, bar(41) + cancelled)
    assert read.numbers == [10, 20, 30, 40]
    assert read.kinds() == ["exit"]
