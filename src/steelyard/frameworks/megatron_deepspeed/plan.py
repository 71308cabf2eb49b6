"""Megatron-DeepSpeed: pretrain_gpt.py with torchrun and a planned ds_config.json."""

from collections.abc import Iterator
from typing import Any

from steelyard.experiment import Experiment, Parallelism
from steelyard.experiment.case import Case
from steelyard.frameworks.megatron_deepspeed.facts import FACTS
from steelyard.frameworks.megatron_family import plan as family
from steelyard.frameworks.planner import Command, Node, Planner, Refusal, layout_of, option_refusals, refuse

ROOT = "/workspace/Megatron-DeepSpeed"
CONFIG_FILE = "ds_config.json"
GPT2_FILES = "examples_deepspeed/rebase"
"""Folder of GPT-2's vocabulary in the repository."""

GPT2_TOKENIZER = "GPT2BPETokenizer"


class MegatronDeepSpeed(Planner):
    def refusals(self, case: Case) -> Iterator[Refusal]:
        experiment = case.resolved.experiment
        for refusal in family.family_refusals(experiment, FACTS.name):
            if refusal.key not in ("data.source", "parallelism.overlap_param_gather"):  # stricter below
                yield refusal
        yield from family.seed_refusals(experiment, "Megatron-DeepSpeed")
        yield from family.data_seed_refusals(experiment, "Megatron-DeepSpeed")
        if experiment.model.rope_scaling is not None:
            yield refuse(
                "model.rope_scaling", "set", ", but Megatron-DeepSpeed does not scale rotary frequencies", None
            )
        if experiment.model.architecture == "llama" and experiment.model.qkv_bias:
            reason = ", but Megatron-DeepSpeed has a bias in all projections or in none"
            yield refuse("model.qkv_bias", True, reason, False)
        yield from _parallelism_refusals(case)
        yield from _zero_refusals(case)
        yield from _kernel_refusals(experiment)
        if experiment.data.source != "tokens":
            reason = ", but Megatron-DeepSpeed does not generate data"
            yield refuse("data.source", experiment.data.source, reason, "tokens")
        yield from option_refusals(case.resolved.platform.options, FACTS.own_names(), "Megatron-DeepSpeed")

    def variables(self, case: Case, node: Node) -> dict[str, str]:
        return {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}  # needed for Megatron's sequence parallelism

    def command(self, case: Case, node: Node) -> Command:
        argv = [*family.torchrun(case, node), "pretrain_gpt.py", *arguments(case, node)]
        root = case.resolved.platform.root or ROOT
        return Command(argv, self.variables(case, node), {CONFIG_FILE: ds_config(case)}, root)


def arguments(case: Case, node: Node) -> list[str]:
    """Arguments of pretrain_gpt.py: all values of the experiment, even its defaults."""
    experiment = case.resolved.experiment
    stated = {
        **_model(experiment),
        **family.training_arguments(experiment, FACTS),
        "--deepspeed-activation-checkpointing": experiment.training.recompute == "full",
        **_parallelism(experiment),
        **_precision(experiment),
        **_kernels(experiment),
        **_data(case),
        **{"--log-interval": 1, "--eval-iters": 0, "--eval-interval": 1000000},
        **family.output_arguments(experiment, node),
        **{"--deepspeed": True, "--deepspeed_config": f"{node.run_dir}/{CONFIG_FILE}"},
        "--zero-stage": zero_stage(experiment.parallelism),
    }
    # Unchanged: some of its flags have underscores.
    options = {f"--{name}": value for name, value in case.resolved.platform.options.items()}
    return [*family.flags(stated), *family.flags(options)]


def zero_stage(parallelism: Parallelism) -> int:
    """The ZeRO stage: what is sharded over data-parallel ranks."""
    return 3 if parallelism.fsdp_size > 1 else 1 if parallelism.distributed_optimizer else 0


