"""A long log read in pieces side by side gives the run that reading it in one go gives."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard.ingestion import parallel

CORPUS = Path(__file__).parents[1] / "traps" / "megatron"
OTHERS = [b"    forward-backward ...............................: (1612.31, 1613.02)", b"WARNING: nothing of note"]
FILES = ("steps.jsonl", "events.jsonl", "logs/train.log")


def lines(steps: int, rng: random.Random) -> list[bytes]:
    made = []
    for step in range(1, steps + 1):
        made.append(
            b" [2026-01-20 10:%02d:%02d] iteration %8d/%8d | consumed samples: %12d |"
            b" elapsed time per iteration (ms): %.1f | throughput per GPU (TFLOP/s/GPU): 450.0 |"
            b" learning rate: 3.000000E-04 | global batch size:    64 | lm loss: %.6E | loss scale: 1.0 |"
            b" grad norm: 1.500 | number of skipped iterations:   0 | number of nan iterations:   0 |"
            % (step // 60, step % 60, step, steps, step * 64, 1000 + rng.random(), rng.random() * 4)
        )
        made += rng.choices(OTHERS, k=rng.randrange(3))
    return made


def spoil(name: str, log: list[bytes], rng: random.Random) -> bytes:
    at = len(log) * 2 // 3
    steps = [index for index, line in enumerate(log) if b" iteration " in line]
    match name:
        case "restart":
            back = steps[len(steps) // 2]
            log = [*log[:at], *log[back:]]
        case "nan":
            log = [*log[:at], *(line.replace(b"lm loss: ", b"lm los: ") for line in log[at:])]
        case "secret":
            log.insert(at, b"HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz")
        case "settings":
            log.insert(at, b"  seq_length ...................................... 4096")
        case "batch":
            log = [
                line.replace(b"size:    64", b"size:   128") if index > at else line for index, line in enumerate(log)
            ]
        case "samples":
            log = [line.replace(b"size:    64", b"size:   128") for line in log]
        case "failure":
            log.insert(at, b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
        case "cut":
            return b"\n".join(log)[:-60]
        case "gap":
            del log[steps[len(steps) // 2]]
        case "ranks":
            log = [b"[default%d]:" % (index % 2) + line for index, line in enumerate(log)]
        case "crlf":
            log = [line + b"\r" for line in log]
        case "long line":
            log.insert(at, b"x" * (3 << 20))
        case "unread":
            log.insert(at, b"saving checkpoint at iteration " + b"9" * 5000)
        case "many unread":
            log = [line for line in log for line in (line, *[b"saving checkpoint at iteration " + b"9" * 20] * 5)]
    return b"\n".join(log) + b"\n"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "plain",
            "restart",
            "nan",
            "secret",
            "settings",
            "batch",
            "samples",
            "failure",
            "cut",
            "gap",
            "ranks",
            "crlf",
            "long line",
            "unread",
            "many unread",
        )
    ],
)
def test_pieces_and_one_go_give_the_same_run(
    name: str, cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(1)
    (tmp_path / "train.log").write_bytes(spoil(name, lines(400, rng), rng))
    options = ("train.log", "--gpu", "h100", "--gpus", "8", "--set", "training.micro_batch_size=1", "--json")
    one = cli("ingest", *options, "--name", "one").document
    monkeypatch.setattr(parallel, "WORTH_IT", 1 << 16)
    monkeypatch.setattr(parallel, "HEAD_BYTES", 1 << 15)
    monkeypatch.setattr(parallel, "PIECE_BYTES", 20_011)
    monkeypatch.setattr(parallel, "_BEFORE", 300)
    taken = []
    read_all = parallel.read_all
    monkeypatch.setattr(parallel, "read_all", lambda *given: taken.append(read_all(*given)) or taken[-1])
    pieces = cli("ingest", *options, "--name", "pieces").document
    if name in ("plain", "samples", "unread", "many unread"):
        assert len(taken[0]) > 3
    for file in FILES:
        assert (tmp_path / "runs" / "one" / file).read_bytes() == (tmp_path / "runs" / "pieces" / file).read_bytes(), (
            file
        )
    for key in ("status", "steps", "failure", "files", "settings", "dialect"):
        assert one[key] == pieces[key], key
