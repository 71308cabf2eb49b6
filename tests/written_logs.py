"""Logs in the real formats, written from the format strings, with figures that agree unless a test changes them."""

import math
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

ARGUMENTS: Mapping[str, Any] = {
    "add_qkv_bias": False,
    "bf16": True,
    "clip_grad": 1.0,
    "context_parallel_size": 1,
    "data_parallel_size": 8,
    "data_path": ["/data/c4_text_document"],
    "ffn_hidden_size": 14336,
    "fp16": False,
    "fp8": None,
    "global_batch_size": 128,
    "group_query_attention": True,
    "hidden_size": 4096,
    "init_method_std": 0.02,
    "kv_channels": 128,
    "log_interval": 1,
    "max_position_embeddings": 8192,
    "micro_batch_size": 2,
    "mock_data": False,
    "normalization": "RMSNorm",
    "num_attention_heads": 32,
    "num_experts": None,
    "num_layers": 32,
    "num_query_groups": 8,
    "padded_vocab_size": 128256,
    "pipeline_model_parallel_size": 1,
    "position_embedding_type": "rope",
    "recompute_granularity": None,
    "rotary_base": 500000,
    "seed": 1234,
    "seq_length": 8192,
    "swiglu": True,
    "tensor_model_parallel_size": 1,
    "train_iters": 40,
    "untie_embeddings_and_output_weights": True,
    "vocab_size": 128256,
    "world_size": 8,
}
"""Llama 3.1 8B at 8192 tokens on eight GPUs, as Megatron-Core prints it."""
FLOPS_PER_TOKEN = 51.470e9
"""Its causal count."""


def falling(step: int) -> float:
    """A loss from 12.58 towards 6, with the noise of a batch."""
    return 6.0 + 6.58 * math.exp(-(step - 1) / 20) + random.Random(step).gauss(0, 0.004)


def megatron(
    steps: int = 40,
    *,
    arguments: Mapping[str, Any] = ARGUMENTS,
    without: Iterable[str] = (),
    loss: Callable[[int], float] = falling,
    grad_norm: Callable[[int], float] = lambda step: 0.8 + 7 * math.exp(-step / 10),
    seconds: Callable[[int], float] = lambda step: 15.2 + 0.05 * math.sin(step),
    flops_per_token: Callable[[int], float] = lambda step: FLOPS_PER_TOKEN,
) -> str:
    """A whole log of Megatron-Core 0.13 to 0.15."""
    given = {**arguments, "train_iters": steps}
    tokens = given["global_batch_size"] * given["seq_length"] / given["world_size"]
    lines = ["------------------------ arguments ------------------------"]
    for name in sorted(given.keys() - set(without)):
        lines.append(f"  {name} {'.' * (49 - len(name))} {given[name]}")
    lines.append("-------------------- end of arguments ---------------------")
    lines.append("[before the start of training step] datetime: 2025-06-02 07:00:00 ")
    now = 7 * 3600.0
    for step in range(1, steps + 1):
        took = seconds(step) * (4 if step == 1 else 1)
        now += took
        clock = f"{int(now) // 3600:02d}:{int(now) // 60 % 60:02d}:{int(now) % 60:02d}"
        lines.append(
            f" [2025-06-02 {clock}] iteration {step:8d}/{steps:8d} |"
            f" consumed samples: {step * given['global_batch_size']:12d} |"
            f" elapsed time per iteration (ms): {took * 1000:.1f} |"
            f" throughput per GPU (TFLOP/s/GPU): {flops_per_token(step) * tokens / took / 1e12:.1f} |"
            f" learning rate: {3e-4 * min(1, step / 4):.6E} |"
            f" global batch size: {given['global_batch_size']:5d} | lm loss: {loss(step):.6E} |"
            f" loss scale: 1.0 | grad norm: {grad_norm(step):.3f} |"
            " number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
    return "\n".join([*lines, "[after training is done] datetime: 2025-06-02 09:11:12 ", ""])


def nemo(
    steps: int = 60,
    *,
    every: int = 10,
    seconds: Callable[[int], float] = lambda step: 17.0 + 1.5 * math.sin(step),
    flops_per_token: float = FLOPS_PER_TOKEN,
) -> str:
    """NeMo 2 on eight GPUs: TFLOPS_per_GPU is a mean over `every` steps, and is printed again until the next one."""
    lines, mean, times = [], "", list[float]()
    for step in range(steps):
        took = seconds(step) * (2 if step == 0 else 1)
        times.append(took)
        rate = 128 * 8192 / 8 / took
        if (step + 1) % every == 0:
            tflops = flops_per_token * 128 * 8192 / 8 / (sum(times) / len(times)) / 1e12
            mean, times = f" | TFLOPS_per_GPU: {tflops:.4}", []
        lines.append(
            f"Training epoch 0, iteration {step}/{steps - 1} | lr: 0.0003 | global_batch_size: 128 |"
            f" global_step: {step} | reduced_train_loss: {falling(step + 1):.4} | train_step_timing in s: {took:.4} |"
            f" tokens_per_sec_per_gpu: {rate:.4}{mean} | consumed_samples: {128 * (step + 1)}"
        )
    return "\n".join([*lines, f"`Trainer.fit` stopped: `max_steps={steps}` reached.", ""])