def ds_config(case: Case) -> dict[str, Any]:
    """DeepSpeed's file; it must agree with the arguments."""
    experiment = case.resolved.experiment
    training, sizes, precision = experiment.training, experiment.parallelism, experiment.precision
    layout = layout_of(case)
    gradients = "fp32" if precision.grad_reduce_in_fp32 else precision.dtype
    return {
        "train_batch_size": training.global_batch_size,
        "train_micro_batch_size_per_gpu": training.micro_batch_size,
        "gradient_accumulation_steps": layout.gradient_accumulation_steps,
        "gradient_clipping": training.clip_grad_norm or 0.0,  # its own default is 0, which is off
        "prescale_gradients": False,
        "communication_data_type": gradients,
        "seq_parallel_comm_data_type": gradients,
        "data_types": {"grad_accum_dtype": gradients},
        "zero_optimization": {"stage": zero_stage(sizes), "overlap_comm": sizes.overlap_grad_reduce},
        "fp16": {
            "enabled": precision.dtype == "fp16",
            "loss_scale": 0,  # dynamic
            "initial_scale_power": 16,
            "loss_scale_window": 1000,
            "hysteresis": 2,
            "min_loss_scale": 1,
        },
        "bf16": {"enabled": precision.dtype == "bf16"},
        "steps_per_print": 1,
        "wall_clock_breakdown": False,
    }


