"""Primus: run_pretrain.sh with one experiment YAML, on the Megatron backend."""

from collections.abc import Iterator
from typing import Any

from steelyard.experiment import Experiment
from steelyard.experiment.case import Case
from steelyard.frameworks.megatron_family import plan as family
from steelyard.frameworks.planner import (
    Command,
    Node,
    Planner,
    Refusal,
    as_yaml,
    option_refusals,
    refuse,
    without_options,
)
from steelyard.frameworks.primus.facts import FACTS

ROOT = "/workspace/Primus"
PORT = 1234
CONFIG_FILE = "primus.yaml"
SCRIPT = "examples/run_pretrain.sh"

MODELS = {
    "llama3.1-8b": "llama3.1_8B.yaml",
    "llama3.1-70b": "llama3.1_70B.yaml",
    "llama3.1-405b": "llama3.1_405B.yaml",
    "qwen2.5-7b": "qwen2.5_7B.yaml",
}
"""Presets with a file of Primus; the plan states all dimensions anyway."""

FAMILIES = {"llama": "llama_base.yaml", "gpt": "language_model.yaml"}


class Primus(Planner):
    def refusals(self, case: Case) -> Iterator[Refusal]:
        experiment, kernels = case.resolved.experiment, case.resolved.experiment.kernels
        yield from family.vendor_refusals(case, "amd", "Primus")
        yield from family.family_refusals(experiment, FACTS.name)
        yield from family.attention_refusals(kernels)
        yield from family.local_refusals(experiment, "Primus")
        yield from family.seed_refusals(experiment, "Primus")
        ranks, shards = _shardable_ranks(case), experiment.parallelism.fsdp_size
        if ranks % shards:
            reason = f", which does not divide {ranks} ranks"
            yield refuse("parallelism.fsdp_size", shards, reason, ranks, expected=f"a divisor of {ranks}")
        yield from family.rope_refusals(experiment)
        data = experiment.data
        if data.source == "tokens":
            if any(float(share) for share in data.split.split(",")[1:]):
                yield refuse("data.split", data.split, ", but Primus trains on its whole data path", "100,0,0")
            yield from family.data_seed_refusals(experiment, "Primus")
        yield from family.fsdp_refusals(experiment)
        stated = _overrides(without_options(case), Node(0, 1, "localhost", None, "."))
        yield from option_refusals(case.resolved.platform.options, stated, FACTS.name)
        if kernels.use_turbo_attention and not kernels.enable_primus_turbo:
            message = "kernels.use_turbo_attention is true, but has no effect without enable_primus_turbo"
            expected, fix = "enable_primus_turbo true as well", "--set kernels.enable_primus_turbo=true"
            yield Refusal("kernels.use_turbo_attention", True, message, expected, fix)

    def variables(self, case: Case, node: Node) -> dict[str, str]:
        cache = case.resolved.platform.cache_dir
        return {
            "EXP": f"{node.run_dir}/{CONFIG_FILE}",
            "NNODES": str(node.nodes),
            "NODE_RANK": str(node.rank),
            "GPUS_PER_NODE": str(case.placement.gpus_per_node),
            "MASTER_ADDR": node.head,
            "MASTER_PORT": str(node.port or PORT),
            # The default is in a folder that may not exist.
            "TRAIN_LOG": f"{node.run_dir}/output/primus-node{node.rank}.log",
            **family.attention_env(case.resolved.experiment),
            **({"HF_HOME": cache} if cache else {}),
        }

    def command(self, case: Case, node: Node) -> Command:
        files = {CONFIG_FILE: as_yaml(config(case, node))}
        return Command(["bash", SCRIPT], self.variables(case, node), files, case.resolved.platform.root or ROOT)


