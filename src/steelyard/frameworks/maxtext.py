"""MaxText: a YAML over its base.yml and the preset of model_name, one process a node."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from steelyard import accounting
from steelyard.experiment import Experiment, Parallelism
from steelyard.experiment.cvs.jax import SOURCE
from steelyard.experiment.presets import PRESETS
from steelyard.frameworks.framework import Command, Node, Refusal
from steelyard.frameworks.yaml_text import as_yaml
from steelyard.lint.rule import Case

CONFIG_FILE = "maxtext.yml"
ROOT = "/workspace/maxtext"
PORT = 1234
NAMED_MODELS = ("llama3.1-8b", "llama3.1-70b", "llama3.1-405b")
"""Presets MaxText has a model of its own for, under the same name."""

DTYPES = {"bf16": "bfloat16", "fp32": "float32", "fp16": "float16"}

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "model.preset": "model_name",
        "model.architecture": "decoder_block",
        "model.num_layers": "base_num_decoder_layers",
        "model.hidden_size": "base_emb_dim",
        "model.ffn_hidden_size": "base_mlp_dim",
        "model.num_attention_heads": "base_num_query_heads",
        "model.num_key_value_heads": "base_num_kv_heads",
        "model.head_dim": "head_dim",
        "model.vocab_size": "vocab_size",
        "model.norm_epsilon": "normalization_layer_epsilon",
        "model.rope_theta": "rope_max_timescale",
        "model.tied_embeddings": "logits_via_embedding",
        "training.seed": "init_weights_seed",
        "training.micro_batch_size": "per_device_batch_size",
        "training.global_batch_size": "per_device_batch_size",
        "training.gradient_accumulation_steps": "gradient_accumulation_steps",
        "training.sequence_length": "max_target_length",
        "training.steps": "steps",
        "training.learning_rate": "learning_rate",
        "training.min_learning_rate": "learning_rate_final_fraction",
        "training.schedule": "lr_schedule_type",
        "training.decay_steps": "learning_rate_schedule_steps",
        "training.warmup_steps": "warmup_steps_fraction",
        "training.weight_decay": "adam_weight_decay",
        "training.adam_beta1": "adam_b1",
        "training.adam_beta2": "adam_b2",
        "training.adam_epsilon": "adam_eps",
        "training.clip_grad_norm": "gradient_clipping_threshold",
        "training.recompute": "remat_policy",
        "training.checkpointing": "enable_checkpointing",
        "training.tracking": "enable_tensorboard",
        "parallelism.tensor_parallel_size": "ici_tensor_parallelism",
        "parallelism.pipeline_parallel_size": "ici_pipeline_parallelism",
        "parallelism.context_parallel_size": "ici_context_parallelism",
        "parallelism.fsdp_size": "ici_fsdp_parallelism",
        "parallelism.data_parallel_size": "ici_data_parallelism, dcn_data_parallelism",
        "precision.dtype": "dtype",
        "precision.fp8": "quantization",
        "kernels.use_flash_attn": "attention",
        "data.source": "dataset_type",
        "data.path": "hf_train_files",
        "data.seed": "data_shuffle_seed",
        "data.tokenizer": "tokenizer_path",
    }
)


class MaxText:
    name = "maxtext"
    flop_conventions = ("causal", "noncausal")
    log_interval = 1
    silent_defaults: Mapping[str, Any] = MappingProxyType(
        {
            "training.seed": 0,
            "training.learning_rate": 3e-5,
            "training.min_learning_rate": "a tenth of the peak",
            "training.schedule": "cosine",
            "training.warmup_steps": "a tenth of the steps",
            "training.weight_decay": 0.1,
            "training.adam_beta1": 0.9,
            "training.adam_beta2": 0.95,
            "training.adam_epsilon": 1e-8,
            "training.clip_grad_norm": 1.0,
            "training.init_method_std": "fan-in scaling, with no knob",
            "training.recompute": "full",
            "model.rope_scaling": None,
            "precision.dtype": "bf16",
            "data.seed": 0,
        }
    )

    def spelling(self, dotted: str) -> str | None:
        return NAMES.get(dotted)

    def vocabulary_multiple(self, parallelism: Parallelism) -> int:
        return 1

    def state_bytes(self, case: Case) -> accounting.StateBytes:
        # Adam's moments are kept in the weights' own format, and there is no master weight beside them.
        width = 2 if case.resolved.platform.options.get("weight_dtype") == "bfloat16" else 4
        return accounting.StateBytes(width, width, 2 * width)

    def refusals(self, case: Case) -> Iterator[Refusal]:
        experiment, options = case.resolved.experiment, case.resolved.platform.options
        if experiment.model.architecture != "llama":
            yield _refusal("model.architecture", experiment.model.architecture, ("llama",))
        if experiment.model.rope_scaling is not None:
            yield _refusal("model.rope_scaling", "set", (None,))
        if experiment.model.qkv_bias:
            yield _refusal("model.qkv_bias", True, (False,))
        if experiment.training.recompute == "none" and "remat_policy" not in options:
            yield Refusal(
                "training.recompute",
                "none",
                "training.recompute is none, and MaxText recomputes everything under remat_policy none",
                "full, or selective (remat_policy minimal_with_context, its least)",
                "--set training.recompute=selective",
            )
        if experiment.data.source not in ("uniform", "tokens"):
            yield _refusal("data.source", experiment.data.source, ("uniform", "tokens"))
        if experiment.training.schedule != "cosine":
            yield _refusal("training.schedule", experiment.training.schedule, ("cosine",))
        for key in ("grad_reduce_in_fp32", "fp32_residual_connection"):
            if getattr(experiment.precision, key):
                yield _refusal(f"precision.{key}", True, (False,))
        if experiment.parallelism.sequence_parallel:
            yield _refusal("parallelism.sequence_parallel", True, (False,))

    def command(self, case: Case, node: Node) -> Command:
        platform = case.resolved.platform
        program, workdir = _program(case)
        argv = [
            *program,
            f"{node.run_dir}/{CONFIG_FILE}",
            f"base_output_directory={node.run_dir}/output",
            "enable_goodput_recording=false",
            "monitor_goodput=false",
        ]
        env = {
            "NNODES": str(node.nodes),
            "NODE_RANK": str(node.rank),
            "JAX_COORDINATOR_IP": node.head,
            "JAX_COORDINATOR_PORT": str(node.port or PORT),
        }
        if platform.cache_dir:
            env["HF_HOME"] = platform.cache_dir
        return Command(argv, env, {CONFIG_FILE: as_yaml(settings(case))}, workdir)


def _program(case: Case) -> tuple[list[str], str | None]:
    """The module that trains, and where it is started; by its name it is found in any layout of a release's sources."""
    platform = case.resolved.platform
    module = "MaxText.train" if _old(case) else "maxtext.trainers.pre_train.train"
    return ["python3", "-m", module], platform.root or (ROOT if platform.container else None)


