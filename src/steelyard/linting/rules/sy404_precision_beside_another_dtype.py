"""A precision is stated beside number formats that contradict it.

Why: MaxText computes in dtype, weight_dtype and quantization; a `precision` of TE_FP8 beside bfloat16 and no
quantization is a bf16 run that is read as FP8, and judged by twice the peak.
Fix: remove `precision`, or set `quantization`.
"""

from steelyard.configs.suite.keys import JAX
from steelyard.configs.suite.megatron import PRECISIONS
from steelyard.linting.rule import Problems, Reading, Rule

RULE = Rule("SY404", "error", on="reading")


def check(reading: Reading) -> Problems:
    stated = reading.params.get("precision")
    if reading.family != JAX or stated is None or stated.value.strip().upper() not in PRECISIONS:
        return
    if PRECISIONS[stated.value.strip().upper()] != reading.content.get("precision", {}).get("fp8"):
        dtype = reading.params["dtype"].value if "dtype" in reading.params else "bfloat16"
        quantization = reading.params["quantization"].value if "quantization" in reading.params else ""
        message = f"precision is {stated.value} and the run takes dtype {dtype}, quantization {quantization!r}"
        fix = 'remove precision, which nothing reads; for FP8 set quantization to "fp8"'
        yield RULE.at(reading, stated, message, fix)