def config(case: Case, node: Node) -> dict[str, Any]:
    """The experiment file of Primus."""
    experiment = case.resolved.experiment
    trainer = {
        "framework": "megatron",
        "config": "pre_trainer.yaml",
        "model": MODELS.get(experiment.model.preset or "", FAMILIES[experiment.model.architecture]),
        "overrides": _overrides(case, node),
    }
    return {
        "work_group": "steelyard",
        "user_name": "steelyard",
        "exp_name": experiment.name,
        "workspace": f"{node.run_dir}/output",
        "modules": {"pre_trainer": trainer},
    }


def _overrides(case: Case, node: Node) -> dict[str, Any]:
    experiment = case.resolved.experiment
    return {
        **_logging(experiment),
        **_training(experiment),
        **_model(experiment),
        **_parallelism(case),
        **_precision(experiment),
        **_kernels(experiment),
        **_data(case),
        **_checkpoints(experiment, node),
        **case.resolved.platform.options,
    }


def _logging(experiment: Experiment) -> dict[str, Any]:
    return {
        "stderr_sink_level": "DEBUG",  # the level of step lines
        "log_interval": 1,
        "log_throughput": True,
        "disable_tensorboard": not experiment.training.tracking,
        "disable_wandb": True,
        "disable_mlflow": True,
        "eval_iters": 0,
        "eval_interval": 1000000,
        "distributed_timeout_minutes": 60,
    }


