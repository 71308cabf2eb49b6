"""Megatron-DeepSpeed: pretrain_gpt.py under torchrun with a planned ds_config.json."""

from collections.abc import Iterator
from typing import Any

from steelyard import accounting
from steelyard.experiment import Experiment, Parallelism
from steelyard.experiment.case import Case
from steelyard.experiment.problems import spelt
from steelyard.frameworks.megatron_deepspeed.facts import FACTS
from steelyard.frameworks.megatron_family.plan import (
    MegatronKin,
    family_refusals,
    one_seed,
    seed_refusals,
    torchrun,
    training_arguments,
)
from steelyard.frameworks.options import option_refusals
from steelyard.frameworks.planner import Command, Node, Refusal

ROOT = "/workspace/Megatron-DeepSpeed"
CONFIG_FILE = "ds_config.json"
GPT2_FILES = "examples_deepspeed/rebase"
"""Where the repository keeps GPT-2's own vocabulary."""

GPT2_TOKENIZER = "GPT2BPETokenizer"


class MegatronDeepSpeed(MegatronKin):
    def refusals(self, case: Case) -> Iterator[Refusal]:
        experiment = case.resolved.experiment
        for refusal in family_refusals(experiment, FACTS.name):
            if refusal.key not in ("data.source", "parallelism.overlap_param_gather"):  # its own are stricter
                yield refusal
        yield from seed_refusals(experiment, "Megatron-DeepSpeed")
        yield from one_seed(experiment, "Megatron-DeepSpeed")
        yield from _model_refusals(experiment)
        yield from _parallelism_refusals(case)
        yield from _zero_refusals(case)
        yield from _kernel_refusals(experiment)
        yield from _data_refusals(experiment)
        yield from option_refusals(case.resolved.platform.options, FACTS.own_names(), "Megatron-DeepSpeed")

    def variables(self, case: Case, node: Node) -> dict[str, str]:
        return {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}  # Megatron's sequence parallelism asks for it

    def command(self, case: Case, node: Node) -> Command:
        argv = [*torchrun(case, node), "pretrain_gpt.py", *arguments(case, node)]
        root = case.resolved.platform.root or ROOT
        return Command(argv, self.variables(case, node), {CONFIG_FILE: ds_config(case)}, root)


def arguments(case: Case, node: Node) -> list[str]:
    """pretrain_gpt.py's arguments: every value of the experiment stated, whatever it would have taken."""
    experiment = case.resolved.experiment
    given = [
        *_model(experiment),
        *training_arguments(experiment),
        *(["--deepspeed-activation-checkpointing"] if experiment.training.recompute == "full" else []),
        *_parallelism(experiment),
        *_precision(experiment),
        *_kernels(experiment),
        *_data(case),
        *_output(experiment, node),
        *("--deepspeed", "--deepspeed_config", f"{node.run_dir}/{CONFIG_FILE}"),
        *("--zero-stage", str(zero_stage(experiment.parallelism))),
    ]
    for name, value in case.resolved.platform.options.items():
        flag = f"--{name}"  # as it stands: some of its flags have underscores
        given += [flag] if value is True else [] if value is False or value is None else [flag, str(value)]
    return given


def zero_stage(parallelism: Parallelism) -> int:
    """DeepSpeed's word for what is sharded over the data-parallel ranks."""
    return 3 if parallelism.fsdp_size > 1 else 1 if parallelism.distributed_optimizer else 0


def ds_config(case: Case) -> dict[str, Any]:
    """DeepSpeed's file; what stands in both must agree with the arguments."""
    experiment = case.resolved.experiment
    training, sizes, precision = experiment.training, experiment.parallelism, experiment.precision
    layout = accounting.layout(training, sizes, case.placement.world_size)
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


