"""Megatron-LM: pretrain_gpt.py with torchrun, or train_llama3.sh of ROCm's images."""

from collections.abc import Iterator
from typing import Any

from steelyard import accounting
from steelyard.experiment import Experiment
from steelyard.experiment.case import Case
from steelyard.frameworks.megatron import script
from steelyard.frameworks.megatron.facts import FACTS
from steelyard.frameworks.megatron.script import SCRIPT
from steelyard.frameworks.megatron_family import plan as family
from steelyard.frameworks.planner import Command, Node, Planner, Refusal, option_refusals, refuse, without_options

ROOT = "/workspace/Megatron-LM"


class Megatron(Planner):
    def refusals(self, case: Case) -> Iterator[Refusal]:
        experiment, platform = case.resolved.experiment, case.resolved.platform
        if platform.script is not None:
            yield from script.refusals(experiment, platform)
        yield from family.family_refusals(experiment, FACTS.name)
        yield from family.attention_refusals(experiment.kernels)
        yield from family.local_refusals(experiment, "Megatron-LM")
        yield from family.turbo_refusals(experiment.kernels)
        yield from family.seed_refusals(experiment, "Megatron-LM")
        yield from family.rope_refusals(experiment)
        if experiment.data.source == "tokens":
            yield from family.data_seed_refusals(experiment, "Megatron-LM")
        yield from family.fsdp_refusals(experiment)
        replicas = accounting.data_parallel_size(experiment.parallelism, case.placement.world_size)
        ranks = (replicas or 1) * experiment.parallelism.context_parallel_size
        size = experiment.parallelism.fsdp_size
        if replicas and size not in (1, replicas, ranks):
            reason, expected = f", but Megatron-LM shards over {replicas} ranks", f"1 or {replicas}"
            yield refuse("parallelism.fsdp_size", size, reason, replicas, expected=expected)
        if platform.script is None:
            yield from option_refusals(platform.options, _own_flags(case), "Megatron-LM")

    def variables(self, case: Case, node: Node) -> dict[str, str]:
        if case.resolved.platform.script == SCRIPT:
            return script.variables(case, node)
        env = family.attention_env(case.resolved.experiment)
        if case.resolved.experiment.parallelism.fsdp_size == 1:
            env["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"  # needed for overlap and sequence parallelism
        return env

    def command(self, case: Case, node: Node) -> Command:
        platform, env = case.resolved.platform, self.variables(case, node)
        root = platform.root or ROOT
        if platform.script == SCRIPT:
            return Command(["bash", f"examples/llama/{SCRIPT}"], env, {}, root)
        argv = [*family.torchrun(case, node), "pretrain_gpt.py", *arguments(case, node)]
        return Command(argv, env, {}, root if platform.container else platform.root)


def _own_flags(case: Case) -> set[str]:
    """All flags that the plan sets or may set."""
    given = arguments(without_options(case), Node(0, 1, "localhost", None, "."))
    return {word for word in (*given, *FACTS.own_names()) if word.startswith("--")}


def arguments(case: Case, node: Node) -> list[str]:
    """Arguments of pretrain_gpt.py: all values of the experiment, even Megatron's defaults."""
    experiment = case.resolved.experiment
    stated = {
        **_model(experiment),
        **family.training_arguments(experiment, FACTS),
        **_parallelism(experiment),
        **_precision(experiment),
        **_kernels(experiment),
        **_data(case),
        **family.output_arguments(experiment, node),
        **{"--log-interval": 1, "--log-throughput": True, "--eval-iters": 0, "--eval-interval": 1000000},
        "--distributed-timeout-minutes": 60,
    }
    options = {f"--{name.replace('_', '-')}": value for name, value in case.resolved.platform.options.items()}
    return [*family.flags(stated), *family.flags(options)]


def _model(experiment: Experiment) -> dict[str, Any]:
    model = experiment.model
    grouped = model.num_key_value_heads != model.num_attention_heads
    scaling = model.rope_scaling if model.architecture == "llama" else None
    kind: dict[str, Any] = {"--position-embedding-type": "learned_absolute", "--normalization": "LayerNorm"}
    if model.architecture == "llama":
        kind = {
            "--position-embedding-type": "rope",
            "--rotary-base": f"{model.rope_theta:.0f}",
            "--use-rope-scaling": scaling is not None,
            "--rope-scaling-factor": scaling.factor if scaling else None,
            **{"--normalization": "RMSNorm", "--swiglu": True, "--disable-bias-linear": True},
            "--add-qkv-bias": model.qkv_bias,
        }
    sizes = ("num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "head_dim")
    return {
        **FACTS.stated(experiment, "model", *sizes),
        "--group-query-attention": grouped,
        "--num-query-groups": model.num_key_value_heads if grouped else None,
        **FACTS.stated(experiment, "model", "max_position_embeddings", "norm_epsilon"),
        **{"--make-vocab-size-divisible-by": 128, "--hidden-dropout": 0.0, "--attention-dropout": 0.0},
        **kind,
        "--untie-embeddings-and-output-weights": not model.tied_embeddings,
    }


def _parallelism(experiment: Experiment) -> dict[str, Any]:
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size")
    switches = ("sequence_parallel", "distributed_optimizer", "overlap_grad_reduce", "overlap_param_gather")
    sharded = experiment.parallelism.fsdp_size > 1
    return {
        **FACTS.stated(experiment, "parallelism", *sizes, *switches),
        "--use-torch-fsdp2": sharded,
        "--ckpt-format": "torch_dist" if sharded else None,
    }


def _precision(experiment: Experiment) -> dict[str, Any]:
    precision = experiment.precision
    fp8: dict[str, Any] = {"--fp8-format": precision.fp8, "--fp8-recipe": precision.fp8_recipe}
    if precision.fp8_recipe == "delayed":
        fp8 |= {"--fp8-amax-history-len": "1024", "--fp8-amax-compute-algo": "max"}
    return {
        f"--{precision.dtype}": precision.dtype != "fp32",
        "--grad-reduce-in-bf16": precision.dtype == "bf16" and not precision.grad_reduce_in_fp32,
        "--accumulate-allreduce-grads-in-fp32": precision.dtype == "fp16" and precision.grad_reduce_in_fp32,
        **(fp8 if precision.fp8 is not None else {}),
        "--fp32-residual-connection": precision.fp32_residual_connection,
    }


def _kernels(experiment: Experiment) -> dict[str, Any]:
    kernels = experiment.kernels.model_copy(update=FACTS.chosen_kernels(experiment.kernels))
    unfused = experiment.parallelism.fsdp_size > 1 or not kernels.gradient_accumulation_fusion
    activation = "swiglu" if experiment.model.architecture == "llama" else "gelu"
    fusions = ("bias_dropout_fusion", "masked_softmax_fusion", "persist_layer_norm", "apply_rope_fusion")
    chosen = FACTS.stated(experiment.model_copy(update={"kernels": kernels}), "kernels", *fusions)
    return {
        "--transformer-impl": kernels.transformer_impl,
        f"--no-bias-{activation}-fusion": kernels.bias_activation_fusion is False,
        **{flag: fused is False for flag, fused in chosen.items()},
        "--no-gradient-accumulation-fusion": unfused,
        "--cross-entropy-loss-fusion": kernels.cross_entropy_loss_fusion,
        "--attention-backend": family.attention_backend(kernels, unset="flash" if kernels.use_flash_attn else "auto"),
    }


def _data(case: Case) -> dict[str, Any]:
    data, platform = case.resolved.experiment.data, case.resolved.platform
    corpus = {"--data-path": str(data.path), "--split": data.split, "--data-cache-path": platform.cache_dir}
    tokenizer = {"--tokenizer-type": family.tokenizer_type(case), "--tokenizer-model": data.tokenizer}
    if data.tokenizer is None:  # NullTokenizer adds an end-of-document token
        size = case.resolved.experiment.model.vocab_size - 1
        tokenizer = {"--tokenizer-type": "NullTokenizer", "--vocab-size": str(size)}
    return {**(corpus if data.source == "tokens" else {"--mock-data": True}), **tokenizer, "--num-workers": 8}


PLANNER = Megatron()
