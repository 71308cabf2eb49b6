"""Megatron-LM: pretrain_gpt.py under torchrun, or the train_llama3.sh of ROCm's images."""

from collections.abc import Iterator

from steelyard import accounting
from steelyard.experiment import Experiment
from steelyard.experiment.case import Case
from steelyard.frameworks.megatron import script
from steelyard.frameworks.megatron.facts import FACTS
from steelyard.frameworks.megatron.script import SCRIPT
from steelyard.frameworks.megatron_family.plan import (
    MegatronKin,
    attention_backend,
    attention_env,
    attention_refusals,
    family_refusals,
    fsdp_refusals,
    number,
    one_seed,
    rope_refusals,
    seed_refusals,
    tokenizer_type,
    torchrun,
    training_arguments,
    turbo_refusals,
)
from steelyard.frameworks.options import option_refusals, without_options
from steelyard.frameworks.planner import Command, Node, Refusal

ROOT = "/workspace/Megatron-LM"


class Megatron(MegatronKin):
    def refusals(self, case: Case) -> Iterator[Refusal]:
        experiment, platform = case.resolved.experiment, case.resolved.platform
        if platform.script is not None:
            yield from script.refusals(experiment, platform)
        yield from family_refusals(experiment, FACTS.name)
        yield from attention_refusals(experiment.kernels)
        yield from turbo_refusals(experiment.kernels)
        yield from seed_refusals(experiment, "Megatron-LM")
        yield from rope_refusals(experiment)
        if experiment.data.source == "tokens":
            yield from one_seed(experiment, "Megatron-LM")
        yield from fsdp_refusals(experiment)
        replicas = accounting.data_parallel_size(experiment.parallelism, case.placement.world_size)
        ranks = (replicas or 1) * experiment.parallelism.context_parallel_size
        if replicas and experiment.parallelism.fsdp_size not in (1, replicas, ranks):
            yield Refusal(
                "parallelism.fsdp_size",
                experiment.parallelism.fsdp_size,
                f"parallelism.fsdp_size is {experiment.parallelism.fsdp_size}, and Megatron-LM shards over {replicas}",
                f"1 or {replicas}",
                f"--set parallelism.fsdp_size={replicas}",
            )
        if platform.script is None:
            yield from option_refusals(platform.options, _own_flags(case), "Megatron-LM")

    def variables(self, case: Case, node: Node) -> dict[str, str]:
        if case.resolved.platform.script == SCRIPT:
            return script.variables(case, node)
        env = attention_env(case.resolved.experiment)
        if case.resolved.experiment.parallelism.fsdp_size == 1:
            env["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"  # overlap and sequence parallelism rely on it
        return env

    def command(self, case: Case, node: Node) -> Command:
        platform, env = case.resolved.platform, self.variables(case, node)
        root = platform.root or ROOT
        if platform.script == SCRIPT:
            return Command(["bash", f"examples/llama/{SCRIPT}"], env, {}, root)
        argv = [*torchrun(case, node), "pretrain_gpt.py", *arguments(case, node)]
        return Command(argv, env, {}, root if platform.container else platform.root)


def _own_flags(case: Case) -> set[str]:
    """Every flag the plan states itself, and those it may."""
    given = arguments(without_options(case), Node(0, 1, "localhost", None, "."))
    return {word for word in (*given, *FACTS.own_names()) if word.startswith("--")}


def arguments(case: Case, node: Node) -> list[str]:
    """pretrain_gpt.py's arguments: every value of the experiment stated, whatever Megatron would have taken."""
    experiment = case.resolved.experiment
    given = [
        *model_arguments(experiment),
        *training_arguments(experiment),
        *_parallelism(experiment),
        *_precision(experiment),
        *_kernels(experiment),
        *_data(case),
        *_output(experiment, node),
    ]
    for name, value in case.resolved.platform.options.items():
        flag = f"--{name.replace('_', '-')}"
        given += [flag] if value is True else [] if value is False or value is None else [flag, str(value)]
    return given


def model_arguments(experiment: Experiment) -> Iterator[str]:
    """The model's dimensions and kind."""
    model = experiment.model
    llama = model.architecture == "llama"
    yield from ("--num-layers", str(model.num_layers))
    yield from ("--hidden-size", str(model.hidden_size))
    yield from ("--ffn-hidden-size", str(model.ffn_hidden_size))
    yield from ("--num-attention-heads", str(model.num_attention_heads))
    yield from ("--kv-channels", str(model.head_dim))
    if model.num_key_value_heads != model.num_attention_heads:
        yield from ("--group-query-attention", "--num-query-groups", str(model.num_key_value_heads))
    yield from ("--max-position-embeddings", str(model.max_position_embeddings))
    yield from ("--norm-epsilon", number(model.norm_epsilon))
    yield from ("--make-vocab-size-divisible-by", "128")
    yield from ("--hidden-dropout", "0.0", "--attention-dropout", "0.0")
    if llama:
        yield from ("--position-embedding-type", "rope", "--rotary-base", f"{model.rope_theta:.0f}")
        if model.rope_scaling is not None:
            yield from ("--use-rope-scaling", "--rope-scaling-factor", number(model.rope_scaling.factor))
        yield from ("--normalization", "RMSNorm", "--swiglu", "--disable-bias-linear")
        if model.qkv_bias:
            yield "--add-qkv-bias"
    else:
        yield from ("--position-embedding-type", "learned_absolute", "--normalization", "LayerNorm")
    if not model.tied_embeddings:
        yield "--untie-embeddings-and-output-weights"


def _parallelism(experiment: Experiment) -> Iterator[str]:
    sizes = experiment.parallelism
    yield from ("--tensor-model-parallel-size", str(sizes.tensor_parallel_size))
    yield from ("--pipeline-model-parallel-size", str(sizes.pipeline_parallel_size))
    yield from ("--context-parallel-size", str(sizes.context_parallel_size))
    for on, flag in (
        (sizes.sequence_parallel, "--sequence-parallel"),
        (sizes.distributed_optimizer, "--use-distributed-optimizer"),
        (sizes.overlap_grad_reduce, "--overlap-grad-reduce"),
        (sizes.overlap_param_gather, "--overlap-param-gather"),
    ):
        if on:
            yield flag
    if sizes.fsdp_size > 1:
        yield from ("--use-torch-fsdp2", "--no-gradient-accumulation-fusion", "--ckpt-format", "torch_dist")


def _precision(experiment: Experiment) -> Iterator[str]:
    precision = experiment.precision
    if precision.dtype != "fp32":
        yield f"--{precision.dtype}"
    if precision.dtype == "bf16" and not precision.grad_reduce_in_fp32:
        yield "--grad-reduce-in-bf16"
    if precision.dtype == "fp16" and precision.grad_reduce_in_fp32:
        yield "--accumulate-allreduce-grads-in-fp32"
    if precision.fp8 is not None:
        yield from ("--fp8-format", precision.fp8, "--fp8-recipe", "delayed")
        yield from ("--fp8-amax-history-len", "1024", "--fp8-amax-compute-algo", "max")
    if precision.fp32_residual_connection:
        yield "--fp32-residual-connection"


def _kernels(experiment: Experiment) -> Iterator[str]:
    kernels = experiment.kernels
    activation = "swiglu" if experiment.model.architecture == "llama" else "gelu"
    yield from ("--transformer-impl", "transformer_engine")
    for value, flag in (
        (kernels.bias_activation_fusion, f"--no-bias-{activation}-fusion"),
        (kernels.bias_dropout_fusion, "--no-bias-dropout-fusion"),
        (kernels.masked_softmax_fusion, "--no-masked-softmax-fusion"),
        (kernels.persist_layer_norm, "--no-persist-layer-norm"),
        (kernels.apply_rope_fusion, "--no-rope-fusion"),
    ):
        if value is False:
            yield flag
    if kernels.cross_entropy_loss_fusion:
        yield "--cross-entropy-loss-fusion"
    yield from ("--attention-backend", attention_backend(kernels, unset="flash" if kernels.use_flash_attn else "auto"))


def _data(case: Case) -> Iterator[str]:
    data, platform = case.resolved.experiment.data, case.resolved.platform
    if data.source == "tokens":
        yield from ("--data-path", str(data.path))
        yield from ("--split", data.split)
        if platform.cache_dir:
            yield from ("--data-cache-path", platform.cache_dir)
    else:
        yield "--mock-data"
    if data.tokenizer is not None:
        yield from ("--tokenizer-type", tokenizer_type(case), "--tokenizer-model", data.tokenizer)
    else:  # it counts an end-of-document token of its own
        vocabulary = case.resolved.experiment.model.vocab_size - 1
        yield from ("--tokenizer-type", "NullTokenizer", "--vocab-size", str(vocabulary))
    yield from ("--num-workers", "8")


def _output(experiment: Experiment, node: Node) -> Iterator[str]:
    if experiment.training.checkpointing:
        yield from ("--save", f"{node.run_dir}/output/checkpoints", "--save-interval", str(experiment.training.steps))
    if experiment.training.tracking:
        yield from ("--tensorboard-dir", f"{node.run_dir}/output/tensorboard")
    yield from ("--log-interval", "1", "--log-throughput", "--eval-iters", "0", "--eval-interval", "1000000")
    yield from ("--distributed-timeout-minutes", "60")


PLANNER = Megatron()
