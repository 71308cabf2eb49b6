"""One experiment file, planned for two frameworks: their runs compare without a flag."""

import gzip
import json
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

REAL = Path(__file__).parents[1] / "frameworks/logs/real/megatron_clean_int1.log.gz"
EXPERIMENT = """
schema_version: 1
name: one
model: {preset: llama3.1-8b, num_layers: 4, hidden_size: 1024, ffn_hidden_size: 4096, num_attention_heads: 16,
        num_key_value_heads: 8, head_dim: 64, max_position_embeddings: 2048}
training: {micro_batch_size: 4, global_batch_size: 8, sequence_length: 1024, steps: 60, learning_rate: 3.0e-4,
           warmup_steps: 5}
data: {source: counting}
parallelism: {distributed_optimizer: false}
platforms:
  megatron: {framework: megatron, gpu: h200, nodes: 1, gpus_per_node: 1}
  native: {framework: native, gpu: h200, nodes: 1, gpus_per_node: 1}
"""
STEPS, SEEDS = 60, (42, 43, 44)
PRINTED = {
    "disable_bias_linear": ("add_bias_linear", "False"),
    "grad_reduce_in_bf16": ("accumulate_allreduce_grads_in_fp32", "False"),
    "norm_epsilon": ("layernorm_epsilon", None),
}
"""Arguments under the names, and with the values, that Megatron's dump has for them."""
COUNTS = {
    "core 0.20": "> padded vocab (size: 128255) with 1 dummy tokens (new size: 128256)",
    "core 0.15": "> padded vocab (size: 128256) with 0 dummy tokens (new size: 128256)",
}
"""What NullTokenizer counts of `--vocab-size 128255`, by version."""


def arguments_of(argv: Sequence[str]) -> dict[str, str]:
    words = list(argv[argv.index("pretrain_gpt.py") + 1 :])
    given = {}
    for at, word in enumerate(words):
        if word.startswith("--"):
            following = words[at + 1] if at + 1 < len(words) else "--"
            given[word[2:].replace("-", "_")] = "True" if following.startswith("--") else following
    return given


def dump(arguments: Mapping[str, str], count: str) -> list[str]:
    """The dump of a real run with these arguments, and the line of its tokenizer."""
    left = {PRINTED.get(name, (name,))[0]: PRINTED.get(name, ("", None))[1] or text for name, text in arguments.items()}
    lines = []
    for line in gzip.decompress(REAL.read_bytes()).decode().splitlines():
        argument = re.match(r"^  ([a-z_0-9]+) \.{2,} ", line)
        lines.append(line[: argument.end()] + left.pop(argument[1]) if argument and argument[1] in left else line)
        if "end of arguments" in line:
            break
    assert not left, "the dump has every planned argument"
    return [*lines, count]


def course(seed: int, seconds: float) -> list[tuple[int, float, float, float, str]]:
    """Step, seconds, loss, learning rate and time of each step."""
    chance, now, rows = random.Random(seed), 1.79e9, []
    for step in range(1, STEPS + 1):
        took = seconds * (1 + chance.gauss(0, 0.01))
        now += took
        loss = 11.9668 * (1 + (step - 1) / 8) ** -0.28 * math.exp(chance.gauss(0, 0.001))
        rate = 3e-4 * (step / 5 if step <= 5 else 0.5 * (1 + math.cos(math.pi * (step - 5) / 55)))
        rows.append((step, took, loss, rate, datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")))
    return rows


def megatron_log(arguments: Mapping[str, str], count: str, seed: int) -> str:
    lines = dump({**arguments, "seed": str(seed)}, count)
    for step, took, loss, rate, now in course(seed, 0.30):
        lines.append(
            f" [{now}] iteration {step:8d}/{STEPS:8d} | consumed samples: {8 * step:12d} | elapsed time per iteration"
            f" (ms): {1000 * took:.1f} | learning rate: {rate:.6E} | global batch size:     8 | lm loss: {loss:.6E} |"
            " loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations:   0 |"
            " number of nan iterations:   0 |"
        )
        if step == STEPS:
            reserved = "allocated: 5712.1 | max allocated: 11020.3 | reserved: 12180.0 | max reserved: 12180.0"
            lines.append(f"[Rank 0] (after {step} iterations) memory (MB) | {reserved}")
    return "\n".join([*lines, "[after training is done] datetime: 2026-09-21 16:00:00"]) + "\n"


def native_log(seed: int) -> str:
    lines = [f"steelyard trainer | torch: 2.11.0 | device: NVIDIA H200 | ranks: 1 | dtype: bf16 | steps: {STEPS}"]
    for step, took, loss, rate, now in course(seed + 1000, 0.33):
        lines.append(
            f"step: {step}/{STEPS} | loss: {loss} | grad_norm: 1.0 | learning_rate: {rate} | step_time_s: {took} |"
            f" tokens: 8192 | tokens_per_s_per_gpu: {8192 / took} | memory_gib: 13.5 |"
            f" memory_kind: torch_reserved_peak | time: {now.replace(' ', 'T')}+00:00"
        )
    return "\n".join([*lines, "training finished"]) + "\n"


@pytest.mark.parametrize("version", COUNTS)
def test_megatron_and_native_runs_of_one_file_compare(cli: Callable[..., Any], tmp_path: Path, version: str) -> None:
    (tmp_path / "one.yaml").write_text(EXPERIMENT)
    planned = cli("plan", "one.yaml", "--platform", "megatron", "--json")
    assert planned.status == 0, planned.err
    arguments = arguments_of(planned.document["nodes"][0]["argv"])
    assert (arguments["tokenizer_type"], arguments["vocab_size"]) == ("NullTokenizer", "128255")
    for seed in SEEDS:
        (tmp_path / "megatron.log").write_text(megatron_log(arguments, COUNTS[version], seed))
        (tmp_path / "native.log").write_text(native_log(seed))
        for side in ("megatron", "native"):
            place = ("--out", f"runs/{side}", "--name", f"s{seed}", "--set", f"training.seed={seed}")
            recorded = cli("ingest", f"{side}.log", "--config", "one.yaml", "--platform", side, *place)
            assert recorded.status == 0, recorded.err
    done = cli("compare", "native", "megatron", "--for", "throughput,memory,flops,convergence", "--json")
    statuses = {metric: ruling["status"] for metric, ruling in done.document["comparable"].items()}
    assert set(statuses.values()) <= {"comparable", "qualified"}, statuses
    assert done.document["throughput_speedup"]["outcome"] == "worse"
    assert done.document["convergence"]["status"] == "equivalent"
    assert done.status == 0


def test_only_what_is_embedded_is_taken_from_a_count_that_depends_on_the_version(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    def vocabulary(size: int, count: str) -> tuple[Any, Any]:
        given = {"vocab_size": str(size), "make_vocab_size_divisible_by": "128", "train_iters": str(STEPS)}
        (tmp_path / "a.log").write_text(megatron_log(given, count, 1))
        manifest = cli("ingest", "a.log", "--json").document["run"]
        document = json.loads((Path(manifest) / "run.json").read_text())
        logged = document["ingested"]["said"]["padded_vocab_size"]["value"]
        return document["experiment"]["model"].get("vocab_size"), logged

    assert vocabulary(128255, COUNTS["core 0.20"]) == (None, 128256)
    assert vocabulary(128255, COUNTS["core 0.15"]) == (128256, 128256)
    assert vocabulary(32768, "> padded vocab (size: 32769) with 127 dummy tokens (new size: 32896)") == (32768, 32896)
    assert vocabulary(32000, "> padded vocab (size: 32000) with 0 dummy tokens (new size: 32000)") == (32000, 32000)
