"""What an ingested run knows: the log's own words, what follows from them, and what contradicts them."""

import gzip
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from steelyard import records

REAL = Path(__file__).parents[1] / "frameworks" / "logs" / "real"

Cli = Callable[..., Any]
Manifest = dict[str, Any]


def megatron(path: Path, arguments: Mapping[str, str]) -> Path:
    """A real Megatron log whose dump says these things."""
    text = gzip.decompress((REAL / "megatron_clean_int1.log.gz").read_bytes()).decode()
    for name, value in arguments.items():
        text, count = re.subn(rf"(?m)^(  {name} \.+) .*$", lambda found, value=value: f"{found[1]} {value}", text)
        assert count == 1
    path.write_text(text)
    return path


def manifest(cli: Cli, *words: object) -> Manifest:
    done = cli("ingest", *words, "--json")
    assert done.status == 0, done.err
    found: Manifest = json.loads((Path(done.document["run"]) / "run.json").read_text())
    return found


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"data_path": "['/data/c4']"}, "/data/c4"),
        ({"data_path": "['0.3', '/data/a', '0.7', '/data/b']"}, "0.3 /data/a 0.7 /data/b"),
        ({"data_path": "/data/c4"}, "/data/c4"),
        ({"train_data_path": "['/data/train']", "valid_data_path": "['/data/valid']"}, "/data/train"),
        ({"data_args_path": "/data/blend.txt"}, "/data/blend.txt"),
        ({"per_split_data_args_path": "/data/blend.json"}, "/data/blend.json"),
    ],
)
def test_the_corpus_a_megatron_names_is_known(
    cli: Cli, tmp_path: Path, arguments: Mapping[str, str], path: str
) -> None:
    log = megatron(tmp_path / "train.log", {"mock_data": "False", **arguments})
    made = manifest(cli, log)
    assert (made["experiment"]["data"]["source"], made["experiment"]["data"]["path"]) == ("tokens", path)
    assert made["sources"]["data.path"] == "log"
    at = made["ingested"]["said"]["data.path"]["line"]
    assert f" {next(iter(arguments))} ." in log.read_text().splitlines()[at - 1]


@pytest.mark.parametrize(
    ("arguments", "kernels", "recipe"),
    [
        ({"transformer_impl": "local"}, {"transformer_impl": "local"}, None),
        ({"transformer_impl": "transformer_engine"}, {"transformer_impl": "transformer_engine"}, None),
        ({"transformer_impl": "inference_optimized"}, {}, None),
        ({"gradient_accumulation_fusion": "True"}, {"gradient_accumulation_fusion": True}, None),
        ({"fp8": "hybrid", "fp8_recipe": "tensorwise"}, {}, "tensorwise"),
        ({"fp8": "None", "fp8_recipe": "tensorwise"}, {}, None),
        ({"fp8": "hybrid", "fp8_recipe": "custom"}, {}, None),
    ],
)
def test_the_layers_and_the_recipe_of_a_dump_are_known(
    cli: Cli, tmp_path: Path, arguments: Mapping[str, str], kernels: Manifest, recipe: str | None
) -> None:
    experiment = manifest(cli, megatron(tmp_path / "train.log", arguments))["experiment"]
    named = {key: value for key, value in experiment["kernels"].items() if key in arguments}
    assert (named, experiment["precision"].get("fp8_recipe")) == (kernels, recipe)


def test_no_corpus_is_known_where_the_dump_names_none(cli: Cli, tmp_path: Path) -> None:
    for value in ("None", "[]", "['/data/c4"):
        made = manifest(cli, megatron(tmp_path / "train.log", {"mock_data": "False", "data_path": value}))
        assert "path" not in made["experiment"]["data"]


def test_a_corpus_that_contradicts_the_log_is_refused(cli: Cli, tmp_path: Path) -> None:
    log = megatron(tmp_path / "train.log", {"mock_data": "False", "data_path": "['/data/wikipedia']"})
    done = cli("ingest", log, "--set", "data.path=/data/c4")
    assert done.status == 2
    assert "data.path is /data/c4 by --set, but /data/wikipedia in the log" in done.err
    mock = megatron(tmp_path / "mock.log", {})
    done = cli("ingest", mock, "--set", "data.path=/data/c4")
    assert done.status == 2
    assert "data.path is /data/c4 by --set, but the log shows generated data (counting)" in done.err


def test_made_data_have_no_corpus(cli: Cli, tmp_path: Path) -> None:
    made = manifest(cli, megatron(tmp_path / "mock.log", {}))
    for name in ("path", "dataset", "samples"):
        assert made["experiment"]["data"][name] is None
        assert made["sources"][f"data.{name}"] == "derived"


