"""Logs of GPT-NeoX are read by their own labels and units."""

import gzip
from pathlib import Path

import pytest

from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered
from steelyard.frameworks.logs.settings import Setting
from steelyard.records import Event, Step

FIELD = Path(__file__).parents[3] / "shared" / "logs" / "field"
LINE = (
    " samples/sec: 46.100 | iteration {step:8d}/     400 | elapsed time per iteration (ms): 1388.3 |"
    " learning rate: 2.000E-04 | approx flops per GPU: {flops} |{mfu}{loss}{scale}"
    " number of skipped iterations: {skipped:3d} | number of nan iterations:   0 |"
)


def line(
    step: int,
    loss: str = " lm_loss: 5.123456E+00 |",
    flops: str = "140.3TFLOPS",
    mfu: str = "",
    scale: str = "",
    skipped: int = 0,
) -> str:
    return LINE.format(step=step, loss=loss, flops=flops, mfu=mfu, scale=scale, skipped=skipped)


class Read(Gathered):
    def __init__(self, *lines: str) -> None:
        super().__init__()
        self.settings: dict[str, object] = {}
        self.reader = LogReader("train.log", self)
        self.reader.feed([line.encode() for line in lines])
        self.reader.end()
        records = self.take()
        self.steps = [record for record in records if isinstance(record, Step)]
        self.events = [record for record in records if isinstance(record, Event)]

    def setting(self, setting: Setting) -> None:
        self.settings[setting.key] = setting.value


def test_a_record_has_the_loss_time_and_flops_of_its_interval() -> None:
    read = Read(*(line(step) for step in (10, 20, 30)))
    assert list(read.reader.seen) == ["gpt-neox"]
    assert [(step.step, step.steps_covered) for step in read.steps] == [(10, 10), (20, 10), (30, 10)]
    first = read.steps[0]
    assert (first.loss, first.step_time_s, first.reported_tflops_per_gpu) == (
        5.123456,
        pytest.approx(1.3883),
        140.3,
    )
    assert read.settings["training.steps"] == 400
    assert not read.events


@pytest.mark.parametrize(
    ("flops", "tflops"), [("913.4GFLOPS", 0.9134), ("140.3TFLOPS", 140.3), ("1.2PFLOPS", 1200.0), ("4.0MFLOPS", 4e-6)]
)
def test_flops_are_read_in_their_unit(flops: str, tflops: float) -> None:
    (step,) = Read(line(10, flops=flops)).steps
    assert step.reported_tflops_per_gpu == pytest.approx(tflops)


def test_versions_with_utilization_loss_scale_and_a_prefix_are_read() -> None:
    read = Read("worker-3: " + line(10, mfu=" MFU: 44.97% | HFU: 44.97% |", scale=" loss scale: 4096.0 |"))
    assert read.reader.seen == {"gpt-neox": "2024-12 or newer"}
    assert [(step.loss, step.node) for step in read.steps] == [(5.123456, "worker-3")]


def test_an_interval_of_skipped_steps_has_no_loss() -> None:
    read = Read(line(10, loss="", skipped=10), line(20, loss=" lm_loss: 0.000000E+00 |", skipped=10), line(30))
    assert [(step.loss, step.flags) for step in read.steps] == [
        (None, ("skipped",)),
        (None, ("skipped",)),
        (5.123456, ()),
    ]


def argument(name: str, value: object, origin: str = "updated") -> str:
    text = f"  {name} {'.' * (32 - len(name))} {value}"
    return text + "." * (64 - len(text)) + origin


def test_its_arguments_are_read_and_those_of_deepspeed_are_not() -> None:
    read = Read(
        "-------------------- arguments --------------------",
        argument("global_num_gpus", 8),
        argument("hidden_size", 1024),
        argument("num_attention_heads", 16),
        argument("activation", "swiglu"),
        argument("norm", "rmsnorm"),
        argument("intermediate_size", 8192),
        argument("rms_norm_epsilon", 1e-08, "default"),
        argument("no_weight_tying", True),
        argument("precision", "bfloat16"),
        argument("train_batch_size", 256),
        argument("init_method", "small_init"),
        argument("use_mup", False, "default"),
        argument("lr_decay_iters", 1000),
        argument("warmup", 0.01, "default"),
        argument("checkpoint_activations", True),
        argument("checkpoint_num_layers", 1, "default"),
        argument("optimizer", {"type": "Adam", "params": {"lr": 0.0006, "betas": [0.9, 0.95], "eps": 1e-08}}),
        argument("tensorboard_dir", None, "default"),
        "---------------- end of arguments ----------------",
        "[2024-01-11 09:00:41,310] [INFO] [config.py:1008:print]   world_size ................... 1",
        line(10),
    )
    expected = {
        "platform.world_size": 8,
        "model.architecture": "llama",
        "model.head_dim": 64,
        "model.ffn_hidden_size": 2816,
        "model.norm_epsilon": 1e-8,
        "model.tied_embeddings": False,
        "precision.dtype": "bf16",
        "training.global_batch_size": 256,
        "training.init_method_std": pytest.approx(0.019764, abs=1e-6),
        "training.warmup_steps": 10,
        "training.recompute": "full",
        "training.adam_beta2": 0.95,
        "training.adam_epsilon": 1e-8,
        "training.tracking": False,
    }
    assert {key: read.settings.get(key) for key in expected} == expected


def test_evaluation_checkpoint_memory_resume_and_end_are_events() -> None:
    read = Read(
        argument("log_interval", 10),
        "---------------- end of arguments ----------------",
        "  successfully loaded checkpoints/global_step100/mp_rank_00_model_states.pt",
        line(110),
        "after 110 iterations memory (MB) | allocated: 1.5 | max allocated: 2 | reserved: 3.0 | max reserved: 30720.0",
        " validation results at iteration 110 | lm_loss value: 4.100000E+00 | lm_loss_ppl value: 6.0E+01 | ",
        "[2024-01-11 09:33:12,110] [INFO] [Rank 0] [Torch] Checkpoint global_step110 is about to be saved!",
        "steps: 120 loss: 5.0123 iter time (s): 1.388 samples/sec: 46.110",
        line(120),
        " validation results at the end of training for val data | lm_loss value: 4.0E+00 | lm_loss_ppl value: 55 | ",
    )
    assert [(step.step, step.loss) for step in read.steps] == [(110, 5.123456), (120, 5.123456)]
    assert [(event.kind, event.step) for event in read.events] == [
        ("resumed", 100),
        ("memory", 110),
        ("eval", 111),
        ("checkpoint", 111),
        ("finished", 120),
    ]
    assert read.events[1].details["gib"] == 30


def test_the_sample_and_the_field_log_are_read_whole() -> None:
    sample = Path(__file__).parents[2] / "src/steelyard/frameworks/gpt_neox/samples/interval-1-mfu.log"
    assert [step.step for step in Read(*sample.read_text().splitlines()).steps] == list(range(1, 13))
    field = FIELD / "f_gptneox.log.gz"
    if not field.is_file():
        pytest.skip("the field logs are not beside this checkout")
    read = Read(*gzip.decompress(field.read_bytes()).decode().splitlines())
    assert [(step.step, step.steps_covered) for step in read.steps] == [(step, 10) for step in (10, 20, 30, 40, 50)]
    assert (read.steps[0].loss, read.steps[-1].loss) == (7.123456, 5.623456)
