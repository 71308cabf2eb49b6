"""The logs of one experiment on two platforms: GPT-3 6.7B by Megatron-DeepSpeed on eight H100 80GB and eight MI300X.

Micro batches of 4, 8 and 16, three runs each. The H100 runs out of memory at 16. The figures are invented, but those of
a log agree: rates by the framework's own formulas, memory by what the model and its activations need.
"""

import math
import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

PLATFORMS = ("h100", "mi300x")
MICRO_BATCHES = (4, 8, 16)
RUNS = (1, 2, 3)
STEPS, GPUS, GLOBAL_BATCH, LENGTH = 40, 8, 256, 2048
LAYERS, HIDDEN, VOCABULARY, PADDED = 32, 4096, 50257, 50432
PEAK_RATE, WARMUP = 1.2e-4, 10

TOKENS_PER_S: Mapping[tuple[str, int], float] = {
    ("h100", 4): 9020.0,
    ("h100", 8): 9640.0,
    ("mi300x", 4): 9610.0,
    ("mi300x", 8): 10420.0,
    ("mi300x", 16): 11050.0,
}
"""Per GPU; a cell that is missing runs out of memory."""
MEMORY_GIB: Mapping[tuple[str, int], float] = {
    ("h100", 4): 45.83,
    ("h100", 8): 62.97,
    ("mi300x", 4): 46.11,
    ("mi300x", 8): 63.42,
    ("mi300x", 16): 97.60,
}
BETWEEN_RUNS, BETWEEN_STEPS = 0.005, 0.003
"""Standard deviations of rates, as shares."""

FLOPS_PER_TOKEN = 6 * (LAYERS * (4 * HIDDEN**2 + 8 * HIDDEN**2) + 2 * LAYERS * HIDDEN * LENGTH + HIDDEN * PADDED)
"""As Megatron-DeepSpeed counts it, without recomputation."""
_FIRST_LOSS = math.log(PADDED) + HIDDEN * 0.006**2 / 2

_ARGUMENTS: Mapping[str, object] = {
    "accumulate_allreduce_grads_in_fp32": False,
    "adam_beta1": 0.9,
    "adam_beta2": 0.95,
    "adam_eps": 1e-08,
    "add_bias_linear": True,
    "attention_dropout": 0.0,
    "bf16": False,
    "clip_grad": 1.0,
    "consumed_train_samples": 0,
    "data_parallel_size": 4,
    "data_path": ["/data/pile_text_document"],
    "deepspeed": True,
    "ds_sequence_parallel_size": 1,
    "ffn_hidden_size": 4 * HIDDEN,
    "fp16": True,
    "fp32_residual_connection": False,
    "fp8_e4m3": False,
    "fp8_hybrid": False,
    "global_batch_size": GLOBAL_BATCH,
    "hidden_dropout": 0.0,
    "hidden_size": HIDDEN,
    "init_method_std": 0.006,
    "kv_channels": 128,
    "layernorm_epsilon": 1e-05,
    "log_interval": 1,
    "lr": PEAK_RATE,
    "lr_decay_iters": None,
    "lr_decay_style": "cosine",
    "lr_warmup_iters": WARMUP,
    "make_vocab_size_divisible_by": 128,
    "max_position_embeddings": LENGTH,
    "micro_batch_size": 4,
    "min_lr": 1e-06,
    "normalization": "layernorm",
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "num_layers": LAYERS,
    "optimizer": "adam",
    "params_dtype": "torch.float16",
    "pipeline_model_parallel_size": 1,
    "rank": 0,
    "recompute_granularity": None,
    "seed": 1234,
    "seq_length": LENGTH,
    "sequence_parallel": True,
    "swiglu": False,
    "tensor_model_parallel_size": 2,
    "tokenizer_type": "GPT2BPETokenizer",
    "train_iters": STEPS,
    "untie_embeddings_and_output_weights": False,
    "use_flash_attn_v2": True,
    "use_rotary_position_embeddings": False,
    "weight_decay": 0.1,
    "world_size": GPUS,
    "zero_stage": 1,
}


def fits(platform: str, micro_batch: int) -> bool:
    return (platform, micro_batch) in TOKENS_PER_S


def write(folder: Path, name: str = "{platform}/gpt3-6.7b_mbs{micro_batch}_run{run}.log") -> list[Path]:
    """Write the 18 logs, and return their paths."""
    paths = []
    for platform in PLATFORMS:
        for micro_batch in MICRO_BATCHES:
            for run in RUNS:
                paths.append(folder / name.format(platform=platform, micro_batch=micro_batch, run=run))
                paths[-1].parent.mkdir(parents=True, exist_ok=True)
                paths[-1].write_text(log(platform, micro_batch, run))
    return paths