def _model(experiment: Experiment) -> Iterator[str]:
    model = experiment.model
    yield from ("--num-layers", str(model.num_layers))
    yield from ("--hidden-size", str(model.hidden_size))
    yield from ("--ffn-hidden-size", str(model.ffn_hidden_size))
    yield from ("--num-attention-heads", str(model.num_attention_heads))
    yield from ("--num-key-value-heads", str(model.num_key_value_heads))
    yield from ("--kv-channels", str(model.head_dim))
    yield from ("--max-position-embeddings", str(model.max_position_embeddings))
    yield from ("--layernorm-epsilon", str(model.norm_epsilon))
    yield from ("--make-vocab-size-divisible-by", "128")
    yield from ("--hidden-dropout", "0.0", "--attention-dropout", "0.0")
    if model.architecture == "llama":
        yield from ("--normalization", "rmsnorm", "--swiglu", "--disable-bias-linear")
        yield from ("--use-rotary-position-embeddings", "--rotary-position-embeddings-theta", f"{model.rope_theta:.0f}")
    else:
        yield from ("--normalization", "layernorm")
    if not model.tied_embeddings:
        yield "--untie-embeddings-and-output-weights"


def _parallelism(experiment: Experiment) -> Iterator[str]:
    sizes = experiment.parallelism
    yield from ("--tensor-model-parallel-size", str(sizes.tensor_parallel_size))
    yield from ("--pipeline-model-parallel-size", str(sizes.pipeline_parallel_size))
    if sizes.pipeline_parallel_size == 1:
        yield "--no-pipeline-parallel"  # else DeepSpeed's pipeline engine runs the one stage
    yield from ("--ds-sequence-parallel-size", str(sizes.context_parallel_size))
    if sizes.sequence_parallel:
        yield "--sequence-parallel"


def _precision(experiment: Experiment) -> Iterator[str]:
    precision = experiment.precision
    if precision.dtype != "fp32":
        yield f"--{precision.dtype}"
    if precision.dtype != "fp16":  # the trick keeps scores inside fp16's range, and only there is it worth its rounding
        yield from ("--no-query-key-layer-scaling", "--attention-softmax-in-fp32")
    if precision.fp8 is not None:
        yield from ("--transformer-impl", "transformer_engine", f"--fp8-{precision.fp8}")
        yield from ("--fp8-amax-history-len", "1024", "--fp8-amax-compute-algo", "max")
    else:
        yield from ("--transformer-impl", "local")
    if precision.fp32_residual_connection:
        yield "--fp32-residual-connection"


def _kernels(experiment: Experiment) -> Iterator[str]:
    kernels = experiment.kernels
    for value, flag in (
        (kernels.bias_activation_fusion, "--no-bias-gelu-fusion"),
        (kernels.bias_dropout_fusion, "--no-bias-dropout-fusion"),
        (kernels.masked_softmax_fusion, "--no-masked-softmax-fusion"),
        (kernels.persist_layer_norm, "--no-persist-layer-norm"),
    ):
        if value is False:
            yield flag
    if kernels.use_flash_attn:
        yield "--use-flash-attn-v2"


def _data(case: Case) -> Iterator[str]:
    experiment, platform = case.resolved.experiment, case.resolved.platform
    data = experiment.data
    yield from ("--data-path", str(data.path), "--data-impl", "mmap", "--split", data.split)
    yield from ("--dataloader-type", "single", "--num-workers", "8")
    if platform.cache_dir:
        yield from ("--data-cache-path", platform.cache_dir)
    if data.tokenizer_type == GPT2_TOKENIZER:
        folder = GPT2_FILES if data.tokenizer in (None, "gpt2") else data.tokenizer
        yield from ("--tokenizer-type", GPT2_TOKENIZER)
        yield from ("--vocab-file", f"{folder}/gpt2-vocab.json", "--merge-file", f"{folder}/gpt2-merges.txt")
    elif data.tokenizer is None:  # it counts an end-of-document token of its own
        yield from ("--tokenizer-type", "NullTokenizer", "--vocab-size", str(experiment.model.vocab_size - 1))
    else:
        hugging_face = data.tokenizer_type in (None, "HuggingFaceTokenizer")
        yield from ("--tokenizer-type", "HFTokenizer" if hugging_face else str(data.tokenizer_type))
        yield from ("--tokenizer-model", data.tokenizer)


def _output(experiment: Experiment, node: Node) -> Iterator[str]:
    yield from ("--log-interval", "1", "--eval-iters", "0", "--eval-interval", "1000000")
    if experiment.training.checkpointing:
        yield from ("--save", f"{node.run_dir}/output/checkpoints", "--save-interval", str(experiment.training.steps))
    if experiment.training.tracking:
        yield from ("--tensorboard-dir", f"{node.run_dir}/output/tensorboard")