def _model(experiment: Experiment) -> dict[str, Any]:
    model = experiment.model
    sizes = ("num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    kind: dict[str, Any] = {"--normalization": "layernorm"}
    if model.architecture == "llama":
        kind = {"--normalization": "rmsnorm", "--swiglu": True, "--disable-bias-linear": True}
        kind["--use-rotary-position-embeddings"] = True
        kind["--rotary-position-embeddings-theta"] = f"{model.rope_theta:.0f}"
    return {
        **FACTS.stated(experiment, "model", *sizes, "max_position_embeddings", "norm_epsilon"),
        **{"--make-vocab-size-divisible-by": 128, "--hidden-dropout": 0.0, "--attention-dropout": 0.0},
        **kind,
        "--untie-embeddings-and-output-weights": not model.tied_embeddings,
    }


def _parallelism(experiment: Experiment) -> dict[str, Any]:
    return {
        **FACTS.stated(experiment, "parallelism", "tensor_parallel_size", "pipeline_parallel_size"),
        # Otherwise DeepSpeed's pipeline engine runs the single stage.
        "--no-pipeline-parallel": experiment.parallelism.pipeline_parallel_size == 1,
        **FACTS.stated(experiment, "parallelism", "context_parallel_size", "sequence_parallel"),
    }


def _precision(experiment: Experiment) -> dict[str, Any]:
    precision = experiment.precision
    # Scaling keeps scores within the range of fp16; other formats do not need its rounding.
    plain_scores = precision.dtype != "fp16"
    implementation: dict[str, Any] = {"--transformer-impl": "local"}
    if precision.fp8 is not None:
        implementation = {"--transformer-impl": "transformer_engine", f"--fp8-{precision.fp8}": True}
        implementation |= {"--fp8-amax-history-len": 1024, "--fp8-amax-compute-algo": "max"}
    return {
        f"--{precision.dtype}": precision.dtype != "fp32",
        "--no-query-key-layer-scaling": plain_scores,
        "--attention-softmax-in-fp32": plain_scores,
        **implementation,
        "--fp32-residual-connection": precision.fp32_residual_connection,
    }


def _kernels(experiment: Experiment) -> dict[str, Any]:
    fusions = ("bias_activation_fusion", "bias_dropout_fusion", "masked_softmax_fusion", "persist_layer_norm")
    switches = FACTS.stated(experiment, "kernels", *fusions, "gradient_accumulation_fusion")
    return {
        **{flag: requested is False for flag, requested in switches.items()},
        "--use-flash-attn-v2": experiment.kernels.use_flash_attn,
    }


def _data(case: Case) -> dict[str, Any]:
    experiment, data = case.resolved.experiment, case.resolved.experiment.data
    if data.tokenizer_type == GPT2_TOKENIZER:
        folder = GPT2_FILES if data.tokenizer in (None, "gpt2") else data.tokenizer
        tokenizer = {"--tokenizer-type": GPT2_TOKENIZER, "--vocab-file": f"{folder}/gpt2-vocab.json"}
        tokenizer["--merge-file"] = f"{folder}/gpt2-merges.txt"
    elif data.tokenizer is None:  # NullTokenizer adds an end-of-document token
        tokenizer = {"--tokenizer-type": "NullTokenizer", "--vocab-size": str(experiment.model.vocab_size - 1)}
    else:
        hugging_face = data.tokenizer_type in (None, "HuggingFaceTokenizer")
        kind = "HFTokenizer" if hugging_face else str(data.tokenizer_type)
        tokenizer = {"--tokenizer-type": kind, "--tokenizer-model": data.tokenizer}
    return {
        **{"--data-path": str(data.path), "--data-impl": "mmap", "--split": data.split},
        **{"--dataloader-type": "single", "--num-workers": 8},
        "--data-cache-path": case.resolved.platform.cache_dir,
        **tokenizer,
    }


def _parallelism_refusals(case: Case) -> Iterator[Refusal]:
    heads, sizes = case.resolved.experiment.model.num_attention_heads, case.resolved.experiment.parallelism
    if sizes.overlap_param_gather:
        yield refuse("parallelism.overlap_param_gather", True, ", but DeepSpeed has no setting for it", False)
    if sizes.context_parallel_size == 1:
        return
    for key in ("tensor_parallel_size", "pipeline_parallel_size"):
        if getattr(sizes, key) > 1:
            reason = ", but DeepSpeed splits sequences (context_parallel_size) only if it is 1"
            yield refuse(f"parallelism.{key}", getattr(sizes, key), reason, 1)
    if heads % sizes.context_parallel_size:
        reason = f", but DeepSpeed distributes {heads} whole heads over the ranks of a sequence"
        yield refuse("parallelism.context_parallel_size", sizes.context_parallel_size, reason, 1)


def _zero_refusals(case: Case) -> Iterator[Refusal]:
    experiment = case.resolved.experiment
    sizes, precision = experiment.parallelism, experiment.precision
    stage = zero_stage(sizes)
    ranks = case.placement.world_size // (sizes.tensor_parallel_size * sizes.pipeline_parallel_size)
    if stage == 3 and sizes.fsdp_size != ranks:
        reason = ", but ZeRO 3 shards over all data-parallel ranks"
        yield refuse("parallelism.fsdp_size", sizes.fsdp_size, reason, ranks)
    if stage == 3 and sizes.pipeline_parallel_size > 1:
        reason = ", but DeepSpeed's pipelines do not support ZeRO 3"
        yield refuse("parallelism.fsdp_size", sizes.fsdp_size, reason, 1)
    if stage == 0 and sizes.overlap_grad_reduce:
        reason = ", but DeepSpeed overlaps only with ZeRO (distributed_optimizer)"
        yield refuse("parallelism.overlap_grad_reduce", True, reason, False)
    unfit = {"bf16": False, "fp16": True}.get(precision.dtype)
    if stage == 0 and precision.grad_reduce_in_fp32 is unfit:
        reason = f", but without ZeRO (distributed_optimizer) DeepSpeed supports only the other for {precision.dtype}"
        yield refuse("precision.grad_reduce_in_fp32", unfit, reason, not unfit)


def _kernel_refusals(experiment: Experiment) -> Iterator[Refusal]:
    kernels, split = experiment.kernels, experiment.parallelism.context_parallel_size > 1
    if experiment.training.recompute == "selective" and (kernels.use_flash_attn or split):
        reason = ", but it has no effect with flash attention or split sequences"
        yield refuse("training.recompute", "selective", reason, "full")
    implementation = "local" if experiment.precision.fp8 is None else "transformer_engine"
    if kernels.transformer_impl not in (None, implementation):
        reason = ", but Megatron-DeepSpeed is planned with transformer_engine for fp8, and with local otherwise"
        yield refuse("kernels.transformer_impl", kernels.transformer_impl, reason, implementation)
    for key in ("apply_rope_fusion", "cross_entropy_loss_fusion"):
        if getattr(kernels, key):
            yield refuse(f"kernels.{key}", True, ", but Megatron-DeepSpeed does not have this kernel", None)
    yield from family.turbo_refusals(kernels)
    for key in ("nvte_fused_attn", "nvte_flash_attn"):
        if getattr(kernels, key) is not None:
            reason = ", but Megatron-DeepSpeed does not use Transformer Engine's attention"
            yield refuse(f"kernels.{key}", getattr(kernels, key), reason, None)


PLANNER = MegatronDeepSpeed()
