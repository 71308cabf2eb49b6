"""`precision` contradicts the number formats of the run.

Why: MaxText reads dtype, weight_dtype and quantization. With `precision` TE_FP8, bfloat16 and no quantization, a bf16
run is taken for FP8 and judged by twice the peak.
Fix: remove `precision`, or set `quantization`.
"""

from steelyard.configs.cvs.keys import JAX
from steelyard.configs.cvs.megatron import PRECISIONS
from steelyard.linting.rule import Edit, Problems, Reading, Rule

RULE = Rule("SY404", "error", on="reading")


def check(reading: Reading) -> Problems:
    stated = reading.params.get("precision")
    if reading.family != JAX or stated is None or stated.value.strip().upper() not in PRECISIONS:
        return
    if PRECISIONS[stated.value.strip().upper()] != reading.content.get("precision", {}).get("fp8"):
        dtype = reading.params["dtype"].value if "dtype" in reading.params else "bfloat16"
        quantization = reading.params["quantization"].value if "quantization" in reading.params else ""
        message = f"precision is {stated.value}, but the run uses dtype {dtype} and quantization {quantization!r}"
        fix = 'remove precision: nothing reads it. For FP8 set quantization to "fp8"'
        yield RULE.at(reading, stated, message, fix, corrections=[Edit(stated.path)])
