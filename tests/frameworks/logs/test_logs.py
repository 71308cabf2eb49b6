"""Logs are read: real ones, whole, by whoever wrote them."""

import gzip
import math
from pathlib import Path

import pytest

from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered
from steelyard.frameworks.logs.settings import Setting
from steelyard.frameworks.registry import dialects
from steelyard.records import Event, Step
from steelyard.records.failures import FAILURES

REAL = Path(__file__).parent / "real"
SHARED = Path(__file__).parents[4] / "shared" / "logs"


class Everything(Gathered):
    """Keeps the settings too."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: dict[str, object] = {}

    def setting(self, setting: Setting) -> None:
        self.settings[setting.key] = setting.value


class Read:
    def __init__(self, data: bytes, only: str | None = None) -> None:
        said = Everything()
        self.reader = LogReader("train.log", said, only)
        self.reader.feed(data.split(b"\n"))
        self.reader.end()
        found = said.take()
        self.steps = [one for one in found if isinstance(one, Step)]
        self.events = [one for one in found if isinstance(one, Event)]
        self.settings = said.settings

    def kinds(self) -> set[str]:
        return {event.kind for event in self.events}


def real(name: str) -> Read:
    return Read(gzip.decompress((REAL / f"{name}.log.gz").read_bytes()))


@pytest.mark.parametrize(
    ("name", "dialect", "steps", "settings"),
    [
        ("maxtext_0.2.5_cpu_4dev_fsdp2_tp2_20steps.log", "maxtext", 20, 30),
        ("maxtext_0.2.5_cpu_5steps.log", "maxtext", 5, 30),
        ("maxtext_1.log", "maxtext", 12, 0),
        ("megatron_1.log", "megatron", 8, 2),
        ("megatron_3.log", "megatron", 7, 2),
        ("megatron_bridge_1.log", "megatron", 1, 2),
        ("megatron_deepspeed_1.log", "megatron-deepspeed", 2, 3),
        ("nemo_1.log", "nemo", 16, 2),
        ("nemo_3_failed.log", "nemo", 6, 2),
        ("primus_2.log", "primus", 3, 2),
        ("rocm_megatron_1.log", "rocm-megatron", 1, 2),
        ("torchtitan_1.log", "torchtitan", 11, 0),
    ],
)
def test_every_shared_log_is_recognised_and_all_its_steps_are_read(
    name: str, dialect: str, steps: int, settings: int
) -> None:
    if not SHARED.is_dir():
        pytest.skip("the shared logs are not beside this checkout")
    data = (SHARED / name).read_bytes()
    read = Read(data)
    assert list(read.reader.seen) == [dialect]
    assert len(read.steps) == steps
    assert "unread_line" not in read.kinds()
    assert len(read.settings) >= settings
    marks = (b"completed step: ", b"consumed samples: ", b"Training epoch ", b"  loss: ")
    by_eye = {line.strip() for line in data.split(b"\n") if any(mark in line for mark in marks)}
    assert steps == len(by_eye)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("megatron_clean_int1", 60),
        ("megatron_clean_int10", 11),
        ("megatron_nan_nocheck", 30),
        ("megatron_fp16", 40),
        ("megatron_moe", 20),
        ("megatron_ckpt_resume", 40),
        ("megatron_verbose_nccl", 9),
        ("maxtext_clean", 30),
        ("maxtext_ga", 30),
        ("maxtext_nan_continue", 30),
        ("maxtext_ckpt_resume", 20),
        ("maxtext_rampup", 15),
        ("maxtext_profiler", 12),
        ("maxtext_moe", 8),
    ],
)
def test_every_step_of_a_real_run_is_read(name: str, steps: int) -> None:
    read = real(name)
    assert len({step.step for step in read.steps}) == steps
    assert "unread_line" not in read.kinds()
    assert not {"error", "oom", "nccl", "exit", "crash", "xla"} & read.kinds()


def test_what_megatron_printed_of_itself_is_in_force() -> None:
    settings = real("megatron_clean_int1").settings
    assert settings["training.global_batch_size"] == 16
    assert settings["training.sequence_length"] == 2048
    assert settings["model.hidden_size"] == 1024
    assert settings["model.num_key_value_heads"] == 4
    assert settings["model.architecture"] == "llama"
    assert settings["model.rope_theta"] == 500000.0
    assert settings["precision.dtype"] == "bf16"
    assert settings["precision.fp8"] is None
    assert settings["data.source"] == "counting"
    assert settings["padded_vocab_size"] == 32000
    assert settings["platform.world_size"] == 1
    assert settings["training.adam_beta2"] == 0.95


def test_what_maxtext_printed_of_itself_is_in_force() -> None:
    settings = real("maxtext_ga").settings
    assert settings["training.gradient_accumulation_steps"] == 4
    assert settings["training.steps"] == 30
    assert settings["data.source"] == "fixed_batch"
    assert settings["platform.world_size"] == 4
    assert settings["platform.gpu_name"] == "cpu"
    assert settings["parallelism.tensor_parallel_size"] == 2


TITAN = "[rank0]:[titan] 2025-11-25 19:44:58,595 - root - INFO - "


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["Float8 tensorwise scaled training active"], {"precision.fp8": "hybrid"}),
        (["Float8 training active with recipe rowwise", "Swapped to Float8Linear layers"], {"precision.fp8": "e4m3"}),
        (["Swapped to Float8Linear layers with enable_fsdp_float8_all_gather=True"], {"precision.fp8": "hybrid"}),
        (["Applied full activation checkpointing to the model"], {"training.recompute": "full"}),
        (["Applied selective activation checkpointing to the model"], {"training.recompute": "selective"}),
        (["Applied FSDP to the model"], {}),
    ],
)
def test_what_torchtitan_printed_of_itself_is_in_force(lines: list[str], said: dict[str, str]) -> None:
    step = (
        "step:  1  loss: 12.0388  grad_norm:  1.7301  memory: 37.96GiB(47.94%)  tps: 1,689  tflops: 30.58  mfu: 3.09%"
    )
    read = Read("\n".join(TITAN + line for line in [*lines, step]).encode())
    found = {key: value for key, value in read.settings.items() if not key.startswith("platform.")}
    assert (found, len(read.steps)) == (said, 1)


def counted(*records: tuple[int, int, int]) -> Read:
    """Of a Megatron whose records say their step, the samples consumed and the batch."""
    return Read(
        "\n".join(
            f" [2026-01-20 10:00:{at % 60:02d}] iteration {step:8d}/     500 | consumed samples: {samples:12d} |"
            f" elapsed time per iteration (ms): 412.5 | learning rate: 3.000000E-04 | global batch size: {batch:5d} |"
            f" lm loss: {9 - at / 100:.6E} | loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations:   0 |"
            " number of nan iterations:   0 |"
            for at, (step, samples, batch) in enumerate(records)
        ).encode()
    )


def differing(read: Read) -> list[tuple[object, object, int]]:
    found = [event for event in read.events if event.kind == "samples_differ"]
    return [(one.details["consumed"], one.details["said"], one.source.line) for one in found if one.source]


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([(at, 16 * at, 32) for at in range(1, 41)], [(16, 32, 6)]),
        ([(at, 16 * at, 32) for at in range(10, 401, 10)], [(16, 32, 6)]),
        ([(at, 16 * at, 32) for at in range(1, 4)], [(16, 32, 3)]),
        ([(at, 32 * at, 32) for at in range(10, 401, 10)], []),
        ([(at, 9000 + 32 * at, 32) for at in range(201, 241)], []),
        ([(at, 32 * at, 32) for at in range(1, 41) if at not in (3, 4, 20)], []),
        ([(at, 32 * at + (7 if at > 3 else 0), 32) for at in range(1, 41)], []),
        ([(at, 16 * at if at < 21 else 320 + 32 * (at - 20), 16 if at < 21 else 32) for at in range(1, 61)], []),
        ([*((at, 32 * at, 32) for at in range(1, 31)), *((at, 32 * at, 32) for at in range(21, 41))], []),
        (
            [*((at, 32 * at, 32) for at in range(1, 31)), *((at, 640 + 8 * at, 32) for at in range(21, 41))],
            [(8, 32, 36)],
        ),
        ([(at, 128, 128) for at in range(1, 41)], []),
    ],
    ids=[
        "half",
        "every tenth",
        "three records",
        "it holds",
        "from a checkpoint",
        "lines missing",
        "the rest of an epoch",
        "a ramp-up",
        "a restart",
        "a restart with fewer",
        "a counter that stands still",
    ],
)
def test_samples_that_are_counted_are_held_to_the_batch(
    records: list[tuple[int, int, int]], found: list[tuple[int, int, int]]
) -> None:
    assert differing(counted(*records)) == found


def test_nemo_counts_its_samples_too() -> None:
    line = "Training epoch 0, iteration {at}/99 | lr: 5.455e-05 | global_batch_size: 128 | global_step: {at} |"
    line += " reduced_train_loss: 11.65 | train_step_timing in s: 17.99"
    lines = [line.format(at=0), *(f"{line.format(at=at)} | consumed_samples: {64 * (at + 1)}" for at in range(1, 20))]
    assert differing(Read("\n".join(lines).encode())) == [(64, 128, 7)]


def test_a_vanished_loss_is_nan() -> None:
    read = real("megatron_nan_nocheck")
    assert [step.step for step in read.steps if step.loss is not None and math.isnan(step.loss)][:2] == [3, 4]
    assert "finished" in read.kinds()


def test_a_skipped_step_has_no_loss_and_is_no_nan() -> None:
    read = real("megatron_fp16")
    skipped = [step for step in read.steps if "skipped" in step.flags]
    assert len(skipped) == 15
    assert all(step.loss is None for step in skipped)


def test_the_second_line_of_core_0_16_counts_the_first_step_again() -> None:
    first, second, third = real("megatron_clean_int1").steps[:3]
    assert (first.steps_covered, second.steps_covered, third.steps_covered) == (1, 1, 1)  # of interval 1, the last
    first, second, third = real("megatron_clean_int10").steps[:3]
    assert [(step.step, step.steps_covered) for step in (first, second, third)] == [(1, 1), (10, 10), (20, 10)]


def test_a_resume_is_seen_and_is_no_gap() -> None:
    for name, at in (("megatron_ckpt_resume", 20), ("maxtext_ckpt_resume", 12)):
        read = real(name)
        assert [event.step for event in read.events if event.kind == "resumed"] == [at]


def test_the_first_cause_is_told_from_its_echoes() -> None:
    for name, kind in (
        ("megatron_oom", "oom"),
        ("megatron_nan_default", "nan_abort"),
        ("megatron_sigkill_worker", "exit"),
        ("maxtext_oom", "oom"),
        ("maxtext_nan", "nan_abort"),
        ("maxtext_shape", "error"),
    ):
        failures = [event for event in real(name).events if "order" in event.details]
        assert min(failures, key=lambda event: event.details["order"]).kind == kind, name


def test_the_time_of_compilation_and_dispatch_is_marked() -> None:
    steps = real("maxtext_clean").steps
    assert ["artefact" in step.flags for step in steps[:5]] == [True, True, True, False, False]


def test_nccl_s_start_says_the_network() -> None:
    networks = [
        event.details.get("network") for event in real("megatron_verbose_nccl").events if event.kind == "fabric"
    ]
    assert "Socket" in networks


def test_memory_is_the_highest_reading_with_its_kind() -> None:
    readings = [event.details for event in real("megatron_clean_int1").events if event.kind == "memory"]
    assert {one["kind"] for one in readings} == {"torch_reserved_peak"}
    assert 17 < max(one["gib"] for one in readings) < 17.2


BARRIER = gzip.decompress((REAL / "torchrun_exit_barrier.log.gz").read_bytes())
FRAMEWORKS = sorted({one.framework for one in dialects()})


def failures_in(read: Read) -> list[tuple[str, str]]:
    return [(event.kind, event.message) for event in read.events if event.kind in FAILURES]


@pytest.mark.parametrize("only", [None, *FRAMEWORKS])
@pytest.mark.parametrize("prefix", [b"", b"[default3]:", b"gpu02: ", b"2026-01-20T10:00:00.5Z "])
def test_an_exit_barrier_that_was_cut_short_is_an_event_and_no_failure(only: str | None, prefix: bytes) -> None:
    lines = [prefix + line for line in BARRIER.rstrip(b"\n").split(b"\n")]
    read = Read(b"\n".join(lines), only)
    assert failures_in(read) == []
    (event,) = [event for event in read.events if event.kind == "exit_barrier"]
    assert event.message.startswith("Error waiting on exit barrier. Elapsed: ")
    assert event.source is not None
    assert b"Error waiting" in lines[event.source.line - 1]
    apart = Everything()
    reader = LogReader("train.log", apart, only)
    for line in lines:
        reader.feed([line])
    reader.end()
    assert apart.take() == read.events


CHAIN = b"""
During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 1, in <module>
RuntimeError: the store cannot be reached
"""
OTHER = b"""
Traceback (most recent call last):
  File "train.py", line 1, in <module>
ValueError: no such dataset
"""
OPEN = BARRIER[: BARRIER.rindex(b"\n", 0, -1)]
"""Without its last line."""


def test_all_of_an_exit_barrier_s_exceptions_are_of_it() -> None:
    assert failures_in(Read(BARRIER + CHAIN)) == []
    assert failures_in(Read(BARRIER + CHAIN + CHAIN)) == []
    assert failures_in(Read(OPEN)) == []


@pytest.mark.parametrize(
    "log",
    [
        BARRIER + OTHER,
        OTHER + BARRIER,
        BARRIER + CHAIN + OTHER,
        OPEN + OTHER,
        b"Error waiting on exit barrier. Elapsed: 1.0 seconds\nError: something else" + OTHER,
    ],
)
def test_another_traceback_beside_an_exit_barrier_s_is_a_failure(log: bytes) -> None:
    assert failures_in(Read(log)) == [("error", "ValueError: no such dataset")]


def test_a_cause_amid_an_exit_barrier_s_traceback_is_told() -> None:
    assert [kind for kind, _ in failures_in(Read(OPEN + b"\nNVRM: Xid (PCI:0000:3b:00): 79, pid=1\n"))] == ["xid"]
