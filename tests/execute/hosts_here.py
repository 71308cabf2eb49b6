"""Hosts that are this machine, and plans whose programs only print."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from steelyard.configs.choose import Asked, one_reading
from steelyard.configs.files import read_config
from steelyard.execute.host import COMMAND_S, Done, ThisHost
from steelyard.execute.job import SCOPE
from steelyard.experiment import packaged, parse_settings, resolve
from steelyard.hardware.machine import Machine
from steelyard.planning.make import Planned, make_plan
from steelyard.planning.plan import Plan

STEP = (
    "step: {step}/3 | loss: 5.0 | grad_norm: 1.0 | learning_rate: 0.001 | step_time_s: 0.1 | tokens: 8192"
    " | tokens_per_s_per_gpu: 81920.0 | memory_gib: 0.5 | memory_kind: process_rss_peak"
    " | time: 2026-11-15T01:42:33+00:00"
)
TRAINS = f"for step in range(1, 4): print(f'{STEP}', flush=True)"
HANGS = f"import time; step = 1; print(f'{STEP}', flush=True); time.sleep(600)"


class OneOfSeveral(ThisHost):
    """This machine under several names, each of which is held for itself."""

    def __init__(self, name: str, scope: Path) -> None:
        super().__init__(name)
        self._scope = str(scope)

    def _own(self, argv: Sequence[str]) -> list[str]:
        return [self._scope if word == SCOPE else word for word in argv]

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        return await super().run(self._own(argv), stdin, timeout_s)


class StoppedAtTheEnd(OneOfSeveral):
    """Somebody presses Ctrl-C while it is cleaned."""

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        if "clean" in argv:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.2)  # so that it is heard of
        return await super().run(argv, stdin, timeout_s)


def planned(tmp_path: Path, hosts: Sequence[str], *settings: str) -> Planned:
    path = tmp_path / "tiny.yaml"
    text = packaged.text("tiny-llama")
    path.write_text(text + "\nplatforms:\n  lab: {gpu: cpu, gpus_per_node: 1, container: {image: none}}\n")
    asked = Asked(
        settings=parse_settings(["training.steps=3", "training.warmup_steps=1", *settings]), hosts=tuple(hosts)
    )
    reading = one_reading(read_config(path), asked)
    return make_plan(resolve(reading, asked.settings, None, None), Machine((), cpu_count=2), asked)


def with_program(plan: Plan, program: str, folder: Path) -> Plan:
    """The same plan without a container, with a program that only prints."""
    node = plan.nodes[0].model_copy(
        update={
            "argv": [sys.executable, "-c", program],
            "env": {},
            "files": [],
            "container": None,
            "workdir": None,
            "directory": str(folder / f"files-{plan.nodes[0].host}"),
        }
    )
    return plan.model_copy(update={"nodes": [node]})
