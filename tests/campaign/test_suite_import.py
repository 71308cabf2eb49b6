"""A folder of logs becomes one suite: which files are a run, which runs are repeats, and what is left out."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seed003
import spoilt_logs
import steelyard
import written_logs
from steelyard import records
from steelyard.errors import InputError
from steelyard.frameworks import primus
from steelyard.records.suite import load_suite

Cli = Callable[..., Any]


def megatron(number: int = 1, steps: int = 12, **arguments: Any) -> str:
    """A log of Megatron-Core; each number has its own times and losses."""
    return written_logs.megatron(
        steps,
        arguments={**written_logs.ARGUMENTS, **arguments},
        seconds=lambda step: 15.0 + 0.01 * number + 0.02 * (step % 3),
        loss=lambda step: written_logs.falling(step) + 0.001 * number,
    )


def write(folder: Path, **logs: str) -> Path:
    for name, text in logs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def oom(micro_batch: int = 2, device: str = "CUDA") -> str:
    """A log that ends before its first step."""
    dump = megatron(micro_batch_size=micro_batch).partition("[before the start")[0]
    return f"{dump}Traceback (most recent call last):\ntorch.OutOfMemoryError: {device} out of memory.\n"


def cells(document: dict[str, Any]) -> dict[str, list[str]]:
    return {cell["directory"]: cell["runs"] for cell in document["cells"]}


def codes(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {notice["code"]: notice for notice in document["notices"]}


# The experiment of two platforms.


def test_eighteen_logs_of_two_platforms_are_six_cells(cli: Cli, tmp_path: Path) -> None:
    seed003.write(tmp_path / "logs")
    (tmp_path / "logs" / "README.md").write_text("iteration 1/2")
    made = cli("ingest", "--suite", "logs", "--name", "seed", "--json").document
    assert made["axes"] == ["platform", "training.micro_batch_size"]
    assert [cell["values"] for cell in made["cells"]] == [
        {"platform": platform, "training.micro_batch_size": batch}
        for platform in seed003.PLATFORMS
        for batch in seed003.MICRO_BATCHES
    ]
    assert cells(made) == {
        f"{platform}/mbs{batch}": [f"gpt3-6.7b_mbs{batch}_run{run}" for run in seed003.RUNS]
        for platform in seed003.PLATFORMS
        for batch in seed003.MICRO_BATCHES
    }
    assert (made["left_out"], len(made["runs"])) == ([], 18)
    suite = load_suite(tmp_path / "runs" / "seed")
    assert suite.manifest.name == "seed"
    for cell in suite.cells:
        fits = seed003.fits(str(cell.platform), int(cell.values["training.micro_batch_size"] or 0))
        for run in suite.runs(cell):
            assert run is not None
            assert run.manifest.name == run.directory.name
            assert run.manifest.framework == "megatron-deepspeed"
            assert (run.manifest.platform.gpu, run.manifest.platform.gpu_by) == (cell.platform, "folder")
            assert run.status == ("completed" if fits else "failed")
            assert (run.manifest.failure is None) == fits
            assert fits or (run.manifest.failure and run.manifest.failure.kind) == "oom"
    assert codes(made)["suite_gpu_by_folder"]["gpus"] == {"h100": 9, "mi300x": 9}
    assert codes(made)["suite_not_logs"]["files"] == ["README.md"]


def test_the_runs_of_the_experiment_pass_and_its_platforms_compare(cli: Cli, tmp_path: Path) -> None:
    seed003.write(tmp_path / "logs")
    cli("ingest", "--suite", "logs", "--name", "seed")
    for run in ("h100/mbs4/gpt3-6.7b_mbs4_run1", "mi300x/mbs16/gpt3-6.7b_mbs16_run3"):
        judged = cli("check", f"runs/seed/{run}", "--json").document
        assert judged["verdict"] == "pass"
        findings = {finding["check"]: finding["status"] for finding in judged["findings"]}
        assert [findings[check] for check in ("throughput_identity", "peak_flops", "memory_capacity")] == ["pass"] * 3
    compared = cli("compare", "runs/seed/mi300x", "runs/seed/h100", "--for", "throughput,memory,flops", "--json")
    assert compared.status == 0
    assert [cell["values"] for cell in compared.document["cells"]] == [
        {"training.micro_batch_size": batch} for batch in seed003.MICRO_BATCHES
    ]


def test_one_folder_per_platform_has_the_same_axes(cli: Cli, tmp_path: Path) -> None:
    seed003.write(tmp_path / "logs")
    for platform in seed003.PLATFORMS:
        made = cli("ingest", "--suite", f"logs/{platform}", "--gpu", platform, "--name", platform, "--json").document
        assert made["axes"] == ["training.micro_batch_size"]
        assert list(cells(made)) == ["mbs4", "mbs8", "mbs16"]
        assert {cell["platform"] for cell in made["cells"]} == {None}


def test_the_first_line_counts_cells_runs_and_files(cli: Cli, tmp_path: Path) -> None:
    seed003.write(tmp_path / "logs")
    lines = cli("ingest", "--suite", "logs", "--name", "seed").out.splitlines()
    assert lines[0] == "imported runs/seed: 6 cells, 18 runs of 18 files"
    assert lines[-1] == "next: steelyard check runs/seed"
    rows = [line.split() for line in lines[2:8]]
    assert rows[2] == ["h100", "16", "3", "OOM"]


# What is a repeat.


def test_seeds_and_paths_do_not_tell_runs_apart_and_settings_do(cli: Cli, tmp_path: Path) -> None:
    write(
        tmp_path / "logs",
        **{
            "a.log": megatron(1, lr=3e-4),
            "b.log": megatron(2, lr=3e-4, seed=4321),
            "c.log": megatron(3, lr=3e-4, data_path=["/scratch/job7/c4_text_document"]),
            "d.log": megatron(4, lr=3e-4, micro_batch_size=4),
            "e.log": megatron(5, lr=1e-3),
        },
    )
    made = cli("ingest", "--suite", "logs", "--name", "s", "--gpu", "h100", "--json").document
    assert made["axes"] == ["training.micro_batch_size", "training.learning_rate"]
    assert sorted(map(tuple, cells(made).values())) == [("a", "b", "c"), ("d",), ("e",)]


def test_a_run_out_of_memory_before_its_first_step_is_a_repeat_of_its_cell(cli: Cli, tmp_path: Path) -> None:
    logs = {"a.log": megatron(1), "b.log": megatron(2, micro_batch_size=4), "c.log": oom(4), "d.log": oom(8)}
    made = cli("ingest", "--suite", write(tmp_path / "logs", **logs), "--name", "s", "--json").document
    assert cells(made) == {"mbs2": ["a"], "mbs4": ["b", "c"], "mbs8": ["d"]}
    failures = {Path(run["run"]).name: (run["failure"] or {}).get("kind") for run in made["runs"]}
    assert failures == {"a": None, "b": None, "c": "oom", "d": "oom"}


def test_a_log_without_settings_has_its_own_cell_until_they_are_stated(cli: Cli, tmp_path: Path) -> None:
    bare = "Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory.\n"
    logs = {"a.log": megatron(1), "b.log": megatron(2, micro_batch_size=4), "bare.log": bare, "other.log": bare + "\n"}
    write(tmp_path / "logs", **logs)
    made = cli("ingest", "--suite", "logs", "--name", "s", "--json").document
    assert len(made["cells"]) == 4
    own = [cell for cell in made["cells"] if cell["runs"][0] in ("bare", "other")]
    assert [cell["values"]["training.micro_batch_size"] for cell in own] == [None, None]
    assert len({tuple(cell["values"].values()) for cell in made["cells"]}) == 4
    notice = codes(made)["suite_not_placed"]
    assert (sorted(notice["files"]), notice["settings"][0]) == (["bare.log", "other.log"], "model")
    stated = {
        "model.preset": "llama3.1-8b",
        "model.rope_scaling": "null",
        "training.micro_batch_size": 4,
        "training.global_batch_size": 128,
        "training.sequence_length": 8192,
        "training.steps": 12,
        "precision.dtype": "bf16",
        "gpus": 8,
    }
    options = [word for key, value in stated.items() for word in ("--set", f"*e*.log:{key}={value}")]
    options = [option.replace("*e*", "[bo]*e*") for option in options]
    made = cli("ingest", "--suite", "logs", "--name", "stated", "--json", *options).document
    assert cells(made) == {"mbs2": ["a"], "mbs4": ["b", "bare", "other"]}
    assert "suite_not_placed" not in codes(made)


def test_every_run_of_a_file_counts_a_start_that_never_stepped_included(cli: Cli, tmp_path: Path) -> None:
    both = megatron(1) + megatron(2, micro_batch_size=4) + oom(4)
    made = cli("ingest", "--suite", write(tmp_path / "logs", **{"job.out": both}), "--name", "s", "--json").document
    assert cells(made) == {"mbs2": ["job-1"], "mbs4": ["job-2", "job-3"]}
    for run in made["runs"]:
        assert [Path(each["run"]).name for each in run["runs"]] == ["job-1", "job-2", "job-3"]
    made = cli("ingest", "--suite", "logs", "--run", "2", "--name", "second", "--json").document
    (run,) = made["runs"]
    assert [each["run"] for each in run["runs"]] == [None, run["run"], None]
    assert Path(run["run"]).name == "job"


def test_runs_of_one_name_in_two_folders_have_names_of_their_own(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "logs", **{"one/train.log": megatron(1), "two/train.log": megatron(2), "train.LOG": megatron(3)})
    made = cli("ingest", "--suite", "logs", "--name", "s", "--json").document
    assert list(cells(made).values()) == [["train", "train-2", "train-3"]]
    assert {json.loads((Path(run["run"]) / "run.json").read_text())["name"] for run in made["runs"]} == {
        *("train", "train-2", "train-3")
    }


def test_mixed_frameworks_are_platforms(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "logs", **{"m.log": megatron(1), "n.log": written_logs.nemo()})
    made = cli("ingest", "--suite", "logs", "--gpu", "h100", "--name", "s", "--json").document
    assert made["axes"] == ["platform"]
    assert {cell["platform"]: cell["runs"] for cell in made["cells"]} == {"megatron": ["m"], "nemo": ["n"]}


# Which files are one run.


def test_slurms_errors_belong_to_the_output_next_to_them(cli: Cli, tmp_path: Path) -> None:
    failed = "torch.OutOfMemoryError: CUDA out of memory.\n"
    cut = megatron(1).partition("[after training")[0].rsplit("\n", 4)[0] + "\n"
    logs = {"slurm-1.out": cut, "slurm-1.err": failed, "slurm-2.out": megatron(2), "slurm-2.err": ""}
    made = cli("ingest", "--suite", write(tmp_path / "logs", **logs), "--name", "s", "--json").document
    assert [len(run["files"]) for run in made["runs"]] == [2, 2]
    assert [(run["failure"] or {}).get("kind") for run in made["runs"]] == ["oom", None]
    assert list(cells(made).values()) == [["slurm-1", "slurm-2"]]


def test_logs_of_the_nodes_of_one_run_are_one_run(cli: Cli, tmp_path: Path) -> None:
    logs = {"node0.log": megatron(1), "node1.log": megatron(1).replace(" 2025-06-02 07", " 2025-06-02 08")}
    logs["node2.log"] = "worker is ready\n"
    made = cli("ingest", "--suite", write(tmp_path / "logs", **logs), "--name", "s", "--json").document
    assert cells(made) == {"all": ["node0"]}
    assert [len(run["files"]) for run in made["runs"]] == [3]
    assert codes(made)["suite_one_run"]["files"] == ["node0.log", "node1.log", "node2.log"]
    assert made["left_out"] == []


@pytest.mark.parametrize(
    ("names", "second"),
    [
        (("node0.log", "node1.log"), megatron(2)),
        (("node0.log", "node1.log"), megatron(1, micro_batch_size=4)),
        (("run1.log", "run2.log"), megatron(1).replace("07:00:00", "07:00:01")),
        (("node0.log", "node1.log"), oom()),
    ],
    ids=["other losses", "other settings", "not of nodes", "a failure of its own"],
)
def test_logs_that_do_not_agree_are_runs_of_their_own(
    cli: Cli, tmp_path: Path, names: tuple[str, str], second: str
) -> None:
    write(tmp_path / "logs", **dict(zip(names, (megatron(1), second), strict=True)))
    made = cli("ingest", "--suite", "logs", "--name", "s", "--json").document
    assert len(made["runs"]) == 2


def test_a_copy_of_a_log_is_left_out(cli: Cli, tmp_path: Path) -> None:
    logs = {"a.log": megatron(1), "b.log": megatron(1), "c.log": megatron(2)}
    made = cli("ingest", "--suite", write(tmp_path / "logs", **logs), "--name", "s", "--json").document
    assert cells(made) == {"all": ["a", "c"]}
    assert [entry["files"] for entry in made["left_out"]] == [["b.log"]]


def test_states_of_a_trainer_are_the_run_they_belong_to(cli: Cli, tmp_path: Path) -> None:
    def state(steps: int) -> str:
        history = [{"step": step, "loss": 3.0 - step / 100, "epoch": step / 10} for step in range(1, steps + 1)]
        return json.dumps({"global_step": steps, "max_steps": 6, "log_history": history})

    names = ("a/checkpoint-4", "a/checkpoint-6", "a", "b/checkpoint-2", "b/checkpoint-10")
    logs = {f"{name}/trainer_state.json": state(number) for number, name in enumerate(names, start=2)}
    write(tmp_path / "logs", **logs)
    made = cli("ingest", "--suite", "logs", "--name", "s", "--json").document
    assert sorted(run["files"][0]["path"] for run in made["runs"]) == [
        "logs/a/trainer_state.json",
        "logs/b/checkpoint-10/trainer_state.json",
    ]
    assert len(made["left_out"]) == 3


def test_several_formats_in_one_cell_and_folder_are_noted(cli: Cli, tmp_path: Path) -> None:
    rows = "".join(f"{step},{11 - step / 10}\n" for step in range(1, 20))
    logs = {"a.log": megatron(1), "curve.csv": "step,loss\n" + rows}
    write(tmp_path / "logs", **logs)
    keys = ("num_layers=32", "hidden_size=4096", "ffn_hidden_size=14336")
    stated = ["--set", "training.sequence_length=8192", "--set", "training.global_batch_size=128"]
    stated += [word for key in keys for word in ("--set", f"model.{key}")]
    stated += ["--set", "training.micro_batch_size=2", "--set", "precision.dtype=bf16", "--gpus", "8"]
    made = cli("ingest", "--suite", "logs", "--name", "s", "--json", *stated).document
    assert cells(made) == {"all": ["a", "curve"]}
    assert codes(made)["suite_several_formats"]["files"] == ["a.log", "curve.csv"]


# GPUs.


def test_the_log_names_its_gpu_before_the_folder_does(cli: Cli, tmp_path: Path) -> None:
    log = (
        "[titan] 2026-01-20 10:00:00,000 - root - INFO - CUDA capacity: NVIDIA H200 with 139.81GiB memory\n"
        + "".join(
            f"[titan] 2026-01-20 10:00:{step:02d},000 - root - INFO - step: {step:2d}  loss: {12 - step / 9:7.4f}  "
            f"grad_norm:  1.0000  memory: 27.34GiB(19.55%)  tps: 7,{step:03d}  tflops: 407.37  mfu: 41.19%\n"
            for step in range(1, 20)
        )
    )
    write(tmp_path / "logs", **{"h100/a.log": log, "mi300x/b.log": megatron(1)})
    made = cli("ingest", "--suite", "logs", "--name", "s", "--json").document
    by = {
        Path(run["run"]).name: records.load(Path(run["run"])).manifest.platform.model_dump(include={"gpu", "gpu_by"})
        for run in made["runs"]
    }
    assert by == {"a": {"gpu": "h200", "gpu_by": "log"}, "b": {"gpu": "mi300x", "gpu_by": "folder"}}
    notices = {Path(run["run"]).name: [notice["kind"] for notice in run["notices"]] for run in made["runs"]}
    assert notices == {"a": ["folder_differs"], "b": []}
    assert {cell["platform"] for cell in made["cells"]} == {"h200", "mi300x"}


def test_a_log_of_a_larger_gpu_than_its_folders_is_left_out_until_it_is_named(cli: Cli, tmp_path: Path) -> None:
    sample = Path(primus.__file__).parent / "samples" / "v26.3-core-runtime.log"  # shows 192 GiB
    write(tmp_path / "logs", **{"h100/a.log": sample.read_text(), "h100/b.log": megatron(1)})
    made = cli("ingest", "--suite", "logs", "--name", "s", "--json").document
    assert [(entry["files"], entry["value"]) for entry in made["left_out"]] == [(["h100/a.log"], "h100")]
    assert made["left_out"][0]["next"] == "--set FILE:gpu=mi300x"
    made = cli("ingest", "--suite", "logs", "--name", "t", "--set", "h100/a.log:gpu=mi300x", "--json").document
    assert {cell["platform"] for cell in made["cells"]} == {"h100", "mi300x"}


def test_a_gpu_that_a_folder_contradicts_is_refused(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "logs", **{"mi300x/a.log": megatron(1)})
    done = cli("ingest", "--suite", "logs", "--gpu", "h100", "--json")
    assert (done.status, done.document["error"]["key"]) == (2, "--gpu")
    assert not Path("runs").exists()


def test_a_gpu_is_stated_for_some_files(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "logs", **{"a.log": megatron(1), "b.log": megatron(2)})
    made = cli("ingest", "--suite", "logs", "--set", "b.log:gpu=h100", "--name", "s", "--json").document
    assert {cell["directory"]: cell["values"] for cell in made["cells"]} == {
        "h100/all": {"platform": "h100"},
        "unknown/all": {"platform": None},
    }
    assert codes(made)["suite_gpu_unknown"]["files"] == ["a.log"]


# What is left out, and what is refused.


def test_a_log_that_cannot_be_read_is_left_out_with_the_reason(cli: Cli, tmp_path: Path) -> None:
    logs = {
        "a.log": megatron(1),
        "broken.log": "nothing of a training\n",
        "empty.out": "",
        "olmo.log": "[step=1/20,epoch=0]\n    train/CrossEntropyLoss=11.2\n",
        "gpus.csv": "time,power\n1,700\n",
        "notes.txt": "job 7 ended with torch.OutOfMemoryError: CUDA out of memory.\n",
        "oom.txt": oom(),
        "nulls.log": "\0" * 100 + megatron(2),
        "config.json": '{"hidden_size": 4096}',
        "run.sh": "torchrun pretrain_gpt.py --micro-batch-size 4 --seq-length 8192\n",
        "command": "torchrun pretrain_gpt.py --micro-batch-size 4 --seq-length 8192\n",
        "weights.bin": "\0" * 1000,
        ".hidden.log": megatron(3),
    }
    made = cli("ingest", "--suite", write(tmp_path / "logs", **logs), "--name", "s", "--json")
    assert made.status == 0
    left_out = {entry["files"][0]: entry["message"] for entry in made.document["left_out"]}
    assert sorted(left_out) == ["broken.log", "empty.out", "gpus.csv", "olmo.log"]
    assert all(left_out.values())
    names = ["command", "config.json", "notes.txt", "run.sh", "weights.bin"]
    assert sorted(codes(made.document)["suite_not_logs"]["files"]) == names
    assert cells(made.document) == {"all": ["a", "nulls", "oom"]}
    assert cli("ingest", "--suite", "logs", "--name", "t").out.splitlines()[0].endswith("3 runs of 7 files")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file_is_left_out(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "logs", **{"a.log": megatron(1), "b.log": megatron(2)})
    (tmp_path / "logs" / "b.log").chmod(0)
    made = cli("ingest", "--suite", "logs", "--name", "s", "--json").document
    assert [entry["files"] for entry in made["left_out"]] == [["b.log"]]


def test_links_pipes_and_runs_in_the_folder_are_not_read(cli: Cli, tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", **{"a.log": megatron(1), "deep/b.log": megatron(2)})
    outside = write(tmp_path / "outside", **{"c.log": megatron(3)})
    (logs / "deep" / "loop").symlink_to(logs)
    (logs / "c.log").symlink_to(outside / "c.log")
    os.mkfifo(logs / "pipe.log")
    cli("ingest", outside / "c.log", "--out", logs / "runs", "--name", "own")
    made = cli("ingest", "--suite", "logs", "--name", "s", "--json").document
    assert cells(made) == {"all": ["a", "b"]}
    assert codes(made)["suite_links"]["files"] == ["c.log", "deep/loop", "pipe.log"]
    assert codes(made)["suite_own_runs"]["files"] == ["runs/own"]


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda folder: folder.mkdir(), "--suite"),
        (lambda folder: write(folder, **{"README.md": "logs", "a.txt": "text"}), "--suite"),
        (lambda folder: write(folder, **{"a.log": "text"}), "--suite"),
        (lambda folder: folder.write_text(megatron(1)), "--suite"),
        (lambda folder: None, "--suite"),
        (lambda folder: write(folder, **{"run.json": "{}"}), "--suite"),
    ],
    ids=["empty", "no log", "unreadable", "a file", "missing", "a run"],
)
def test_a_folder_without_a_log_is_an_error(cli: Cli, tmp_path: Path, make: Callable[[Path], Any], key: str) -> None:
    make(tmp_path / "logs")
    done = cli("ingest", "--suite", "logs", "--json")
    error = done.document["error"]
    assert (done.status, error["key"], bool(error["next"])) == (2, key, True)
    assert not list((tmp_path).glob("runs/.*"))
    assert not list((tmp_path).glob("runs/*"))


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (("--follow",), "--follow"),
        (("train.log",), "PATH"),
        (("--platform", "a"), "--platform"),
        (("--framework", "megatron9"), "--framework"),
        (("--gpu", "h10"), "--gpu"),
        (("--set", "training.micro_batch=4"), "training.micro_batch"),
        (("--set", "b.log:training.micro_batch_size=4"), "--set"),
        (("--set", "a.log:training.micro_batch_size=many"), "training.micro_batch_size"),
        (("--set", "a.log:gpus=0"), "gpus"),
        (("--set", "a.log:micro_batch_size=4"), "--set"),
        (("--config", "absent.yaml"), None),
        (("--run", "9"), "--suite"),
    ],
)
def test_wrong_options_are_refused_before_a_log_is_read(
    cli: Cli, tmp_path: Path, options: tuple[str, ...], key: str | None
) -> None:
    write(tmp_path / "logs", **{"a.log": megatron(1)})
    done = cli("ingest", "--suite", "logs", *options, "--json")
    assert (done.status, done.document["error"]["key"], bool(done.document["error"]["next"])) == (2, key, True)
    assert not list(tmp_path.glob("runs/*"))


def test_columns_are_those_of_the_tables_of_the_folder(cli: Cli, tmp_path: Path) -> None:
    rows = "".join(f"{step},{11 - step / 10}\n" for step in range(1, 20))
    write(tmp_path / "logs", **{"a.log": megatron(1), "curve.csv": "step,nats\n" + rows})
    made = cli("ingest", "--suite", "logs", "--columns", "loss=nats", "--name", "s", "--json").document
    assert {Path(run["run"]).name: run["dialect"] for run in made["runs"]} == {"a": "megatron", "curve": "csv"}


def test_an_existing_name_is_an_error_and_stays_as_it_is(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "logs", **{"a.log": megatron(1)})
    (tmp_path / "runs" / "s").mkdir(parents=True)
    done = cli("ingest", "--suite", "logs", "--name", "s", "--json")
    assert (done.status, done.document["error"]["key"]) == (2, "--name")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["s"]
    assert not list((tmp_path / "runs" / "s").iterdir())
    first, second = (Path(cli("ingest", "--suite", "logs", "--json").document["suite"]) for _ in range(2))
    assert first != second


def test_a_setting_that_one_log_contradicts_leaves_only_that_log_out(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "logs", **{"a.log": megatron(1), "b.log": megatron(2, micro_batch_size=4)})
    made = cli("ingest", "--suite", "logs", "--set", "training.micro_batch_size=4", "--name", "s", "--json").document
    assert cells(made) == {"all": ["b"]}
    assert [(entry["files"], entry["key"]) for entry in made["left_out"]] == [(["a.log"], "training.micro_batch_size")]


def test_hostile_names_stay_inside_the_suite_and_on_one_line(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    names = [
        "-rf.log",
        "a\nb.log",
        "\x1b[31mred.log",
        "earlier.log",
        "ünïcode.log",
        "x" * 240 + ".log",
        "a=b:c.log",
    ]
    write(folder, **{name: megatron(number) for number, name in enumerate(names)})
    with open(os.fsencode(folder) + b"/\xff\xfe.log", "w") as file:  # noqa: PTH123 - the name is not text
        file.write(megatron(99))
    printed = cli("ingest", "--suite", "logs", "--name", "s")
    assert printed.status == 0
    assert "\x1b" not in printed.out
    suite = load_suite(tmp_path / "runs" / "s")
    assert sum(len(cell.runs) for cell in suite.cells) == len(names) + 1
    for cell in suite.cells:
        for name in cell.runs:
            assert name != "earlier"
            assert suite.run(cell, name) is not None
    made = cli("ingest", "--suite", "logs", "--name", "t", "--set", "a=b:c.log:training.seed=1234", "--json").document
    assert len(made["runs"]) == len(names) + 1


@pytest.mark.processes
def test_a_thousand_small_logs_are_imported(shell: Callable[..., Any], tmp_path: Path) -> None:
    text = megatron(1, steps=2)
    for number in range(1000):
        write(tmp_path / "logs", **{f"{number // 100}/r{number}.log": f"{text}\njob {number}"})
    made = shell("ingest", "--suite", "logs", "--name", "s", "--json").document
    assert len(made["runs"]) == 1000
    assert [len(cell["runs"]) for cell in made["cells"]] == [1000]


@pytest.mark.processes
def test_an_interrupted_import_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    for number in range(400):
        write(folder, **{f"r{number}.log": megatron(number, steps=100)})
    command = [sys.executable, "-m", "steelyard", "ingest", "--suite", "logs", "--name", "s"]
    started = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not list(tmp_path.glob("runs/.new-suite-*/.read/9/*")):
        assert started.poll() is None
        time.sleep(0.01)
    started.terminate()
    started.communicate()
    assert started.returncode == 130
    assert not list((tmp_path / "runs").iterdir())


# The API, and logs of other people.


def test_the_api_returns_the_suite_and_takes_settings_as_a_mapping(tmp_path: Path) -> None:
    write(tmp_path / "logs", **{"a.log": megatron(1), "b.log": megatron(2)})
    seen: list[tuple[int, int]] = []
    made = steelyard.ingest_suite(
        "logs",
        settings={"b.log:model.rope_scaling": None, "precision.dtype": "bf16", "b.log:gpu": "h200"},
        progress=lambda read, total: seen.append((read, total)),
        name="s",
    )
    assert made.suite.directory == Path("runs/s")
    assert [each.run.manifest.platform.gpu for each in made.runs] == ["h200", None]
    assert (made.left_out, seen) == ((), [(0, 2), (1, 2), (2, 2)])
    with pytest.raises(TypeError, match="gpuu"):
        steelyard.ingest_suite("logs", gpuu="h100")  # type: ignore[call-arg]
    with pytest.raises(InputError) as error:
        steelyard.ingest_suite("absent")
    assert error.value.next


@pytest.mark.skipif(not spoilt_logs.SHARED.is_dir(), reason="needs logs of other people")
def test_real_logs_are_grouped_by_their_settings(cli: Cli) -> None:
    made = cli("ingest", "--suite", spoilt_logs.SHARED, "--name", "real", "--json").document
    assert made["left_out"] == []
    of_log = {name: cell for cell in made["cells"] for name in cell["runs"]}
    four = [f"meg_four_passes-{number}" for number in range(1, 5)]
    assert of_log["meg_four_passes-1"]["runs"] == four
    alone = set(of_log) - set(four)
    assert all(len(of_log[name]["runs"]) == 1 for name in alone)
    assert {of_log[name]["platform"] for name in ("tt_175m_20k", "tt_crash_8810")} == {"rtx5090"}
    files = {Path(run["run"]).name: [Path(file["path"]).name for file in run["files"]] for run in made["runs"]}
    assert files["meg_timelimit"] == ["meg_timelimit.out.gz", "meg_timelimit.err.gz"]
    assert codes(made)["suite_not_logs"]["files"] == ["field/expect.json"]
