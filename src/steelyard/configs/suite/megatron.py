"""A Megatron config: the launch script train_llama3.sh of ROCm's images, driven by variables.

The script fixes what a file cannot say: rates, decay, betas, initial weights, rotary base. Those are the values of
ROCm/Megatron-LM's examples/llama/train_llama3.sh, and of Megatron-LM where the script is silent too.
"""

from steelyard.configs.suite.draft import Draft
from steelyard.experiment.problems import WRONG_VALUE, shown
from steelyard.experiment.sources import Origin, Source
from steelyard.frameworks.megatron.script import FIXED, SCRIPT

SOURCE = Source(Origin.SCRIPT, SCRIPT)
SIZES = ("8", "70")
"""What the script's MODEL_SIZE may be."""

PRECISIONS = {"TE_BF16": None, "TE_FP8": "hybrid"}
"""Names of precision and the FP8 format each means; the script always passes --bf16."""


def translate(draft: Draft) -> None:
    """Fill the draft with what the file says and what the script adds."""
    params, config = draft.params, draft.config
    draft.put_all(FIXED, SOURCE)
    steps = config.get("training_iterations", required=True)
    draft.put("training.steps", steps.value if steps else 1, steps.path if steps else ("config", "training_iterations"))
    for name, dotted in (
        ("micro_batch_size", "training.micro_batch_size"),
        ("sequence_length", "training.sequence_length"),
    ):
        draft.take(name, dotted, required=True)
    batch = "global_batch_size" if "global_batch_size" in params and "batch_size" not in params else "batch_size"
    draft.take(batch, "training.global_batch_size", required=True)
    tensor = draft.take("tensor_parallelism", "parallelism.tensor_parallel_size") or 1
    pipeline = draft.take("pipeline_parallelism", "parallelism.pipeline_parallel_size") or 1
    if recompute := params.get("recompute"):
        draft.put("training.recompute", "full" if recompute.value else "none", recompute.path)
    _sharding(draft, tensor, pipeline)
    _precision(draft)
    if (tokenizer := params.get("tokenizer_model", required=True)) and tokenizer.value:
        draft.put("data.tokenizer", tokenizer.value, tokenizer.path)
        draft.put("data.tokenizer_type", "HuggingFaceTokenizer", source=SOURCE)
    mock = config.value("mock_data")
    source = "tokens" if mock is False else "counting"
    draft.put(
        "data.source",
        source,
        ("config", "mock_data") if mock is not None else None,
        None if mock is not None else SOURCE,
    )
    draft.platform["script"] = SCRIPT
    draft.platform["root"] = config.value("megatron_root")
    if debug := config.value("nccl_debug"):
        draft.platform["env"] = {"NCCL_DEBUG": debug}
    _size(draft)


def _sharding(draft: Draft, tensor: int, pipeline: int) -> None:
    fsdp = draft.params.get("fsdp")
    on = bool(fsdp and fsdp.value)
    draft.put_all(
        {
            "parallelism.sequence_parallel": tensor > 1 and not on,
            "parallelism.distributed_optimizer": not on,
            "parallelism.overlap_param_gather": not on,
        },
        SOURCE,
    )
    if on:
        assert fsdp is not None
        replicas = draft.world_size // (tensor * pipeline) if tensor * pipeline > 0 else 1
        draft.put("parallelism.fsdp_size", max(1, replicas), fsdp.path)


def _precision(draft: Draft) -> None:
    """An unknown name is lint's to ask about; until then the script's bf16 stands."""
    found = draft.params.get("precision", required=True)
    if found is not None:
        draft.put("precision.fp8", PRECISIONS.get(found.value.strip().upper()), found.path)


def _size(draft: Draft) -> None:
    found = draft.params.get("model_size", required=True)
    if found is not None and found.value not in SIZES:
        draft.report.add(
            WRONG_VALUE,
            found.path,
            f"model_size is {shown(found.value)}",
            f"write {' or '.join(SIZES)}, the sizes {SCRIPT} knows",
            found.value,
            f"one of {', '.join(SIZES)}",
        )
