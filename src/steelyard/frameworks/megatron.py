"""Megatron-LM: pretrain_gpt.py under torchrun, or the train_llama3.sh of ROCm's images."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from steelyard import accounting
from steelyard.experiment import Experiment, Parallelism, Platform
from steelyard.experiment.cvs import megatron as script
from steelyard.experiment.cvs.translate import GPUS_PER_NODE
from steelyard.experiment.experiment import GROUPS
from steelyard.experiment.presets import PRESETS
from steelyard.experiment.problems import spelt
from steelyard.frameworks.framework import Command, Node, Refusal
from steelyard.frameworks.megatron_family import (
    PORT,
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
from steelyard.frameworks.options import option_refusals
from steelyard.lint.rule import Case

ROOT = "/workspace/Megatron-LM"

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "model.num_layers": "--num-layers",
        "model.hidden_size": "--hidden-size",
        "model.ffn_hidden_size": "--ffn-hidden-size",
        "model.num_attention_heads": "--num-attention-heads",
        "model.num_key_value_heads": "--num-query-groups",
        "model.head_dim": "--kv-channels",
        "model.vocab_size": "--vocab-size",
        "model.max_position_embeddings": "--max-position-embeddings",
        "model.norm_epsilon": "--norm-epsilon",
        "model.rope_theta": "--rotary-base",
        "model.rope_scaling": "--use-rope-scaling",
        "model.architecture": "--normalization, --swiglu, --position-embedding-type",
        "model.qkv_bias": "--add-qkv-bias",
        "model.tied_embeddings": "--untie-embeddings-and-output-weights",
        "training.seed": "--seed",
        "training.micro_batch_size": "--micro-batch-size",
        "training.global_batch_size": "--global-batch-size",
        "training.sequence_length": "--seq-length",
        "training.steps": "--train-iters",
        "training.learning_rate": "--lr",
        "training.min_learning_rate": "--min-lr",
        "training.schedule": "--lr-decay-style",
        "training.decay_steps": "--lr-decay-iters",
        "training.warmup_steps": "--lr-warmup-iters",
        "training.weight_decay": "--weight-decay",
        "training.adam_beta1": "--adam-beta1",
        "training.adam_beta2": "--adam-beta2",
        "training.adam_epsilon": "--adam-eps",
        "training.clip_grad_norm": "--clip-grad",
        "training.init_method_std": "--init-method-std",
        "training.recompute": "--recompute-granularity",
        "training.checkpointing": "--save",
        "training.tracking": "--tensorboard-dir",
        "parallelism.tensor_parallel_size": "--tensor-model-parallel-size",
        "parallelism.pipeline_parallel_size": "--pipeline-model-parallel-size",
        "parallelism.context_parallel_size": "--context-parallel-size",
        "parallelism.sequence_parallel": "--sequence-parallel",
        "parallelism.distributed_optimizer": "--use-distributed-optimizer",
        "parallelism.fsdp_size": "--use-torch-fsdp2",
        "parallelism.overlap_grad_reduce": "--overlap-grad-reduce",
        "parallelism.overlap_param_gather": "--overlap-param-gather",
        "precision.dtype": "--bf16, --fp16",
        "precision.fp8": "--fp8-format",
        "precision.grad_reduce_in_fp32": "--grad-reduce-in-bf16",
        "precision.fp32_residual_connection": "--fp32-residual-connection",
        "kernels.bias_activation_fusion": "--no-bias-swiglu-fusion, --no-bias-gelu-fusion",
        "kernels.bias_dropout_fusion": "--no-bias-dropout-fusion",
        "kernels.masked_softmax_fusion": "--no-masked-softmax-fusion",
        "kernels.persist_layer_norm": "--no-persist-layer-norm",
        "kernels.apply_rope_fusion": "--no-rope-fusion",
        "kernels.cross_entropy_loss_fusion": "--cross-entropy-loss-fusion",
        "kernels.use_flash_attn": "--attention-backend",
        "kernels.nvte_fused_attn": "NVTE_FUSED_ATTN",
        "kernels.nvte_flash_attn": "NVTE_FLASH_ATTN",
        "data.source": "--mock-data, --data-path",
        "data.path": "--data-path",
        "data.split": "--split",
        "data.seed": "--seed",
        "data.tokenizer": "--tokenizer-model",
        "data.tokenizer_type": "--tokenizer-type",
    }
)


class Megatron:
    name = "megatron"
    flop_conventions = ("causal", "noncausal")
    log_interval = None  # an argument decides; a plan sets 1
    silent_defaults: Mapping[str, Any] = MappingProxyType(
        {
            "training.seed": 1234,
            "training.min_learning_rate": 0.0,
            "training.schedule": "linear",
            "training.warmup_steps": 0,
            "training.weight_decay": 0.01,
            "training.adam_beta1": 0.9,
            "training.adam_beta2": 0.999,
            "training.adam_epsilon": 1e-8,
            "training.clip_grad_norm": 1.0,
            "training.init_method_std": 0.02,
            "training.recompute": "none",
            "parallelism.tensor_parallel_size": 1,
            "parallelism.pipeline_parallel_size": 1,
            "parallelism.context_parallel_size": 1,
            "parallelism.sequence_parallel": False,
            "parallelism.distributed_optimizer": False,
            "parallelism.overlap_grad_reduce": False,
            "parallelism.overlap_param_gather": False,
            "precision.dtype": "fp32",
            "precision.grad_reduce_in_fp32": True,
            "precision.fp32_residual_connection": False,
            "kernels.bias_activation_fusion": True,
            "kernels.bias_dropout_fusion": True,
            "kernels.masked_softmax_fusion": True,
            "kernels.persist_layer_norm": True,
            "kernels.apply_rope_fusion": True,
            "kernels.cross_entropy_loss_fusion": False,
        }
    )

    def spelling(self, dotted: str) -> str | None:
        return NAMES.get(dotted)

    def vocabulary_multiple(self, parallelism: Parallelism) -> int:
        return 128 * parallelism.tensor_parallel_size

    def state_bytes(self, case: Case) -> accounting.StateBytes:
        return accounting.state_bytes(case.resolved.experiment.precision, master_bytes=4)

    def decides(self, case: Case) -> Mapping[str, Any]:
        return {}

    def refusals(self, case: Case) -> Iterator[Refusal]:
        experiment, platform = case.resolved.experiment, case.resolved.platform
        if platform.script is not None:
            yield from _script_refusals(experiment, platform)
        yield from family_refusals(experiment, self.name)
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
        if case.resolved.platform.script == script.SCRIPT:
            return _script_env(case, node)
        env = attention_env(case.resolved.experiment)
        if case.resolved.experiment.parallelism.fsdp_size == 1:
            env["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"  # overlap and sequence parallelism rely on it
        return env

    def command(self, case: Case, node: Node) -> Command:
        platform, env = case.resolved.platform, self.variables(case, node)
        root = platform.root or ROOT
        if platform.script == script.SCRIPT:
            return Command(["bash", f"examples/llama/{script.SCRIPT}"], env, {}, root)
        argv = [*torchrun(case, node), "pretrain_gpt.py", *arguments(case, node)]
        return Command(argv, env, {}, root if platform.container else platform.root)


def _own_flags(case: Case) -> set[str]:
    """Every flag the plan states itself, and those it may."""
    bare = replace(
        case, resolved=replace(case.resolved, platform=case.resolved.platform.model_copy(update={"options": {}}))
    )
    given = arguments(bare, Node(0, 1, "localhost", None, "."))
    known = {flag.strip() for words in NAMES.values() for flag in words.split(",")}
    return {word for word in (*given, *known) if word.startswith("--")}


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


_TOLD = {
    "model.preset",
    "training.micro_batch_size",
    "training.global_batch_size",
    "training.gradient_accumulation_steps",
    "training.sequence_length",
    "training.steps",
    "training.recompute",
    "parallelism.tensor_parallel_size",
    "parallelism.pipeline_parallel_size",
    "parallelism.data_parallel_size",
    "parallelism.fsdp_size",
    "precision.fp8",
    "data.source",
    "data.path",
    "data.dataset",
    "data.samples",
    "data.tokenizer",
}
"""What the script has a variable for, or what changes nothing of it."""


def _script_fixes(experiment: Experiment) -> dict[str, Any]:
    """What a run of the script is in all else: what the script sets, and what Megatron does where it is silent."""
    sizes = experiment.parallelism
    sharded = sizes.fsdp_size > 1
    fixed = _flat(Experiment.model_validate(_script_defaults(experiment)))
    fixed |= script.FIXED
    fixed |= {
        "parallelism.sequence_parallel": sizes.tensor_parallel_size > 1 and not sharded,
        "parallelism.distributed_optimizer": not sharded,
        "parallelism.overlap_param_gather": not sharded,
        "data.tokenizer_type": "HuggingFaceTokenizer",
    }
    return {dotted: value for dotted, value in fixed.items() if dotted not in _TOLD}


def _flat(experiment: Experiment) -> dict[str, Any]:
    return {f"{group}.{key}": value for group in GROUPS for key, value in getattr(experiment, group)}


def _script_defaults(experiment: Experiment) -> dict[str, Any]:
    training = experiment.training
    return {
        "name": experiment.name,
        "model": {**PRESETS[experiment.model.preset or ""], "rope_scaling": None},
        "training": {
            "micro_batch_size": training.micro_batch_size,
            "global_batch_size": training.global_batch_size,
            "sequence_length": training.sequence_length,
            "steps": training.steps,
            "learning_rate": training.learning_rate,
        },
    }


def _script_refusals(experiment: Experiment, platform: Platform) -> Iterator[Refusal]:
    if platform.script != script.SCRIPT:
        message = f"platform.script is {platform.script}, which is not known"
        yield Refusal("platform.script", platform.script, message, script.SCRIPT, f"write {script.SCRIPT}")
        return
    if experiment.model.preset not in ("llama3.1-8b", "llama3.1-70b"):
        yield Refusal(
            "model.preset",
            experiment.model.preset,
            f"model.preset is {experiment.model.preset}, and {script.SCRIPT} knows two models",
            "llama3.1-8b or llama3.1-70b",
            "--set model.preset=llama3.1-8b",
        )
        return
    if platform.options:
        message = f"platform.options is set, and {script.SCRIPT} takes no arguments of Megatron's"
        yield Refusal("platform.options", None, message, "none", "remove options, or script")
    stated = _flat(experiment)
    choices: dict[str, tuple[Any, ...]] = {dotted: (value,) for dotted, value in _script_fixes(experiment).items()}
    choices |= {"training.recompute": ("none", "full"), "precision.fp8": (None, "hybrid")}
    choices["data.tokenizer_type"] = ("HuggingFaceTokenizer", None)
    for dotted, able in choices.items():
        value = stated.get(dotted)
        if value not in able and not (dotted.startswith("kernels.") and value is None):
            fixed = spelt(able[0])
            yield Refusal(
                dotted,
                value,
                f"{dotted} is {spelt(value)}, and {script.SCRIPT} makes it {' or '.join(map(spelt, able))}",
                " or ".join(map(spelt, able)),
                f"--set {dotted}={fixed}",
            )


def _script_env(case: Case, node: Node) -> dict[str, str]:
    """The script's variables: what the experiment says, and what only some versions of the script set themselves."""
    experiment, platform = case.resolved.experiment, case.resolved.platform
    training, sizes = experiment.training, experiment.parallelism
    size = (experiment.model.preset or "").removeprefix("llama3.1-").removesuffix("b")
    env = {
        "MODEL_SIZE": size,
        "TOTAL_ITERS": str(training.steps),
        "BS": str(training.global_batch_size),
        "MBS": str(training.micro_batch_size),
        "SEQ_LENGTH": str(training.sequence_length),
        "TP": str(sizes.tensor_parallel_size),
        "PP": str(sizes.pipeline_parallel_size),
        "CP": str(sizes.context_parallel_size),
        "SEQ_PARALLEL": _bit(sizes.sequence_parallel),
        "FSDP": _bit(sizes.fsdp_size > 1),
        "RECOMPUTE": _bit(training.recompute == "full"),
        "TE_FP8": _bit(experiment.precision.fp8 is not None),
        "GRAD_REDUCE_IN_BF16": _bit(not experiment.precision.grad_reduce_in_fp32),
        "CROSS_ENTROPY_LOSS_FUSION": _bit(bool(experiment.kernels.cross_entropy_loss_fusion)),
        "ROPE_FUSION": _bit(experiment.kernels.apply_rope_fusion is not False),
        "USE_FLASH_ATTN": _bit(experiment.kernels.use_flash_attn is not False),
        "OPTIMIZER": "adam",
        "TOKENIZER_MODEL": str(experiment.data.tokenizer),
        "MASTER_ADDR": node.head,
        "MASTER_PORT": str(node.port or PORT),
        "NNODES": str(node.nodes),
        "NODE_RANK": str(node.rank),
        "EXP_NAME": experiment.name,
        "LOG_DIR": f"{node.run_dir}/output",
    }
    if experiment.data.source == "tokens":
        env |= {"MOCK_DATA": "0", "DATA_PATH": str(experiment.data.path)}
    else:
        env["MOCK_DATA"] = "1"
    if platform.cache_dir:
        env["DATA_CACHE_PATH"] = platform.cache_dir
    if case.placement.gpus_per_node != GPUS_PER_NODE:  # the script takes every GPU it sees
        env["HIP_VISIBLE_DEVICES"] = ",".join(map(str, range(case.placement.gpus_per_node)))
    return env


def _bit(on: bool) -> str:
    return "1" if on else "0"


FRAMEWORK = Megatron()