def settings(case: Case) -> dict[str, Any]:
    """MaxText's keys, typed: the experiment's, then what the platform passes on under MaxText's own names."""
    resolved = case.resolved
    experiment, options = resolved.experiment, dict(resolved.platform.options)
    training, sizes = experiment.training, experiment.parallelism
    layout = accounting.layout(training, sizes, case.placement.world_size)
    per_device = training.micro_batch_size / accounting.model_parallel_size(sizes)
    steps = training.decay_steps or training.steps
    stated = {
        "learning_rate": training.learning_rate,
        "cosine_learning_rate_final_fraction" if _old(case) else "learning_rate_final_fraction": float(
            f"{training.min_learning_rate / training.learning_rate:.10g}"
        ),
        "warmup_steps_fraction": float(f"{training.warmup_steps / steps:.10g}"),
        "learning_rate_schedule_steps": training.decay_steps,
        "adam_b1": training.adam_beta1,
        "adam_b2": training.adam_beta2,
        "adam_eps": training.adam_epsilon,
        "adam_weight_decay": training.weight_decay,
        "gradient_clipping_threshold": training.clip_grad_norm or 0.0,
        "init_weights_seed": training.seed,
        "data_shuffle_seed": experiment.data.seed,
    }
    from_key = {name: key for key, name in NAMES.items()}
    from_key["cosine_learning_rate_final_fraction"] = "training.min_learning_rate"
    written = {
        name: value
        for name, value in stated.items()
        if value is not None and resolved.sources.get(from_key[name]) != SOURCE
    }
    return {
        "base_config": "base.yml",
        "run_name": experiment.name,
        **_model(experiment),
        "hardware": "gpu",
        "steps": training.steps,
        "enable_checkpointing": training.checkpointing,
        "per_device_batch_size": int(per_device) if per_device == int(per_device) else per_device,
        "gradient_accumulation_steps": layout.gradient_accumulation_steps,
        "max_target_length": training.sequence_length,
        **written,
        "dtype": DTYPES[experiment.precision.dtype],
        "quantization": options.pop("quantization", "fp8" if experiment.precision.fp8 else ""),
        **_choices(case, options),
        **_data(experiment, options),
        **_mesh(case, options),
        "param_scan_axis": 1,
        **_packing(case, options),
        "optimizer_memory_host_offload": False,
        "shardy": False,
        "enable_tensorboard": training.tracking,
        **options,
    }


