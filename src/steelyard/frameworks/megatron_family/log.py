"""The step line of Megatron-LM and the frameworks based on it."""

import re

from steelyard.frameworks.logs.dialect import Dialect
from steelyard.frameworks.logs.fields import Field
from steelyard.frameworks.megatron_family.arguments import Arguments

_TFLOPS, _RATE = Field("reported_tflops_per_gpu"), Field("reported_tokens_per_s_per_gpu")
_ANY_FLOPS = Field(
    "reported_tflops_per_gpu",
    units={b"KFLOPS": 1e9, b"MFLOPS": 1e6, b"GFLOPS": 1e3, b"TFLOPS": 1.0, b"PFLOPS": 1e-3},
)

FIELDS = {
    b"elapsed time per iteration (ms)": Field("step_time_s", 1000.0),
    b"elapsed time per iteration (s)": Field("step_time_s"),
    b"throughput per GPU (TFLOP/s/GPU)": _TFLOPS,
    b"throughput per GPU": _TFLOPS,
    b"compute per GPU (TFLOP/s/GPU)": _TFLOPS,
    b"TFLOPs": _TFLOPS,
    b"approx flops per GPU": _ANY_FLOPS,
    b"tokens per GPU (tokens/s/GPU)": _RATE,
    b"tokens/s/GPU inst/harmonic mean": _RATE,
    b"tokens per gpu per second (tgs)": _RATE,
    b"Tokens per second per GPU (Tok/s/GPU)": _RATE,
    b"tokens/GPU/s": _RATE,
    b"learning rate": Field("learning_rate"),
    b"global batch size": Field("global_batch_size"),
    b"consumed samples": Field("consumed_samples"),
    b"lm loss": Field("loss"),
    **dict.fromkeys((b"lm_loss", b"lm-loss", b"loss"), Field("loss", second=True)),
    b"grad norm": Field("grad_norm"),
    b"number of skipped iterations": Field("skipped"),
    b"actual seqlen": Field("sequence_length"),
    b"seq_length": Field("sequence_length"),
    b"mem usages": Field("memory_fraction"),
    b"hip mem usage/free/total/usage_ratio": Field("memory_gib"),
}
"""Labels of all versions and forks; other labels are ignored."""

MICROSECONDS = re.compile(rb"\d\d:\d\d:\d\d\.\d{6}\]")
"""Before a step line of core 0.16 or newer."""

WORDS = (rb"iteration\s*\d*\s*/", rb" \.{2,} ", rb"end of arguments", rb"-- arguments", rb"pretrain_\w*\.py ")
"""Words of step lines and of the dump of arguments."""

BASE = Dialect(
    name="megatron-family",
    framework="",
    opening=rb"(?:^|\] ?|: )\s*iteration\s+\d+\s*/",
    words=WORDS,
    dump=Arguments,
    start=rb"-{3,} arguments -{3,}",
    mark=re.compile(rb"(?<!, )\biteration\s+(?P<step>\d{1,12})\s*/\s*(?P<total>\d{1,12})\s*(?=\|)"),
    separator=b"|",
    fields=FIELDS,
    last_field=b"number of nan iterations",
    required=("step_time_s",),
    absent_loss_is_nan=True,
)
"""The common part; each framework's module adds the rest."""
