"""Llama-3.1-8B with the built-in trainer on this machine's GPU, next to the plan: docs/explanation/trainer.md.

Needs one GPU with 140 GiB. Rates are those of the last of four steps, as shares of the dense peak.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

EXPERIMENT = """
schema_version: 1
name: llama3.1-8b
model: {preset: llama3.1-8b}
training:
  {micro_batch_size: 2, global_batch_size: 16, sequence_length: 2048, steps: 4, learning_rate: 3e-4, warmup_steps: 2}
precision: {dtype: bf16}
data: {source: markov}
"""
COMPILED, FAST = "kernels.compile=true", "kernels.deterministic=false"
ROWS = {
    "plain": (),
    "recompute full": ("training.recompute=full",),
    "compiled": (COMPILED,),
    "compiled, again": (COMPILED,),
    "compiled, not deterministic": (COMPILED, FAST),
    "compiled, not deterministic, global batch 64": (COMPILED, FAST, "training.global_batch_size=64"),
    "GPT-3 6.7B": ("model.preset=gpt3-6.7b",),
    "Qwen 2.5 7B": ("model.preset=qwen2.5-7b",),
}


def run(directory: Path, number: int, settings: tuple[str, ...]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    words = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "steelyard", "run", "8b.yaml", "--no-check", "--gpus", "1", "--name", str(number)]
    subprocess.run([*command, *words], cwd=directory, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    made = directory / "runs" / str(number)
    manifest = json.loads((made / "run.json").read_text())
    return manifest, [json.loads(line) for line in (made / "steps.jsonl").read_text().splitlines()]


def main() -> None:
    losses = {}
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        (directory / "8b.yaml").write_text(EXPERIMENT)
        print("| setting | tokens/s | of the peak | memory, GiB | planned | first loss | planned |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for number, (name, settings) in enumerate(ROWS.items()):
            manifest, steps = run(directory, number, settings)
            expected, last = manifest["expected"], steps[-1]
            peak = expected["peak_tflops_per_gpu"]
            share = f"{100 * last['tflops_per_gpu'] / peak:.1f} %" if peak else "unknown"
            print(
                f"| {name} | {last['tokens_per_s_per_gpu']:,.0f} | {share} | {last['memory_gib']:.1f} "
                f"| {expected['memory_gib_per_gpu']:.1f} | {steps[0]['loss']:.4f} | {expected['first_loss']:.4f} |",
                flush=True,
            )
            losses[name] = [step["loss"] for step in steps]
    print(f"two deterministic runs agree in every bit: {losses['compiled'] == losses['compiled, again']}")


if __name__ == "__main__":
    main()
