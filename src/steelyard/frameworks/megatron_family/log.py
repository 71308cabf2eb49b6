"""The step line that Megatron-LM and its descendants print."""

import re

from steelyard.frameworks.logs.dialect import Dialect
from steelyard.frameworks.logs.fields import Field
from steelyard.frameworks.megatron_family.arguments import Arguments

_TFLOPS, _RATE = Field("reported_tflops_per_gpu"), Field("reported_tokens_per_s_per_gpu")

FIELDS = {
    b"elapsed time per iteration (ms)": Field("step_time_s", 1000.0),
    b"elapsed time per iteration (s)": Field("step_time_s"),
    b"throughput per GPU (TFLOP/s/GPU)": _TFLOPS,
    b"throughput per GPU": _TFLOPS,
    b"compute per GPU (TFLOP/s/GPU)": _TFLOPS,
    b"TFLOPs": _TFLOPS,
    b"tokens per GPU (tokens/s/GPU)": _RATE,
    b"tokens/s/GPU inst/harmonic mean": _RATE,
    b"tokens per gpu per second (tgs)": _RATE,
    b"Tokens per second per GPU (Tok/s/GPU)": _RATE,
    b"tokens/GPU/s": _RATE,
    b"learning rate": Field("learning_rate"),
    b"global batch size": Field("global_batch_size"),
    b"consumed samples": Field("consumed_samples"),
    b"lm loss": Field("loss"),
    b"grad norm": Field("grad_norm"),
    b"number of skipped iterations": Field("skipped"),
    b"actual seqlen": Field("sequence_length"),
    b"seq_length": Field("sequence_length"),
    b"mem usages": Field("memory_fraction"),
    b"hip mem usage/free/total/usage_ratio": Field("memory_gib"),
}
"""Labels of every version and fork; what is not here is passed over."""

MICROSECONDS = re.compile(rb"\d\d:\d\d:\d\d\.\d{6}\]")
"""Before a step line of core 0.16 or newer."""

WORDS = (rb"iteration\s*\d*\s*/", rb" \.{2,} ", rb"end of arguments", rb"-- arguments")
"""Of step lines, and of the dump of arguments."""

BASE = Dialect(
    name="megatron-family",
    framework="",
    opening=rb"(?:^|\] ?|: )\s*iteration\s+\d+\s*/",
    words=WORDS,
    dump=Arguments,
    mark=re.compile(rb"(?<!, )\biteration\s+(?P<step>\d{1,12})\s*/\s*(?P<total>\d{1,12})\s*(?=\|)"),
    separator=b"|",
    fields=FIELDS,
    last_field=b"number of nan iterations",
    required=("step_time_s",),
    absent_loss_is_nan=True,
)
"""What each of them prints alike; its own module says the rest."""