def test_the_data_parallel_size_follows_from_the_world_and_the_others(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_text("step,loss\n1,3.0\n2,2.9\n")
    sizes = [f"parallelism.{name}_parallel_size" for name in ("tensor", "pipeline", "context")]
    layout = [word for key, size in zip(sizes, (2, 2, 1), strict=True) for word in ("--set", f"{key}={size}")]
    made = manifest(cli, "curve.csv", "--gpus", 8, "--nodes", 2, *layout)
    assert made["experiment"]["parallelism"]["data_parallel_size"] == 4
    assert made["sources"]["parallelism.data_parallel_size"] == "derived"
    assert "data_parallel_size" not in manifest(cli, "curve.csv", "--gpus", 8, *layout[:4])["experiment"]["parallelism"]
    assert "data_parallel_size" not in manifest(cli, "curve.csv", *layout)["experiment"]["parallelism"]


def test_a_layout_that_does_not_divide_the_world_fails(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_text("step,loss\n1,3.0\n2,2.9\n")
    run = cli("ingest", "curve.csv", "--gpus", 8, "--set", "parallelism.tensor_parallel_size=3", "--json")
    found = cli("check", run.document["run"], "--json").document["findings"]
    assert [(one["code"], one["status"], one["observed"]) for one in found if one["check"] == "world_identity"] == [
        ("world_size_not_divisible", "fail", 3)
    ]


def test_a_maxtext_says_its_layout_and_what_it_has_no_setting_for(cli: Cli) -> None:
    made = manifest(cli, REAL / "maxtext_clean.log.gz")
    layout = {name: made["experiment"]["parallelism"][f"{name}_parallel_size"] for name in ("tensor", "data")}
    assert layout == {"tensor": 2, "data": 2}  # two of FSDP; the data axis is -1, and takes what is left
    precision = made["experiment"]["precision"]
    keys = ("loss_scale", "grad_reduce_in_fp32", "fp32_residual_connection")
    assert [precision[key] for key in keys] == [None, False, False]
    sources = [made["sources"][f"precision.{key}"] for key in keys]
    assert sources == ["derived", "default of maxtext", "default of maxtext"]


@pytest.mark.parametrize(("dtype", "known"), [("bf16", True), ("fp32", True), ("fp16", False)])
def test_only_fp16_scales_its_loss(cli: Cli, tmp_path: Path, dtype: str, known: bool) -> None:
    (tmp_path / "curve.csv").write_text("step,loss\n1,3.0\n2,2.9\n")
    scale = () if known else ("--set", "precision.loss_scale=dynamic")
    precision = manifest(cli, "curve.csv", "--set", f"precision.dtype={dtype}", *scale)["experiment"]["precision"]
    assert precision["loss_scale"] == (None if known else "dynamic")


PRIMUS = (
    "[20251202 09:12:{at:02d}][rank-7/8][INFO ] [--------trainer.py:2560] : iteration {at}/ 9 | consumed samples: 128 |"
    " elapsed time per iteration (ms): 13372.8/13364.7 |"
    " hip mem usage/free/total/usage_ratio: 53.81GB/102.17GB/{gib}GB/60.09% |"
    " throughput per GPU (TFLOP/s/GPU): 567.6/568.0 | tokens per GPU (tokens/s/GPU): 9801.4/9807.3 |"
    " learning rate: 9.984820E-06 | global batch size: 128 | lm loss: 6.548988E+00 | loss scale: 1.0 |"
    " grad norm: 0.061 | number of skipped iterations: 0 | number of nan iterations: 0 |"
)
TITAN = (
    "[titan] 2026-01-20 10:00:{at:02d},074 - root - INFO - \x1b[31mstep: {at:2d}  \x1b[32mloss: 8.2146"
    "  \x1b[33mgrad_norm:  1.2  \x1b[36mmemory: {used}GiB({share}%)  \x1b[34mtps: 7,034  tflops: 407.3"
    "  \x1b[35mmfu: 41.2%\x1b[39m"
)


@pytest.mark.parametrize(
    ("line", "gpu", "right"),
    [
        (PRIMUS.replace("{gib}", "255.98"), "mi300x", "mi325x"),
        (PRIMUS.replace("{gib}", "191.98"), "h100", "mi300x"),
        (PRIMUS.replace("{gib}", "191.50"), "b200", "mi300x"),
        (TITAN.replace("{used}", "52.53").replace("{share}", "66.33"), "mi300x", "h100"),
        (TITAN.replace("{used}", "39.60").replace("{share}", "98.99"), "h100", None),
    ],
)
def test_a_gpu_of_another_size_than_the_log_shows_is_refused(
    cli: Cli, tmp_path: Path, line: str, gpu: str, right: str | None
) -> None:
    (tmp_path / "train.log").write_text("\n".join(line.format(at=at) for at in range(1, 4)) + "\n")
    done = cli("ingest", "train.log", "--gpu", gpu, "--gpus", 8)
    assert done.status == 2
    assert f"--gpu is {gpu} with " in done.err
    assert "the log shows a GPU with " in done.err
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())
    if right is not None:
        assert right in done.err
        assert cli("ingest", "train.log", "--gpu", right, "--gpus", 8).status == 0


def test_a_share_too_small_to_tell_a_card_s_size_is_no_evidence(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(TITAN.format(at=1, used="0.97", share="0.76") + "\n")
    assert cli("ingest", "train.log", "--gpu", "h100", "--gpus", 8).status == 0


def test_a_node_whose_card_holds_a_little_less_changes_no_setting(cli: Cli, tmp_path: Path) -> None:
    for at, gib in enumerate(("191.98", "191.50")):
        (tmp_path / f"node{at}.log").write_text(PRIMUS.replace("{gib}", gib).format(at=1) + "\n")
    done = cli("ingest", "node0.log", "node1.log", "--gpu", "mi300x", "--gpus", 8, "--json")
    assert done.status == 0
    assert "setting_changed" not in {one["kind"] for one in done.document["notices"]}


def test_a_value_that_does_not_do_is_said_once_to_be_of_set(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_text("step,loss\n1,3.0\n2,2.9\n")
    done = cli("ingest", "curve.csv", "--set", "data.source=text", "--set", "model.vocab_size=-1")
    assert done.status == 2
    assert "steelyard: --set: " in done.err
    assert "--set: --set" not in done.err
    assert done.err.endswith(" after --set; 1 more problem\n")


@pytest.mark.parametrize("value", ["0", "9" * 18, "9" * 5000])
def test_a_vocabulary_that_cannot_be_leaves_the_first_loss_unknown_or_finite(
    cli: Cli, tmp_path: Path, value: str
) -> None:
    arguments = {"padded_vocab_size": value, "vocab_size": value, "hidden_size": "64", "init_method_std": "1e300"}
    made = manifest(cli, megatron(tmp_path / "train.log", arguments))
    assert made["expected"]["first_loss"] is None


def test_a_config_of_synthetic_data_says_that_its_batch_repeats(cli: Any, tmp_path: Path) -> None:
    """MaxText draws one batch and trains on it at every step, so a loss below ln(vocabulary) is memory, not a leak."""
    cli("init", "mi300x_singlenode_llama3_1_70b")
    config = tmp_path / "mi300x_singlenode_llama3_1_70b.json"
    config.write_text(re.sub(r"<changeme>[^\"]*", "1", config.read_text()))
    lines = [
        f"completed step: {at}, seconds: 30.000, TFLOP/s/device: 245.000, Tokens/s/device: 546.133,"
        f" total_weights: 131072, loss: {max(12.26 - 0.4 * at, 1.87):.3f}"
        for at in range(30)
    ]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    made = cli("ingest", "train.log", "--config", config, "--gpu", "mi300x", "--nodes", 1, "--json").document
    manifest = records.load(Path(made["run"])).manifest
    assert manifest.experiment.value("data.samples") == manifest.experiment.value("training.global_batch_size")
    assert manifest.expected["loss_floor"] is None
    findings = {each["check"]: each["status"] for each in cli("check", made["run"], "--json").document["findings"]}
    assert findings.get("loss_floor") != "fail"


PLATFORMS = """
platforms:
  here: {gpu: h100, gpus_per_node: 1, framework: megatron, root: /opt/Megatron-LM}
  there: {gpu: mi300x, gpus_per_node: 8, framework: native}
"""


@pytest.mark.parametrize(
    ("third", "status"), [("", 0), ("  also: {gpu: h200, framework: megatron, root: /opt/m}\n", 2)]
)
def test_the_platform_of_a_config_is_that_of_the_framework_of_the_log(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, third: str, status: int
) -> None:
    monkeypatch.chdir(tmp_path)
    cli("init", "tiny-llama")
    Path("both.yaml").write_text(Path("tiny-llama.yaml").read_text().partition("platforms:")[0] + PLATFORMS + third)
    log = megatron(tmp_path / "train.log", {})
    done = cli("ingest", log, "--config", "both.yaml", "--json")
    assert done.status == status
    if status:
        assert done.document["error"]["key"] == "--platform"
    else:
        platform = json.loads((Path(done.document["run"]) / "run.json").read_text())["platform"]
        assert platform["gpu"] == "h100"