def _model(experiment: Experiment) -> dict[str, Any]:
    """A model MaxText knows by name is named, since its preset overrides the file; another is spelt out."""
    model = experiment.model
    known = PRESETS.get(model.preset or "", {})
    same = all(
        getattr(model, key) == value
        for key, value in known.items()
        if key not in ("rope_scaling", "max_position_embeddings")
    )
    if model.preset in NAMED_MODELS and same:
        return {"model_name": model.preset}
    return {
        "model_name": "default",
        "decoder_block": "llama2",
        "base_emb_dim": model.hidden_size,
        "base_num_query_heads": model.num_attention_heads,
        "base_num_kv_heads": model.num_key_value_heads,
        "base_num_decoder_layers": model.num_layers,
        "base_mlp_dim": model.ffn_hidden_size,
        "head_dim": model.head_dim,
        "mlp_activations": ["silu", "linear"],
        "vocab_size": model.vocab_size,
        "enable_dropout": False,
        "logits_via_embedding": model.tied_embeddings,
        "normalization_layer_epsilon": model.norm_epsilon,
        "rope_max_timescale": int(model.rope_theta or 10000),
    }


def _choices(case: Case, options: dict[str, Any]) -> dict[str, Any]:
    experiment = case.resolved.experiment
    flash = experiment.kernels.use_flash_attn
    policies = {"full": "full", "selective": "minimal_with_context", "none": "none"}
    return {
        "weight_dtype": options.pop("weight_dtype", "float32"),
        "remat_policy": options.pop("remat_policy", policies[experiment.training.recompute]),
        "attention": options.pop("attention", "cudnn_flash_te" if flash else "dot_product"),
        "scan_layers": options.pop("scan_layers", True),
    }


def _data(experiment: Experiment, options: dict[str, Any]) -> dict[str, Any]:
    data = experiment.data
    if data.source == "uniform":
        for name in ("hf_path", "hf_train_files", "dataset_path"):
            options.pop(name, None)
        return {"dataset_type": options.pop("dataset_type", "synthetic")}
    found = {"dataset_type": options.pop("dataset_type", "hf")}
    if found["dataset_type"] == "hf":
        found |= {
            "hf_path": options.pop("hf_path", "parquet"),
            "hf_train_files": options.pop("hf_train_files", data.path),
        }
    if data.tokenizer is not None:
        found["tokenizer_path"] = options.pop("tokenizer_path", data.tokenizer)
    return found


def _packing(case: Case, options: dict[str, Any]) -> dict[str, Any]:
    """Transformer Engine's attention wants to know how many documents share a sequence; made data have none."""
    packing = options.pop("packing", case.resolved.experiment.data.source == "tokens")
    found: dict[str, Any] = {"packing": packing}
    if packing and (segments := options.pop("max_segments_per_seq", None if _old(case) else 32)) is not None:
        found["max_segments_per_seq"] = segments
    return found


def _old(case: Case) -> bool:
    """Whether the image is of 2025.

    MaxText took max_segments_per_seq in 2025-11, renamed the schedule's keys in 2026-01 and its modules in 2026-02.
    """
    container = case.resolved.platform.container
    found = re.search(r"maxtext-v(\d+)", container.image if container else "")
    return found is not None and int(found[1]) < 26


def _mesh(case: Case, options: dict[str, Any]) -> dict[str, Any]:
    """The meshes as the file has them; else tensor, context and pipeline inside a node and data over the nodes."""
    given = {name: options.pop(name) for name in list(options) if re.fullmatch(r"(ici|dcn)_\w+_parallelism", name)}
    if given:
        return given
    sizes, placement = case.resolved.experiment.parallelism, case.placement
    inside = accounting.model_parallel_size(sizes)
    left = placement.gpus_per_node // inside
    sharded = min(left, sizes.fsdp_size)
    return {
        "ici_tensor_parallelism": sizes.tensor_parallel_size,
        "ici_pipeline_parallelism": sizes.pipeline_parallel_size,
        "ici_context_parallelism": sizes.context_parallel_size,
        "ici_fsdp_parallelism": sharded,
        "ici_data_parallelism": left // sharded,
        "dcn_fsdp_parallelism": sizes.fsdp_size // sharded,
        "dcn_data_parallelism": placement.nodes // (sizes.fsdp_size // sharded),
    }


def _refusal(key: str, value: Any, able: tuple[Any, ...]) -> Refusal:
    words = ["null" if one is None else str(one).lower() if isinstance(one, bool) else str(one) for one in able]
    shown = str(value).lower() if isinstance(value, bool) else value
    return Refusal(
        key, value, f"{key} is {shown}, which MaxText does not do", " or ".join(words), f"--set {key}={words[0]}"
    )


FRAMEWORK = MaxText()