def _training(experiment: Experiment) -> dict[str, Any]:
    training = experiment.training
    batch = ("seed", "steps", "micro_batch_size", "global_batch_size", "sequence_length")
    rates = ("learning_rate", "min_learning_rate", "schedule", "decay_steps", "warmup_steps")
    adam = ("weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "clip_grad_norm", "init_method_std")
    return {
        **FACTS.stated(experiment, "training", *batch),
        "optimizer": "adam",
        **FACTS.stated(experiment, "training", *rates),
        "lr_warmup_init": 0.0,
        **FACTS.stated(experiment, "training", *adam),
        "lr_decay_iters": training.decay_steps or training.steps,
        "clip_grad": training.clip_grad_norm or 0.0,  # 0 is off
        "recompute_activations": False,
        **family.recomputation(experiment),
    }


def _model(experiment: Experiment) -> dict[str, Any]:
    model, scaling = experiment.model, experiment.model.rope_scaling
    llama = model.architecture == "llama"
    rotary: dict[str, Any] = {"rotary_base": int(model.rope_theta or 10000), "use_rope_scaling": scaling is not None}
    if scaling is not None:
        rotary["rope_scaling_factor"] = scaling.factor
    return {
        **FACTS.stated(experiment, "model", "num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads"),
        "group_query_attention": model.num_key_value_heads != model.num_attention_heads,
        **FACTS.stated(experiment, "model", "num_key_value_heads", "head_dim", "max_position_embeddings"),
        "position_embedding_type": "rope" if llama else "learned_absolute",
        "add_position_embedding": not llama,
        "normalization": "RMSNorm" if llama else "LayerNorm",
        "norm_epsilon": model.norm_epsilon,
        "swiglu": llama,
        "add_bias_linear": not llama,
        "add_qkv_bias": model.qkv_bias,
        "untie_embeddings_and_output_weights": not model.tied_embeddings,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "make_vocab_size_divisible_by": 128,
        **(rotary if llama else {}),
    }


def _parallelism(case: Case) -> dict[str, Any]:
    experiment, shards = case.resolved.experiment, case.resolved.experiment.parallelism.fsdp_size
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size")
    return {
        **FACTS.stated(experiment, "parallelism", *sizes),
        "expert_model_parallel_size": 1,
        **FACTS.stated(experiment, "parallelism", "sequence_parallel", "distributed_optimizer"),
        "use_torch_fsdp2": shards > 1,
        **({"data_parallel_replicate_degree": _shardable_ranks(case) // shards} if shards > 1 else {}),
        **FACTS.stated(experiment, "parallelism", "overlap_grad_reduce", "overlap_param_gather"),
        "gradient_accumulation_fusion": FACTS.chosen_kernels(experiment.kernels)["gradient_accumulation_fusion"],
    }


def _shardable_ranks(case: Case) -> int:
    sizes = case.resolved.experiment.parallelism
    return case.placement.world_size // (sizes.tensor_parallel_size * sizes.pipeline_parallel_size)


def _precision(experiment: Experiment) -> dict[str, Any]:
    precision = experiment.precision
    return {
        "bf16": precision.dtype == "bf16",
        "fp16": precision.dtype == "fp16",
        "loss_scale": None,  # dynamic, and fp16's alone
        "fp8": precision.fp8,
        "fp8_recipe": precision.fp8_recipe,
        **family.DELAYED,
        "grad_reduce_in_bf16": precision.dtype == "bf16" and not precision.grad_reduce_in_fp32,
        "accumulate_allreduce_grads_in_fp32": precision.grad_reduce_in_fp32,
        "fp32_residual_connection": precision.fp32_residual_connection,
    }


def _kernels(experiment: Experiment) -> dict[str, Any]:
    chosen = FACTS.chosen_kernels(experiment.kernels)
    by_te = chosen["cross_entropy_loss_fusion"] and chosen["transformer_impl"] != "local"
    return {
        "transformer_impl": chosen["transformer_impl"],
        "bias_swiglu_fusion": chosen["bias_activation_fusion"],
        "bias_gelu_fusion": chosen["bias_activation_fusion"] and experiment.model.architecture == "gpt",
        "bias_dropout_fusion": chosen["bias_dropout_fusion"],
        "masked_softmax_fusion": chosen["masked_softmax_fusion"],
        "no_persist_layer_norm": not chosen["persist_layer_norm"],
        "apply_rope_fusion": chosen["apply_rope_fusion"],
        "cross_entropy_loss_fusion": chosen["cross_entropy_loss_fusion"],
        "cross_entropy_fusion_impl": "te" if by_te else "native",
        "use_flash_attn": chosen["use_flash_attn"],
        # "flash" would exclude Transformer Engine's fused attention, the fast one on AMD.
        "attention_backend": family.attention_backend(experiment.kernels, unset="auto"),
        "enable_primus_turbo": chosen["enable_primus_turbo"],
        "use_turbo_attention": chosen["use_turbo_attention"],
    }


def _data(case: Case) -> dict[str, Any]:
    experiment, platform = case.resolved.experiment, case.resolved.platform
    data, generated = experiment.data, experiment.data.source != "tokens"
    stated: dict[str, Any] = {
        "mock_data": generated,
        "data_path": None,
        # Not data_path with a split: without train_data_path the launcher downloads another corpus, and Megatron does
        # not accept a split together with a path per share.
        "train_data_path": None if generated else data.path,
        "valid_data_path": None,
        "test_data_path": None,
        "split": None,
        "data_cache_path": platform.cache_dir,
        "dataloader_type": "single",  # "cyclic" of pre_trainer.yaml shuffles once more
        "num_workers": 8,
        **dict.fromkeys(("reset_position_ids", "reset_attention_mask", "eod_mask_loss"), False),
    }
    if generated or data.tokenizer is None:  # NullTokenizer adds an end-of-document token
        return {**stated, "tokenizer_type": "NullTokenizer", "vocab_size": experiment.model.vocab_size - 1}
    return {**stated, "tokenizer_type": family.tokenizer_type(case), "tokenizer_model": data.tokenizer}


def _checkpoints(experiment: Experiment, node: Node) -> dict[str, Any]:
    saves = experiment.training.checkpointing
    return {
        "finetune": False,  # true in pre_trainer.yaml
        "auto_continue_train": False,
        "load": None,
        "save": f"{node.run_dir}/output/checkpoints" if saves else None,
        "save_interval": experiment.training.steps,
        "disable_last_saving": not saves,
    }


PLANNER = Primus()
