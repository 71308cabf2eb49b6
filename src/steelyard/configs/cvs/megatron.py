"""Reads a Megatron config: it configures the launch script train_llama3.sh of ROCm's images through variables.

The script fixes what a file cannot set: learning rates, decay, betas, initial weights, rotary base. The values are from
examples/llama/train_llama3.sh of ROCm/Megatron-LM, and from Megatron-LM where the script sets nothing.
"""

from steelyard.configs.cvs.draft import Draft
from steelyard.experiment.sources import Origin, Source
from steelyard.frameworks.megatron.script import FIXED, SCRIPT

SOURCE = Source(Origin.SCRIPT, SCRIPT)
SIZES = ("8", "70")
"""Values of MODEL_SIZE that the script supports."""

PRECISIONS = {"TE_BF16": None, "TE_FP8": "hybrid"}
"""Names of precisions and their FP8 format; the script always passes --bf16."""


def translate(draft: Draft) -> None:
    params, config = draft.params, draft.config
    draft.put_all(FIXED, SOURCE)
    draft.take_steps("training_iterations")
    draft.take("micro_batch_size", required=True)
    draft.take("sequence_length", required=True)
    other_name = "global_batch_size" in params and "batch_size" not in params
    draft.take("global_batch_size" if other_name else "batch_size", required=True)
    tensor = draft.take("tensor_parallelism") or 1
    pipeline = draft.take("pipeline_parallelism") or 1
    draft.take("recompute", meaning=lambda on: "full" if on else "none")
    _sharding(draft, tensor, pipeline)
    # SY403 reports an unknown precision; until it is corrected, the script uses bf16.
    draft.take("precision", required=True, meaning=lambda name: PRECISIONS.get(name.strip().upper()))
    if (tokenizer := params.get("tokenizer_model", required=True)) and tokenizer.value:
        draft.put("data.tokenizer", tokenizer.value, tokenizer.path)
        draft.put("data.tokenizer_type", "HuggingFaceTokenizer", SOURCE)
    mock = config.get("mock_data")
    draft.put("data.source", "tokens" if mock and not mock.value else "counting", mock.path if mock else SOURCE)
    draft.platform["script"] = SCRIPT
    _check_script(draft)
    draft.platform["root"] = config.value("megatron_root")
    if debug := config.value("nccl_debug"):
        draft.platform["env"] = {"NCCL_DEBUG": debug}
    size = params.get("model_size", required=True)
    if size is not None and size.value not in SIZES:
        fix = f"write {' or '.join(SIZES)}, the sizes that {SCRIPT} supports"
        draft.report.wrong(size.path, size.value, f"one of {', '.join(SIZES)}", fix)


def _check_script(draft: Draft) -> None:
    """Report a launch script that the suite would start for this tokenizer and that a plan cannot."""
    scripts, tokenizer = draft.config.get("training_scripts"), draft.params.get("tokenizer_model")
    if scripts is None or tokenizer is None:
        return
    patterns = {name: path for name, path in scripts.value.items() if not name.startswith("_")}
    chosen = next((name for name in patterns if name.lower() in tokenizer.value.lower()), None)
    if chosen is not None and str(patterns[chosen]).rpartition("/")[2] != SCRIPT:
        path, name = (*scripts.path, chosen), f"training_scripts.{chosen}"
        draft.report.wrong(path, patterns[chosen], f"a path of {SCRIPT}", "use a tokenizer of Llama 3", name)


def _sharding(draft: Draft, tensor: int, pipeline: int) -> None:
    fsdp = draft.params.get("fsdp")
    sharded = bool(fsdp and fsdp.value)
    draft.put("parallelism.sequence_parallel", tensor > 1 and not sharded, SOURCE)
    draft.put("parallelism.distributed_optimizer", not sharded, SOURCE)
    draft.put("parallelism.overlap_param_gather", not sharded, SOURCE)
    if fsdp and sharded:
        replicas = draft.world_size // (tensor * pipeline) if tensor * pipeline > 0 else 1
        draft.put("parallelism.fsdp_size", max(1, replicas), fsdp.path)
