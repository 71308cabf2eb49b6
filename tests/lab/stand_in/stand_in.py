"""Trains a tiny model with the built-in trainer and prints the step lines of another framework.

The loss is the trainer's own. Time is made: a step takes what the declared batch takes at the speed that the image's
variables claim, and the moments of the lines go on by that.
"""

import argparse
import math
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from statistics import fmean

from torch import Tensor

from steelyard.trainer import train as loop
from steelyard.trainer.spec import DataSpec, ModelSpec, Spec, TrainingSpec

HIDDEN = 32
BATCH, SEQUENCE = 6, 64
"""What is trained on in truth; the batch suits one rank and three."""
SEED = 43
"""One with which so few tokens have the first loss of many."""
MEMORY_SHARE = 0.6146


@dataclass(frozen=True)
class Job:
    """What the lines speak of."""

    steps: int
    batch: int
    sequence: int
    gpus: int
    hidden: int
    """Width of the model that is claimed, which decides the first loss."""
    tokens_per_s_per_gpu: float
    gflop_per_token: float

    @property
    def tokens(self) -> int:
        return self.batch * self.sequence

    def seconds(self, step: int) -> float:
        """A little different each step, as a machine's are."""
        return self.tokens / self.gpus / self.tokens_per_s_per_gpu * (1 + 0.002 * math.sin(step))

    def rate(self, seconds: float) -> float:
        return self.tokens / self.gpus / seconds

    def tflops(self, seconds: float) -> float:
        return self.rate(seconds) * self.gflop_per_token / 1000


@dataclass(frozen=True)
class Step:
    """What every rank knows of a step."""

    number: int
    loss: float
    grad_norm: float
    learning_rate: float


@dataclass
class Megatron:
    """ROCm's fork of Megatron-LM: the last rank speaks, and its script sums up."""

    job: Job
    source, samples = "counting", None
    moment: datetime = field(default_factory=datetime.now)
    timed: list[tuple[float, float]] = field(default_factory=list)

    @property
    def logit_std(self) -> float:
        return math.sqrt(self.job.hidden) * 0.02

    def speaks(self, rank: int, size: int) -> bool:
        return rank == size - 1

    def lines(self, step: Step) -> Iterator[str]:
        job = self.job
        seconds = job.seconds(step.number) * (3 if step.number == 1 else 1)
        self.moment += timedelta(seconds=seconds)
        self.timed.append((seconds, job.tflops(seconds)))
        yield (
            f" [{self.moment:%Y-%m-%d %H:%M:%S}] iteration {step.number:8d}/{job.steps:8d} |"
            f" consumed samples: {step.number * job.batch:12d} |"
            f" elapsed time per iteration (ms): {1000 * seconds:.1f} | mem usages: {MEMORY_SHARE:.4f} |"
            f" throughput per GPU (TFLOP/s/GPU): {job.tflops(seconds):.1f} | learning rate: {step.learning_rate:.6E} |"
            f" global batch size: {job.batch:5d} | lm loss: {step.loss:.6E} | loss scale: 1.0 |"
            f" grad norm: {step.grad_norm:.3f} | number of skipped iterations: {0:3d} |"
            f" number of nan iterations: {0:3d} |"
        )
        if step.number == job.steps:
            yield from self.summary()

    def summary(self) -> Iterator[str]:
        """Means without the first two and the last."""
        seconds, tflops = (fmean(values) for values in zip(*self.timed[2:-1], strict=True))
        yield f"[after training is done] datetime: {self.moment:%Y-%m-%d %H:%M:%S} "
        yield f"throughput per GPU: {tflops:.1f}"
        yield f"elapsed time per iteration: {1000 * seconds:.2f}"
        yield f"tokens/GPU/s: {self.job.rate(seconds):.6f}"
        yield f"mem usages: {MEMORY_SHARE}"


