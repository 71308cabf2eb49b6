"""A line that no reader can make sense of is recorded, and the lines after it are read."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard import execute, records
from steelyard.configs.choose import Asked, one_reading
from steelyard.configs.files import read_mapping, with_family
from steelyard.errors import InputError
from steelyard.execute.recording import Recording
from steelyard.experiment import resolve
from steelyard.frameworks.logs import reader
from steelyard.frameworks.logs.dialect import Entry, Place
from steelyard.frameworks.logs.fields import UnreadError, whole_number
from steelyard.frameworks.logs.reader import MOST_PROCESSES, MOST_UNREAD, LogReader
from steelyard.frameworks.logs.series import Gathered
from steelyard.frameworks.logs.settings import Setting
from steelyard.frameworks.megatron.log import MEGATRON
from steelyard.hardware.machine import Machine
from steelyard.planning.make import make_plan
from steelyard.records import Event, Step


class Everything(Gathered):
    def __init__(self) -> None:
        super().__init__()
        self.settings: dict[str, object] = {}

    def setting(self, setting: Setting) -> None:
        self.settings[setting.key] = setting.value


def step(number: int, batch: int = 64, prefix: str = "") -> bytes:
    return (
        f"{prefix} iteration {number}/ 100 | consumed samples: {number * 64} | elapsed time per iteration (ms): 10.0 |"
        f" global batch size: {batch} | lm loss: 2.0 | number of skipped iterations: 0 | number of nan iterations: 0 |"
    ).encode()


def read(lines: list[bytes], together: bool = True) -> tuple[list[Step], list[Event], dict[str, object]]:
    said = Everything()
    log = LogReader("train.log", said)
    for block in [lines] if together else [[line] for line in lines]:
        log.feed(block)
    log.end()
    found = said.take()
    steps = [one for one in found if isinstance(one, Step)]
    return steps, [one for one in found if isinstance(one, Event)], said.settings


DUMP_END = b"-------------------- end of arguments ---------------------"


@pytest.mark.parametrize(
    "lines",
    [
        [b"  mock_data ........ False", b"  data_path ........ [{[]}]", DUMP_END],
        [b"  mock_data ........ False", b"  data_path ........ [" + b"-" * 5000 + b"['a']", DUMP_END],
        [b"  seed ........ " + b"9" * 5000, b"  num_layers ........ " + b"9" * 5000, DUMP_END],
        ["  num_experts ........ ²".encode(), DUMP_END],
        ["Config param num_experts: ²".encode(), "Config param ici_data_parallelism: ²".encode(), b"Jax Version: 1"],
        ["Config param steps: ²".encode(), b"Config param emb_dim: " + b"9" * 5000, b"Jax Version: 1"],
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_a_setting_that_cannot_be_read_is_not_known(lines: list[bytes], together: bool) -> None:
    steps, events, settings = read([*lines, step(1), step(2)], together)
    assert [one.step for one in steps] == [1, 2]
    assert not [event for event in events if event.kind == "unread_line"]
    assert settings.keys() <= {"version", "training.steps", "training.global_batch_size", "data.source"}


@pytest.mark.parametrize(
    "line",
    [
        b"saving checkpoint at iteration " + b"9" * 5000,
        b"primus launcher exited with code " + b"9" * 5000,
        b"Num_devices: " + b"9" * 5000 + b", shape",
        b"Padded vocab_size: 1, original vocab_size: " + b"9" * 5000 + b", dummy tokens: 0",
        b"Training starts at step " + b"9" * 5000,
    ],
)
def test_a_number_that_cannot_be_one_makes_an_unread_line(line: bytes) -> None:
    steps, events, _ = read([step(1), line, step(2)])
    (unread,) = [event for event in events if event.kind == "unread_line"]
    assert unread.source is not None
    assert unread.source.line == 2
    assert "digits" in unread.message
    assert [one.step for one in steps] == [1, 2]


def failing(found: object, place: Place) -> Iterator[Entry]:
    raise LookupError(str(found))
    yield


@pytest.fixture
def dialect_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(MEGATRON, others={rb"checkpoint of mine": failing})
    monkeypatch.setattr(reader, "dialects", lambda: (broken,))


@pytest.mark.usefixtures("dialect_that_fails")
@pytest.mark.parametrize("together", [True, False])
def test_any_failure_of_a_dialect_is_recorded_with_its_type(together: bool) -> None:
    lines = [step(1), b"checkpoint of mine hf_" + b"a" * 30, *(step(at) for at in range(2, 31))]
    steps, events, _ = read(lines, together)
    (unread,) = [event for event in events if event.kind == "unread_line"]
    assert "LookupError" in unread.message
    assert "hf_a" not in unread.message
    assert [one.step for one in steps] == list(range(1, 31))


@pytest.mark.usefixtures("dialect_that_fails")
def test_unread_lines_are_recorded_up_to_a_number_and_counted_beyond() -> None:
    said = Everything()
    log = LogReader("train.log", said)
    log.feed([b"checkpoint of mine"] * (MOST_UNREAD + 7))
    log.end()
    assert log.unread == MOST_UNREAD + 7
    assert len(said.take()) == MOST_UNREAD


def test_what_the_sink_refuses_is_not_a_fault_of_the_line() -> None:
    class Refusing(Gathered):
        def setting(self, setting: Setting) -> None:
            raise InputError("it contradicts the command line")

    with pytest.raises(InputError):
        LogReader("train.log", Refusing()).feed([step(1)])

    class Full(Gathered):
        def event(self, event: Event) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        LogReader("train.log", Full()).feed([b"[after training is done] datetime: 2026-01-01 00:00:00"])


def test_a_sink_that_fails_on_a_setting_does_not_lose_the_steps() -> None:
    class Failing(Gathered):
        def setting(self, setting: Setting) -> None:
            raise OverflowError("int too large to convert to float")

    said = Failing()
    log = LogReader("train.log", said)
    log.feed([step(at) for at in range(1, 41)])
    log.end()
    found = said.take()
    assert [one.step for one in found if isinstance(one, Step)] == list(range(2, 41))
    assert [one.kind for one in found if isinstance(one, Event)] == ["unread_line"]


def test_a_batch_of_zero_is_contradicted_by_the_samples() -> None:
    steps, events, _ = read([step(at, batch=0) for at in range(1, 41)])
    assert len(steps) == 40
    assert [event.kind for event in events] == ["samples_differ"]


def test_a_step_zero_printed_twice_by_a_clock_is_read() -> None:
    line = "[titan] 2026-01-01 00:00:0{0},000 - root - INFO - step:  0  loss: {0}.0  memory: 1.00GiB(1.00%)  tps: 7"
    steps, events, _ = read([line.format(at).encode() for at in (1, 2)])
    assert [(one.step, one.loss, one.steps_covered) for one in steps] == [(0, 1.0, 1), (0, 2.0, 1)]
    assert [event.kind for event in events] == ["repeated"]


def test_steps_of_very_many_processes_are_bounded() -> None:
    said = Everything()
    log = LogReader("train.log", said)
    for at in range(MOST_PROCESSES + 10):
        log.feed([step(1, prefix=f"[rank{at}]:")])
    log.end()
    assert log.unread == 10
    assert log.steps_read == MOST_PROCESSES


@pytest.mark.parametrize("text", ["²", "٣", "-1", "", " 1", "1_0", "9" * 19, b"9" * 5000, b"-1"])
def test_a_whole_number_is_a_few_ascii_digits(text: str | bytes) -> None:
    with pytest.raises(UnreadError):
        whole_number(text)


CONFIG = """
schema_version: 1
name: live
model: {preset: tiny-llama}
training: {micro_batch_size: 2, global_batch_size: 4, sequence_length: 64, steps: 3, learning_rate: 1e-3}
precision: {dtype: fp32}
data: {source: markov, samples: 100}
platforms: {here: {gpu: cpu, nodes: 1, gpus_per_node: 2}}
"""
NATIVE = (
    "step: {step}/3 | loss: 2.0 | grad_norm: 1.0 | learning_rate: 0.001 | step_time_s: 0.5 | tokens: 256 |"
    " tokens_per_s_per_gpu: 256.0 | memory_gib: 0.1 | memory_kind: process_rss_peak | time: 2026-01-20T10:00:00+00:00\n"
)


def test_a_live_run_goes_on_after_lines_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    reading = one_reading(with_family(read_mapping(tmp_path / "config.yaml")), Asked())
    made = make_plan(resolve(reading, (), None, None), Machine((), 2), Asked())
    writer = execute.new_run(made, tmp_path / "runs", "live", ["steelyard"])
    node = Recording(made.plan, made.case, writer, lambda found: None).of_node(made.plan.nodes[0])
    node.feed(b"  data_path ........ [{[]}]\n  seed ........ " + b"9" * 5000 + b"\n" + DUMP_END + b"\n")
    for number in (1, 2, 3):
        node.feed(NATIVE.format(step=number).encode())
        node.feed("Config param num_experts: ²\n".encode())
    node.feed(b"Training epoch 0, iteration 1/2 | lr: x | global_step: 1\n")
    node.end()
    writer.finish("completed", 0, None)
    assert [one.step for one in records.steps(tmp_path / "runs" / "live")] == [1, 2, 3]


def test_a_log_with_lines_that_cannot_be_read_is_ingested(cli: Callable[..., Any], tmp_path: Path) -> None:
    lines = [b"  data_path ........ [{[]}]", DUMP_END, step(1), b"saving checkpoint at iteration " + b"9" * 5000]
    (tmp_path / "train.log").write_bytes(b"\n".join([*lines, *(step(at) for at in range(2, 31)), b""]))
    done = cli("ingest", "train.log", "--json")
    assert done.status == 0
    assert (done.document["steps"], done.document["files"][0]["unread"]) == (30, 1)
