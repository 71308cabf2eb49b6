"""Why a run ended: one cause among everything that a failing job prints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
FILLER = "some library says hello"
WATCHDOG = (
    "[rank1]:[E810 03:04:11.061727749 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught collective operation timeout:"
    " WorkNCCL(SeqNum=78, OpType=BROADCAST, Timeout(ms)=600000) ran for 600096 milliseconds before timing out."
)
GLOO = (
    "[rank3]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:5"
)
TIME_LIMIT = "slurmstepd: error: *** STEP 18611.1 ON nid0074 CANCELLED AT 2026-04-15T11:31:51 DUE TO TIME LIMIT ***"
ABORTED = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish."
TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/opt/torch/utils/data/_utils/fetch.py", line 33, in _next_data',
    "    data = self._dataset_fetcher.fetch(index)  # may raise StopIteration",
    "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    "RuntimeError: Cannot send a request, as the client has been closed.",
]
ONE_LINE = (
    "['Traceback (most recent call last):\\n', '  File \"train.py\", line 242, in forward_step\\n    x = f()\\n',"
    " 'RuntimeError: Storage size calculation overflowed\\n']"
)


def step(number: int) -> str:
    return (
        f" [2026-01-20 10:00:{number:02d}] iteration {number:8d}/     100 | consumed samples: {number * 8:12d} |"
        f" elapsed time per iteration (ms): 1000.0 | learning rate: 1.000000E-04 | global batch size:     8 |"
        f" lm loss: {11 - number / 40:.6E} | loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations:   0 |"
        " number of nan iterations:   0 |"
    )


STEPS = [step(number) for number in range(1, 31)]


@pytest.mark.parametrize(
    ("printed", "cause"),
    [
        (TRACEBACK, "client has been closed"),
        ([ONE_LINE], "Storage size calculation overflowed"),
        ([ABORTED, TIME_LIMIT], "DUE TO TIME LIMIT"),
        ([ABORTED, TIME_LIMIT.replace("slurmstepd: error", "[2026-04-15T11:31:51.018] error")], "DUE TO TIME LIMIT"),
        (["[rank3]: " + line for line in ("Traceback (most recent call last):", GLOO)] + [WATCHDOG], "Watchdog caught"),
        ([WATCHDOG, TIME_LIMIT], "DUE TO TIME LIMIT"),
        ([TIME_LIMIT, *TRACEBACK], "client has been closed"),
        (["usage: pretrain_gpt.py [-h]", "pretrain_gpt.py: error: unrecognized arguments: --foo"], "unrecognized"),
        (
            ["[2026-04-11 03:25:36,832] [INFO] [launch.py:325:sigkill_handler] Process 1 exits with return code = 1"],
            "= 1",
        ),
        (["srun: error: Unable to create step for job 3981: Requested node configuration"], "Unable to create step"),
    ],
)
def test_the_cause_is_the_exception_then_the_scheduler_then_the_watchdog(
    cli: Cli, tmp_path: Path, printed: list[str], cause: str
) -> None:
    log = tmp_path / "job.out"
    log.write_text("\n".join([*STEPS, *printed, FILLER]) + "\n")
    made = cli("ingest", log, "--json").document
    assert made["status"] == "failed"
    assert cause in made["failure"]["message"]


def test_the_scheduler_explains_more_than_an_old_exception_in_another_file(cli: Cli, tmp_path: Path) -> None:
    """What stands in a file without steps may be older than the first step, such as a failed import."""
    (tmp_path / "job.out").write_text("\n".join(STEPS) + "\n")
    (tmp_path / "job.err").write_text(
        "\n".join(["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'x'", TIME_LIMIT]) + "\n"
    )
    made = cli("ingest", tmp_path / "job.out", tmp_path / "job.err", "--json").document
    assert "TIME LIMIT" in made["failure"]["message"]


@pytest.mark.parametrize(("saved", "status"), [(False, "failed"), (True, "completed")])
def test_an_exception_in_the_final_checkpoint_ends_the_run(cli: Cli, tmp_path: Path, saved: bool, status: str) -> None:
    """Megatron saves once more after its end marker. Later exceptions are of the interpreter's shutdown."""
    ended = [
        "[after training is done] datetime: 2026-03-11 18:39:14",
        "saving checkpoint at iteration     100 to /ckpt",
    ]
    success = ["  successfully saved checkpoint from iteration     100 to /ckpt"] * saved
    log = tmp_path / "job.out"
    log.write_text("\n".join([*map(step, range(1, 101)), *ended, *success, *TRACEBACK]) + "\n")
    made = cli("ingest", log, "--json").document
    assert made["status"] == status
    findings = {it["check"]: it["status"] for it in cli("check", made["run"], "--json").document["findings"]}
    assert findings["completed"] == findings["errors"] == ("pass" if saved else "fail")