def log(platform: str, micro_batch: int, run: int = 1, steps: int = STEPS) -> str:
    """One log; of a cell that does not fit, it ends before the first step."""
    draw = random.Random(f"{platform} {micro_batch} {run}")
    now = datetime(2026, 1, 20, 8) + timedelta(hours=run, minutes=10 * MICRO_BATCHES.index(micro_batch))
    lines = _start(micro_batch, steps, now)
    if not fits(platform, micro_batch):
        return "\n".join([*lines, *_out_of_memory(platform, micro_batch, now), ""])
    mean = TOKENS_PER_S[platform, micro_batch] * (1 + draw.gauss(0, BETWEEN_RUNS))
    memory = MEMORY_GIB[platform, micro_batch] + draw.gauss(0, 0.05)
    for step in range(1, steps + 1):
        rate = mean * (1 + draw.gauss(0, BETWEEN_STEPS)) / (4 if step == 1 else 1)
        took = GLOBAL_BATCH * LENGTH / GPUS / rate
        now += timedelta(seconds=took)
        if step % 10 == 0:
            samples = GLOBAL_BATCH / took
            lines.append(
                f"{_stamp(now)} [INFO] [timer.py:260:stop] epoch=0/micro_step={step * _accumulated(micro_batch)}"
                f"/global_step={step}, RunningAvgSamplesPerSec={samples:.6f}, CurrSamplesPerSec={samples:.6f}, "
                f"MemAllocated={memory / 2:.2f}GB, MaxMemAllocated={memory:.2f}GB"
            )
        lines.append(_step(step, steps, took, draw))
    return "\n".join([*lines, f"[after training is done] datetime: {now:%Y-%m-%d %H:%M:%S} ", ""])


def _accumulated(micro_batch: int) -> int:
    return GLOBAL_BATCH // micro_batch // 4


def _stamp(now: datetime) -> str:
    return f"[{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}]"


def _start(micro_batch: int, steps: int, now: datetime) -> list[str]:
    """What the program prints before its first step."""
    given = {**_ARGUMENTS, "micro_batch_size": micro_batch, "train_iters": steps}
    return [
        f"{_stamp(now)} [INFO] [comm.py:637:init_distributed] cdb=None",
        "using world size: 8, data-parallel-size: 4, sequence-parallel size: 1, tensor-model-parallel size: 2, "
        "pipeline-model-parallel size: 1 ",
        "------------------------ arguments ------------------------",
        *(f"  {name} {'.' * (48 - len(name))} {value}" for name, value in sorted(given.items())),
        "-------------------- end of arguments ---------------------",
        f"setting number of micro-batches to constant {_accumulated(micro_batch)}",
        "> building GPT2BPETokenizer tokenizer ...",
        f" > padded vocab (size: {VOCABULARY}) with {PADDED - VOCABULARY} dummy tokens (new size: {PADDED})",
        f"{_stamp(now)} [INFO] [logging.py:96:log_dist] [Rank 0] DeepSpeed info: version=0.14.4, git-hash=unknown",
        f"{_stamp(now)} [INFO] [logging.py:96:log_dist] [Rank 0] Creating fp16 ZeRO stage 1 optimizer",
        f"[before the start of training step] datetime: {now:%Y-%m-%d %H:%M:%S} ",
    ]


def _step(step: int, steps: int, took: float, draw: random.Random) -> str:
    """The line of one step; its figures are those of one time."""
    rate = GLOBAL_BATCH * LENGTH / GPUS / took
    learning_rate = PEAK_RATE * min(1.0, step / WARMUP)
    loss = 6.4 + (_FIRST_LOSS - 6.4) * math.exp(-(step - 1) / 18) + draw.gauss(0, 0.004)
    return (
        f" iteration {step:8d}/{steps:8d} | consumed samples: {step * GLOBAL_BATCH:12d} |"
        f" consumed tokens: {step * GLOBAL_BATCH * LENGTH:12d} |"
        f" elapsed time per iteration (ms): {1000 * took:.1f} | learning rate: {learning_rate:.3E} |"
        f" global batch size: {GLOBAL_BATCH:5d} | lm loss: {loss:.6E} | loss scale: 65536.0 |"
        f" grad norm: {0.6 + 2.4 * math.exp(-step / 9) + draw.gauss(0, 0.01):.3f} | actual seqlen: {LENGTH:5d} |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |"
        f" samples per second: {GLOBAL_BATCH / took:.3f} | tokens per gpu per second (tgs): {rate:.3f} |"
        f" TFLOPs: {FLOPS_PER_TOKEN * rate / 1e12:.2f} |"
    )


def _out_of_memory(platform: str, micro_batch: int, now: datetime) -> list[str]:
    """The end of a run that does not fit."""
    device, total = {"h100": ("CUDA", 79.11), "mi300x": ("HIP", 191.98)}[platform]
    return [
        "Traceback (most recent call last):",
        '  File "/workspace/Megatron-DeepSpeed/pretrain_gpt.py", line 356, in <module>',
        "    pretrain(train_valid_test_datasets_provider,",
        '  File "/workspace/Megatron-DeepSpeed/megatron/training.py", line 236, in pretrain',
        "    iteration = train(forward_step_func,",
        f"torch.cuda.OutOfMemoryError: {device} out of memory. Tried to allocate {micro_batch / 8:.2f} GiB. "
        f"GPU 0 has a total capacity of {total:.2f} GiB of which 1.02 GiB is free. Including non-PyTorch memory, this "
        f"process has {total - 1.02:.2f} GiB memory in use.",
        f"{_stamp(now)} [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', '-u', 'pretrain_gpt.py', "
        "'--local_rank=7'] exits with return code = 1",
    ]