@dataclass
class MaxText:
    """MaxText of 2025: every process speaks, counts from 0 and gives no moments."""

    job: Job
    logit_std = 1.0
    source, samples = "uniform", BATCH  # one batch, every step the same

    def speaks(self, rank: int, size: int) -> bool:
        return True

    def lines(self, step: Step) -> Iterator[str]:
        # The first is compilation, the second returns before its work is done, the third waits for both.
        seconds = self.job.seconds(step.number) * {1: 5.0, 2: 0.01, 3: 1.99}.get(step.number, 1.0)
        yield (
            f"completed step: {step.number - 1}, seconds: {seconds:.3f},"
            f" TFLOP/s/device: {self.job.tflops(seconds):.3f}, Tokens/s/device: {self.job.rate(seconds):.3f},"
            f" total_weights: {self.job.tokens}, loss: {step.loss:.3f}"
        )


FRAMEWORKS = {"megatron": Megatron, "maxtext": MaxText}


class Overheard(loop.Ranks):
    """The trainer's ranks: what they sum up of a step is told in the framework's lines."""

    def __init__(self, framework: Megatron | MaxText, training: TrainingSpec, device: str) -> None:
        super().__init__(device)
        self._framework, self._training = framework, training
        self._step = 0
        self._sums: list[float] = []
        say(f"{socket.gethostname()}: rank {self.rank} of {self.size}")

    def sum(self, tensor: Tensor) -> Tensor:
        super().sum(tensor)
        if tensor.ndim == 0:
            self._sums.append(tensor.item())
        return tensor

    def maximum(self, value: float) -> float:
        """Asked once a step, last."""
        squared_norm, loss = self._sums
        self._sums.clear()
        self._step += 1
        if self._framework.speaks(self.rank, self.size):
            rate = loop.learning_rate(self._training, self._step)
            for line in self._framework.lines(Step(self._step, loss, math.sqrt(squared_norm), rate)):
                say(line)
        return super().maximum(value)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def spec_of(framework: Megatron | MaxText) -> Spec:
    """A model as small as can be whose first loss is that of the large one: its vocabulary, and logits as wide."""
    return Spec(
        model=ModelSpec(
            architecture="llama",
            num_layers=1,
            hidden_size=HIDDEN,
            ffn_hidden_size=2 * HIDDEN,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=HIDDEN // 2,
            vocab_size=128256,
            max_position_embeddings=SEQUENCE,
            norm_epsilon=1e-5,
            rope_theta=10000.0,
            rope_scaling=None,
            qkv_bias=False,
            tied_embeddings=True,
        ),
        training=TrainingSpec(
            seed=SEED,
            micro_batch_size=2,
            global_batch_size=BATCH,
            sequence_length=SEQUENCE,
            steps=framework.job.steps,
            learning_rate=1e-2,
            min_learning_rate=1e-3,
            schedule="cosine",
            warmup_steps=2,
            decay_steps=None,
            weight_decay=0.1,
            adam_beta1=0.9,
            adam_beta2=0.95,
            adam_epsilon=1e-8,
            clip_grad_norm=1.0,
            init_method_std=framework.logit_std / math.sqrt(HIDDEN),
            recompute="none",
        ),
        data=DataSpec(source=framework.source, seed=7, path=None, train_share=1.0, samples=framework.samples),
        device="cpu",
        dtype="fp32",
        grad_reduce_in_fp32=True,
        distributed_optimizer=True,  # then the norm of the gradients is summed over the ranks, where we hear it
        compile=False,
        deterministic=True,
    )


def main() -> None:
    """Train as the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("framework", choices=FRAMEWORKS)
    for name in ("steps", "batch", "sequence", "gpus"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--hidden", type=int, default=4096)
    given = vars(parser.parse_args())
    name = given.pop("framework")
    rate, gflop = (float(os.environ[f"STAND_IN_{what}"]) for what in ("TOKENS_PER_S_PER_GPU", "GFLOP_PER_TOKEN"))
    if socket.gethostname() == os.environ["STAND_IN_SLOW_HOST"]:
        rate *= 0.95
    framework = FRAMEWORKS[name](Job(**given, tokens_per_s_per_gpu=rate, gflop_per_token=gflop))
    spec = spec_of(framework)
    loop.Ranks = partial(Overheard, framework, spec.training)
    loop._say = lambda *_, **__: None
    loop.train(spec)
    sys.stdout.flush()
    os._exit(0)  # as the trainer does: gloo may abort while the interpreter shuts down


if __name__ == "__main__":
    main()
