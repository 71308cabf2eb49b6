"""Reads long logs: time against a bare loop over the same warm file, and memory, by dialect.

    python benchmarks/ingest.py [--mib 1024] [--dialects]

A log of Megatron-LM is generated, half of its bytes step lines, and ingested by the command line: the record is
written, the log kept. Beside it stand a bare `for line in open(f, "rb")` loop and grep counting the step lines. Loop
and ingest take turns, and the best of each counts, since other work on a machine only adds time; memory is watched in a
round of its own, since watching takes time too. Limits: 10 times the loop, and 200 MiB over all processes. `--dialects`
adds a line a dialect, of smaller logs, which have no limit of time.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import psutil

TIMES, MEMORY_MIB = 10.0, 200.0
ROUNDS = 3
_START = datetime(2026, 1, 20, 10)

OTHERS = (
    b"(min, max) time across ranks (ms):\n",
    b"    forward-backward ...............................: (1612.31, 1613.02)\n",
    b"    forward-compute ................................: (511.93, 520.11)\n",
    b"    backward-compute ...............................: (1051.07, 1060.52)\n",
    b"    batch-generator ................................: (1.31, 2.94)\n",
    b"    all-grads-sync .................................: (12.20, 14.02)\n",
    b"    optimizer ......................................: (38.55, 39.01)\n",
    b"    optimizer-copy-main-to-model-params ............: (4.42, 4.58)\n",
    b"WARNING:megatron.core.rerun_state_machine:Setting RerunStateMachine mode RerunMode.DISABLED\n",
)

Line = Callable[[int, random.Random], str]


def megatron(step: int, rng: random.Random) -> str:
    moment = _START + timedelta(milliseconds=1690 * step)
    return (
        f" [{moment:%Y-%m-%d %H:%M:%S.%f}] iteration {step:8d}/{9_999_999:8d} | consumed samples: {step * 64:12d} | "
        f"elapsed time per iteration (ms): {1690 + rng.random() * 9:.1f} | throughput per GPU (TFLOP/s/GPU): "
        f"{450 + rng.random():.1f} | learning rate: {3e-4:.6E} | global batch size: {64:5d} | "
        f"lm loss: {2 + rng.random():.6E} | loss scale: 1.0 | grad norm: {1 + rng.random():.3f} | "
        f"number of skipped iterations: {0:3d} | number of nan iterations: {0:3d} |\n"
    )


def primus(step: int, rng: random.Random) -> str:
    moment = _START + timedelta(milliseconds=9702 * step)
    return (
        f"[{moment:%Y%m%d %H:%M:%S}][rank-7/8][INFO ] [--------trainer.py:2560] :  "
        f"iteration {step:8d}/{9_999_999:8d} | consumed samples: {step * 128:12d} | "
        f"elapsed time per iteration (ms): {9702 + rng.random() * 9:.1f}/9702.0 | "
        f"hip mem usage/free/total/usage_ratio: 117.99GB/74.00GB/191.98GB/61.46% | throughput per GPU (TFLOP/s/GPU): "
        f"782.4/782.4 | tokens per GPU (tokens/s/GPU): 13509.8/13509.8 | learning rate: 1.500000E-05 | "
        f"global batch size:   128 | lm loss: {2 + rng.random():.6E} | loss scale: 1.0 | grad norm: 7.900 | "
        f"number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def nemo(step: int, rng: random.Random) -> str:
    return (
        f"Training epoch 0, iteration {step - 1}/9999999 | lr: 0.00015 | global_batch_size: 128 | "
        f"global_step: {step - 1} | reduced_train_loss: {2 + rng.random():.4} | "
        f"train_step_timing in s: {3.1 + rng.random() / 100:.4} | consumed_samples: {step * 128}\n"
    )


def maxtext(step: int, rng: random.Random) -> str:
    return (
        f"completed step: {step - 1}, seconds: {18 + rng.random() / 10:.3f}, TFLOP/s/device: 408.439, "
        f"Tokens/s/device: 909.212, total_weights: 131072, loss: {2 + rng.random():.3f}\n"
    )


def megatron_deepspeed(step: int, rng: random.Random) -> str:
    return (
        f" iteration {step:8d}/{9_999_999:8d} | consumed samples: {step * 64:12d} | "
        f"consumed tokens: {step * 131072:12d} | "
        f"elapsed time per iteration (ms): {1499 + rng.random():.1f} | learning rate: 1.200E-04 | "
        f"global batch size:    64 | lm loss: {2 + rng.random():.6E} | loss scale: 1.0 | grad norm: 1.200 | "
        f"actual seqlen:  2048 | number of skipped iterations:   0 | number of nan iterations:   0 | "
        f"samples per second: 42.687 | tokens per gpu per second (tgs): 10927.766 | TFLOPs: 471.12 |\n"
    )


def torchtitan(step: int, rng: random.Random) -> str:
    moment = _START + timedelta(milliseconds=1416 * step)
    return (
        f"[rank0]:[titan] {moment:%Y-%m-%d %H:%M:%S},074 - root - INFO - step: {step:2}  "
        f"loss: {2 + rng.random():7.4f}  grad_norm:  2.4909  memory: 30.99GiB(39.01%)  "
        f"tps: 7,034  tflops: 407.37  mfu: 41.19%\n"
    )


DIALECTS: dict[str, Line] = {
    "megatron": megatron,
    "primus": primus,
    "nemo": nemo,
    "maxtext": maxtext,
    "megatron-deepspeed": megatron_deepspeed,
    "torchtitan": torchtitan,
}
GPUS = {"primus": "mi300x"}  # its log shows the memory of that card
MARKS = {"nemo": "Training epoch", "maxtext": "completed step:", "torchtitan": "step:"}


def lines(make: Line, size: int) -> Iterator[bytes]:
    """A log of `size` bytes, half of them in step lines."""
    rng = random.Random(1)
    steps = others = step = 0
    while steps + others < size:
        step += 1
        line = make(step, rng).encode()
        steps += len(line)
        yield line
        while others < steps:
            other = rng.choice(OTHERS)
            others += len(other)
            yield other


def write(path: Path, make: Line, size: int) -> None:
    with path.open("wb", buffering=1 << 20) as file:
        file.writelines(lines(make, size))


def bare_loop(path: Path) -> float:
    start = time.perf_counter()
    with path.open("rb") as file:
        for _ in file:
            pass
    return time.perf_counter() - start


def ingested(path: Path, gpu: str, watch: Callable[[int], None] | None = None) -> float:
    """Seconds; `watch` is called with the process again and again while it runs."""
    out = path.with_name("runs")
    argv = [sys.executable, "-m", "steelyard", "ingest", str(path), "--out", str(out), "--gpu", gpu, "--gpus", "8"]
    start = time.perf_counter()
    process = subprocess.Popen([*argv, "--set", "training.sequence_length=2048"], stdout=subprocess.DEVNULL)
    while watch is not None and process.poll() is None:
        watch(process.pid)
        time.sleep(0.1)
    process.wait()
    seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"ingest ended with {process.returncode}")
    shutil.rmtree(out)
    return seconds


def most_held(path: Path, gpu: str) -> float:
    """The most MiB all processes of an ingest held at once."""
    seen = [0]
    ingested(path, gpu, lambda pid: seen.append(held(pid)))
    return max(seen) / (1 << 20)


def held(pid: int) -> int:
    """Memory of a process and its children, what they share counted once."""
    total = 0
    try:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return 0
    for one in family:
        try:
            total += one.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def measure(name: str, size: int) -> bool:
    gpu = GPUS.get(name, "h100")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.log"
        write(path, DIALECTS[name], size)
        loops, taken = [], []
        for _ in range(ROUNDS):
            os.sync()  # what was written before is not to be paid for now
            loops += [bare_loop(path), bare_loop(path)]
            taken.append(ingested(path, gpu))
        seconds, memory = min(taken), most_held(path, gpu)
        start = time.perf_counter()
        mark = MARKS.get(name, " iteration ")
        found = subprocess.run(["grep", "-c", mark, str(path)], capture_output=True, text=True, check=True)
        grep = time.perf_counter() - start
    bare = min(loops)
    good = (seconds <= TIMES * bare or name != "megatron") and memory <= MEMORY_MIB
    limit = f" (limit {TIMES:g})" if name == "megatron" else ""
    print(
        f"{name:<19} {size >> 20:>5} MiB {int(found.stdout):>9,} steps  loop {bare:5.2f} s  grep {grep:5.2f} s  "
        f"ingest {seconds:6.2f} s  {seconds / bare:5.1f} x{limit}  {memory:4.0f} MiB (limit {MEMORY_MIB:g})"
        f"{'' if good else '  OVER'}",
        flush=True,
    )
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mib", type=int, default=1024, help="size of Megatron's log")
    parser.add_argument("--dialects", action="store_true", help="a line for every dialect, of 192 MiB each")
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
    results = [measure("megatron", asked.mib << 20)]
    if asked.dialects:
        results += [measure(name, 192 << 20) for name in DIALECTS if name != "megatron"]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
