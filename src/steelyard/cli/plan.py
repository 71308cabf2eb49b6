"""steelyard plan FILE: the dry run."""

import json
import shlex
from typing import TYPE_CHECKING

from steelyard.cli.options import (
    DebugOption,
    FileArgument,
    GpuOption,
    GpusOption,
    JsonOption,
    PlatformOption,
    SetOption,
)

if TYPE_CHECKING:
    from steelyard.runner import Plan
    from steelyard.runner.plan import Expected

EXAMPLES = "Examples: steelyard plan tiny-llama.yaml | steelyard plan big.yaml --gpu h200 --gpus 8 --json"


def plan(
    file: FileArgument,
    platform: PlatformOption = None,
    settings: SetOption = None,
    gpu: GpuOption = None,
    gpus: GpusOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show exactly what would run, and what to expect of it."""
    from steelyard.cli import printing
    from steelyard.cli.inputs import planned

    made = planned(file, platform, settings, gpu, gpus)[0].plan
    if as_json:
        printing.show_json(made.model_dump(mode="json"))
    else:
        _show(made)


def _show(plan: "Plan") -> None:
    from steelyard.cli import printing

    printing.say(f"{plan.experiment} on {plan.platform}, framework {plan.framework}")
    for name, value in _expectations(plan.expected):
        printing.say(f"  {name:<18} {value}")
    for node in plan.nodes:
        printing.say(f"\nnode {node.rank} ({node.host}), in the run directory:")
        for name, value in node.env.items():
            printing.say(f"  {name}={shlex.quote(value)} \\")
        printing.say(f"  {shlex.join(node.argv)}")
        for planned in node.files:
            printing.say(f"\n{planned.path}:")
            text = planned.content if isinstance(planned.content, str) else json.dumps(planned.content, indent=2)
            printing.say("  " + text.replace("\n", "\n  "))


def _expectations(expected: "Expected") -> list[tuple[str, str]]:
    memory = ", ".join(f"{name} {_size(gib)}" for name, gib in expected.memory_gib_by_component.items())
    card = expected.usable_gib_per_gpu
    of_card = "" if card is None else f" of {card} GiB"
    floor, peak, seconds = expected.loss_floor, expected.peak_tflops_per_gpu, expected.seconds_at_peak
    return [
        ("parameters", f"{expected.parameters:,}"),
        ("FLOPs per token", f"{expected.flops_per_token / 1e9:,.6g} GFLOP, forward and backward, causal"),
        ("tokens per step", f"{expected.tokens_per_step:,}"),
        ("memory per GPU", f"{_size(expected.memory_gib_per_gpu)}{of_card}: {memory}"),
        ("first loss", f"{expected.first_loss:.4f}"),
        ("loss floor", "unknown" if floor is None else f"{floor:.4f} nats a token"),
        ("dense peak", "unknown" if peak is None else f"{peak:,} TFLOP/s a GPU"),
        ("time at that peak", "unknown" if seconds is None else f"{seconds:,.1f} s; no run is faster"),
    ]


def _size(gib: float) -> str:
    return f"{gib:.1f} GiB" if gib >= 1 else f"{gib * 1024:.1f} MiB"