def test_an_ignored_exception_is_no_failure(cli: Cli, tmp_path: Path) -> None:
    ignored = [
        "Exception ignored while calling deallocator <function CheckpointManager.__del__ at 0x7f404c7c0a90>:",
        "Traceback (most recent call last):",
        '  File "checkpoint.py", line 405, in __del__',
        "PythonFinalizationError: cannot join thread at interpreter shutdown",
    ]
    log = tmp_path / "job.out"
    log.write_text("\n".join([*STEPS, *ignored]) + "\n")
    made = cli("ingest", log, "--json").document
    assert (made["status"], made["failure"]) == ("interrupted", None)  # it stops at step 30 of 100


@pytest.mark.parametrize("at", [46, 97, 103, 128])
def test_a_memory_line_that_srun_broke_in_two_is_read(cli: Cli, tmp_path: Path, at: int) -> None:
    whole = (
        "[Rank 0] (after 1 iterations) memory (MB) | allocated: 14235.44 | max allocated: 14235.46 |"
        " reserved: 14504.00 | max reserved: 20480.00"
    )
    (tmp_path / "job.out").write_text(
        "\n".join("0: " + line for line in [STEPS[0], whole[:at], whole[at:], *STEPS[1:]]) + "\n"
    )
    made = cli("ingest", tmp_path / "job.out", "--json").document
    assert cli("check", made["run"], "--json").document["figures"]["memory_peak_gib"] == 20.0


def test_an_end_marker_before_the_last_planned_step_is_unknown(cli: Cli, tmp_path: Path) -> None:
    """Megatron-DeepSpeed stops at --train-tokens, and still prints the steps of --train-samples."""
    log = tmp_path / "job.out"
    log.write_text("\n".join([*STEPS, "[after training is done] datetime: 2026-03-11 18:39:14"]) + "\n")
    run = cli("ingest", log, "--json").document["run"]
    findings = {it["check"]: it for it in cli("check", run, "--json").document["findings"]}
    assert (findings["completed"]["status"], findings["completed"]["code"]) == ("unknown", "ended_before_last_step")
    options = ("--set", "training.steps=30", "--override")
    assert findings["completed"]["message"].endswith(" ".join(options))
    planned = cli("ingest", log, *options, "--name", "planned", "--json").document["run"]
    findings = {it["check"]: it for it in cli("check", planned, "--json").document["findings"]}
    assert findings["completed"]["status"] == "pass"


@pytest.mark.parametrize(("interval", "status", "code"), [(100, "unknown", "no_step_due"), (5, "fail", "no_steps")])
def test_a_run_shorter_than_its_log_interval_logs_no_step(
    cli: Cli, tmp_path: Path, interval: int, status: str, code: str
) -> None:
    lines = [
        "------------------------ arguments ------------------------",
        f"  log_interval .................................... {interval}",
        "  train_iters ..................................... 10",
        "-------------------- end of arguments ---------------------",
        "[after training is done] datetime: 2026-03-11 18:39:14",
    ]
    log = tmp_path / "job.out"
    log.write_text("\n".join(lines) + "\n")
    run = cli("ingest", log, "--json").document["run"]
    findings = {it["check"]: it for it in cli("check", run, "--json").document["findings"]}
    assert (findings["steps_present"]["status"], findings["steps_present"]["code"]) == (status, code)