def _model_refusals(experiment: Experiment) -> Iterator[Refusal]:
    model = experiment.model
    if model.rope_scaling is not None:
        yield _refusal("model.rope_scaling", "set", None, "Megatron-DeepSpeed does not scale rotary frequencies")
    if model.architecture == "llama" and model.qkv_bias:
        yield _refusal("model.qkv_bias", True, False, "Megatron-DeepSpeed has a bias in every projection or in none")


def _parallelism_refusals(case: Case) -> Iterator[Refusal]:
    model, sizes = case.resolved.experiment.model, case.resolved.experiment.parallelism
    if sizes.overlap_param_gather:
        yield _refusal("parallelism.overlap_param_gather", True, False, "DeepSpeed has no such switch")
    if sizes.context_parallel_size == 1:
        return
    for key in ("tensor_parallel_size", "pipeline_parallel_size"):
        if getattr(sizes, key) > 1:
            why = "DeepSpeed splits sequences (context_parallel_size) only where it is 1"
            yield _refusal(f"parallelism.{key}", getattr(sizes, key), 1, why)
    if model.num_attention_heads % sizes.context_parallel_size:
        why = f"DeepSpeed hands whole heads of {model.num_attention_heads} to the ranks of a sequence"
        yield _refusal("parallelism.context_parallel_size", sizes.context_parallel_size, 1, why)


def _zero_refusals(case: Case) -> Iterator[Refusal]:
    experiment = case.resolved.experiment
    sizes, precision = experiment.parallelism, experiment.precision
    stage = zero_stage(sizes)
    ranks = case.placement.world_size // (sizes.tensor_parallel_size * sizes.pipeline_parallel_size)
    if stage == 3 and sizes.fsdp_size != ranks:
        yield _refusal("parallelism.fsdp_size", sizes.fsdp_size, ranks, "ZeRO 3 shards over all data-parallel ranks")
    if stage == 3 and sizes.pipeline_parallel_size > 1:
        yield _refusal("parallelism.fsdp_size", sizes.fsdp_size, 1, "DeepSpeed's pipelines do not take ZeRO 3")
    if stage == 0 and sizes.overlap_grad_reduce:
        why = "DeepSpeed overlaps only under ZeRO (distributed_optimizer)"
        yield _refusal("parallelism.overlap_grad_reduce", True, False, why)
    unfit = {"bf16": False, "fp16": True}.get(precision.dtype)
    if stage == 0 and precision.grad_reduce_in_fp32 is unfit:
        why = f"without ZeRO (distributed_optimizer) DeepSpeed has one way for {precision.dtype}"
        yield _refusal("precision.grad_reduce_in_fp32", unfit, not unfit, why)


def _kernel_refusals(experiment: Experiment) -> Iterator[Refusal]:
    kernels, training = experiment.kernels, experiment.training
    if training.recompute == "selective" and (
        kernels.use_flash_attn or experiment.parallelism.context_parallel_size > 1
    ):
        why = "it does nothing beside flash attention or split sequences"
        yield _refusal("training.recompute", "selective", "full", why)
    absent = {
        "apply_rope_fusion": "Megatron-DeepSpeed has no such kernel",
        "cross_entropy_loss_fusion": "Megatron-DeepSpeed has no such kernel",
        "enable_primus_turbo": "only Primus has it",
        "use_turbo_attention": "only Primus has it",
    }
    for key, why in absent.items():
        if getattr(kernels, key):
            yield _refusal(f"kernels.{key}", True, None, why)
    for key in ("nvte_fused_attn", "nvte_flash_attn"):
        if getattr(kernels, key) is not None:
            why = "attention is not Transformer Engine's here"
            yield _refusal(f"kernels.{key}", getattr(kernels, key), None, why)


def _data_refusals(experiment: Experiment) -> Iterator[Refusal]:
    data = experiment.data
    if data.source != "tokens":
        yield _refusal("data.source", data.source, "tokens", "Megatron-DeepSpeed makes no data")


def _refusal(key: str, value: Any, able: Any, why: str) -> Refusal:
    return Refusal(key, value, f"{key} is {spelt(value)}, and {why}", spelt(able), f"--set {key}={spelt(able)}")


PLANNER = MegatronDeepSpeed()
