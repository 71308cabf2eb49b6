"""The keys of the suite's two families of JSON configs: what each means and what reads it.

Unknown keys, types, the reference pages and `explain` all come from these tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from steelyard.experiment.thresholds import CVS_NAMES

Kind = Literal["whole", "number", "flag", "text", "list", "mapping"]

MEGATRON: Final = "megatron"
JAX: Final = "jax"
"""Families of the suite's files, by what `Reading.family` calls them."""

NOTHING = "nothing"
"""What reads a key that changes nothing wherever it is put."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a config family."""

    kind: Kind
    meaning: str
    reads: str
    """The experiment's dotted key, the platform's, a variable of the training program, or nothing."""
    default: str | None = None
    """What holds where it is absent; None where it must be given or has no effect."""


Keys = Mapping[str, Key]

_COMMON: Keys = {
    "container_image": Key("text", "Image the training runs in.", "platform.container.image"),
    "container_name": Key(
        "text", "Name of the container.", "platform.container.name", "the experiment's name and the rank"
    ),
    "nnodes": Key(
        "whole", "Nodes of one job; under single_node, how many nodes each run a job of their own.", "platform.nodes"
    ),
    "distributed_training": Key(
        "flag", "Whether the job spans nodes; single_node or multi_node decides, and it must agree.", NOTHING
    ),
    "hf_token_file": Key(
        "text", "File that holds the Hugging Face token; its content stays out of the plan.", "platform.hf_token_file"
    ),
    "shm_size": Key("text", "Size of the container's /dev/shm.", "platform.container.shm_size", "64M, the engine's"),
    "data_cache_dir": Key(
        "text", "Cache of datasets, on a file system all nodes see where there are several.", "platform.cache_dir"
    ),
    "mock_data": Key("flag", "Whether tokens are made up instead of read.", "data.source", "True"),
    "dataset_source": Key(
        "mapping", "The corpus, where mock_data is False: path (and name, split).", "data.path", "empty"
    ),
    "log_dir": Key("text", "Directory of the hosts for a run's control files.", "platform.log_dir", "the login's own"),
    "scripts_dir": Key("text", "Directory for wrapper scripts, which a plan does not need.", NOTHING),
    "nic_type": Key("text", "Family of the network cards: ainic, thor2 or cx7.", "platform.network.nic"),
    "nccl_ib_hca_list": Key(
        "text",
        "RDMA devices (NCCL_IB_HCA), separated by commas; `rdma link` lists them.",
        "platform.network.hcas",
        "all",
    ),
    "nccl_ib_hca": Key(
        "text", "RDMA devices once more; where both are given they must agree.", "platform.network.hcas", "all"
    ),
    "nccl_socket_ifname": Key(
        "text",
        "Interface of the collective library's sockets (NCCL_SOCKET_IFNAME); `ip link` lists them.",
        "platform.network.socket_interface",
    ),
    "gloo_socket_ifname": Key(
        "text", "Interface of Gloo (GLOO_SOCKET_IFNAME).", "platform.network.gloo_interface", "nccl_socket_ifname"
    ),
    "nccl_ib_gid_index": Key(
        "whole",
        "Entry of the card's GID table (NCCL_IB_GID_INDEX); `show_gids` lists them, and RoCE v2 is 3 as a rule.",
        "platform.network.gid_index",
        "the NIC family's own",
    ),
    "nccl_debug": Key(
        "text", "Log level of the collective library; at ERROR nothing proves which network was used.", "NCCL_DEBUG"
    ),
    "rdma_lib": Key("text", "Library of the network cards; the NIC's family decides.", NOTHING),
    "hca_id_pattern": Key("text", "Pattern of device names that another suite greps for.", NOTHING),
    "rocm_dir": Key("text", "ROCm's directory in the image, which the image knows itself.", NOTHING),
    "verify_network_errors": Key("flag", "Whether network counters are compared; Steelyard always does.", NOTHING),
    "container_config": Key("mapping", "Devices, volumes and variables of the container.", "platform.container"),
}

CONTAINER: Keys = {
    "device_list": Key("list", "Device nodes of the host the container sees.", "platform.container.devices"),
    "volume_dict": Key("mapping", "Paths of the host and where the container sees them.", "platform.container.volumes"),
    "env_dict": Key("mapping", "Variables of the container.", "platform.container.env"),
    "engine": Key("text", "Engine of the hosts: docker or podman.", "platform.container.engine", "docker"),
}
"""Under config.container_config."""

DATASET: Keys = {
    "path": Key("text", "Where the tokenized corpus lies.", "data.path"),
    "name": Key("text", "What a person calls the corpus.", "data.dataset"),
    "split": Key("text", "Shares for training, validation and test.", "data.split", "100,0,0"),
}
"""Under config.dataset_source."""

_MEGATRON_CONFIG: Keys = {
    **_COMMON,
    "master_address": Key("text", "Address of host 0, where ranks meet.", "platform.network.head", "the first host"),
    "training_iterations": Key("whole", "Optimizer steps to train.", "training.steps"),
    "megatron_root": Key("text", "Where Megatron-LM lies in the image.", "platform.root", "/workspace/Megatron-LM"),
    "training_scripts": Key(
        "mapping", "Launch script by a pattern on the tokenizer's name; the model's key decides instead.", NOTHING
    ),
}

_LABELS: Keys = {
    "tokenizer_model": Key("text", "Hugging Face repository of the tokenizer, or a path.", "data.tokenizer"),
    "model_size": Key("text", "Size of the model in billions; it must agree with the model's key.", "model.preset"),
}

_MEGATRON_MODEL: Keys = {
    **_LABELS,
    "batch_size": Key("whole", "Global batch in sequences.", "training.global_batch_size"),
    "global_batch_size": Key("whole", "Another name of batch_size.", "training.global_batch_size"),
    "micro_batch_size": Key("whole", "Sequences a data-parallel replica takes at once.", "training.micro_batch_size"),
    "precision": Key("text", "TE_BF16, or TE_FP8 for bf16 with FP8 matrix products (hybrid).", "precision.fp8"),
    "sequence_length": Key("whole", "Tokens a sequence.", "training.sequence_length"),
    "tensor_parallelism": Key("whole", "GPUs that share each matrix.", "parallelism.tensor_parallel_size", "1"),
    "pipeline_parallelism": Key("whole", "GPUs that share the layers.", "parallelism.pipeline_parallel_size", "1"),
    "recompute": Key("flag", "Whether activations are computed again (full).", "training.recompute", "0"),
    "fsdp": Key(
        "flag",
        "Whether weights are sharded over the replicas; the launch script then forces tensor_parallelism to 1.",
        "parallelism.fsdp_size",
        "0",
    ),
    "result_dict": Key("mapping", "Thresholds of the run.", "thresholds"),
}

_JAX_CONFIG: Keys = {
    **_COMMON,
    "coordinator_ip": Key("text", "Address of host 0, where ranks meet.", "platform.network.head", "the first host"),
    "training_steps": Key("whole", "Optimizer steps to train.", "training.steps"),
    "enable_checkpointing": Key("flag", "Whether checkpoints are written.", "training.checkpointing", "False"),
    "gpu_max_hw_queues": Key("whole", "Hardware queues a process may use.", "GPU_MAX_HW_QUEUES"),
    "nccl_proto": Key("text", "Protocol of the collective library.", "NCCL_PROTO"),
    "nccl_ib_tc": Key("whole", "Traffic class.", "NCCL_IB_TC"),
    "nccl_ib_sl": Key("whole", "Service level.", "NCCL_IB_SL"),
    "nccl_checks_disable": Key("whole", "Whether argument checks are left out.", "NCCL_CHECKS_DISABLE"),
    "nvte_ck_bwd_v3": Key(
        "whole",
        "Whether Transformer Engine's attention backward takes Composable Kernel's version 3.",
        "NVTE_CK_USES_BWD_V3",
    ),
    "nvte_ck_v3_bf16_cvt": Key("whole", "How that kernel rounds to bf16 (0, 1 or 2).", "NVTE_CK_HOW_V3_BF16_CVT"),
    "xla_python_client_mem_fraction": Key(
        "number", "Share of the GPU's memory XLA takes at once.", "XLA_PYTHON_CLIENT_MEM_FRACTION"
    ),
    "xla_gpu_executable_warn_stuck_timeout": Key("whole", "Seconds before XLA warns of a stuck program.", "XLA_FLAGS"),
    "env_vars": Key("mapping", "Variables of the training program.", "platform.env", "none"),
    "xla_flags": Key("mapping", "XLA's flags.", "XLA_FLAGS", "none"),
}

UNREAD_ENV: Mapping[str, str] = {
    "JAX_DISTRIBUTED_INITIALIZATION_TIMEOUT_SECONDS": "jax_distributed_initialization_timeout",
    "JAX_DISTRIBUTED_HEARTBEAT_TIMEOUT_SECONDS": "",
    "JAX_COORDINATOR_ADDRESS": "",
    "TE_BF16": "",
    "TE_F16": "",
    "NVTE_CK_BWD_V3": "",
    "NVTE_CK_V3_BF16_CVT": "",
}
"""Variables nothing on the GPU path reads, and the MaxText key that does what was meant, where there is one."""

AXES = {
    "data": ("hold whole replicas", "data_parallel_size"),
    "fsdp": ("share weights, gradients and optimizer state", "fsdp_size"),
    "tensor": ("share each matrix", "tensor_parallel_size"),
    "pipeline": ("share the layers", "pipeline_parallel_size"),
    "sequence": ("share each sequence", "context_parallel_size"),
    "context": ("share each sequence, in attention too", "context_parallel_size"),
    "fsdp_transpose": ("share weights along their other axis", "fsdp_size"),
    "tensor_transpose": ("share each matrix along its other axis", "tensor_parallel_size"),
    "tensor_sequence": ("share each matrix and its sequence", "tensor_parallel_size"),
    "expert": ("share the experts of a layer", "data_parallel_size"),
    "autoregressive": ("share decoding", "tensor_parallel_size"),
}
"""Of both meshes: what its GPUs or nodes do, and the size of ours they count to."""

REST_AXIS = {"ici": "fsdp", "dcn": "data"}
"""By mesh, the axis that takes what is left where the file says nothing."""

_MESH: Keys = {
    f"{net}_{axis}_parallelism": Key(
        "whole",
        f"{ranks} that {share}; -1 for what is left.",
        f"parallelism.{size}",
        "-1" if axis == REST_AXIS[net] else "1",
    )
    for net, ranks in (("ici", "GPUs of a node"), ("dcn", "Nodes"))
    for axis, (share, size) in AXES.items()
}

_PRESET: Mapping[str, tuple[Kind, str, str]] = {
    "base_emb_dim": ("whole", "Width of the residual stream.", "model.hidden_size"),
    "base_num_query_heads": ("whole", "Query heads.", "model.num_attention_heads"),
    "base_num_kv_heads": ("whole", "Key and value heads.", "model.num_key_value_heads"),
    "base_num_decoder_layers": ("whole", "Layers.", "model.num_layers"),
    "base_mlp_dim": ("whole", "Inner width of the feed-forward block.", "model.ffn_hidden_size"),
    "head_dim": ("whole", "Width of one head.", "model.head_dim"),
    "vocab_size": ("whole", "Tokens in the vocabulary.", "model.vocab_size"),
    "normalization_layer_epsilon": ("number", "Added to the variance.", "model.norm_epsilon"),
    "rope_max_timescale": ("number", "Base of the rotary frequencies.", "model.rope_theta"),
    "logits_via_embedding": ("flag", "Whether embeddings are tied.", "model.tied_embeddings"),
    "decoder_block": ("text", "Kind of layer; Llama 3.1 is MaxText's llama2 block.", "model.architecture"),
    "mlp_activations": ("list", "Activations of the feed-forward block.", "model.architecture"),
}
"""MaxText takes them from the preset of model_name, which comes after the file: here they can only agree with it."""

PRESET_KEYS: Keys = {name: Key(*row, "the model's") for name, row in _PRESET.items()}

DIMENSIONS: Mapping[str, str] = {
    name: key.reads for name, key in PRESET_KEYS.items() if key.reads != "model.architecture"
}
"""Dimensions of a JAX file and the experiment's key for each."""

_PASSED_ON: Mapping[str, tuple[Kind, str, str]] = {
    "use_iota_embed": ("flag", "Embed by a matrix product with one-hot vectors.", "False"),
    "scan_layers": ("flag", "Compile one layer and scan over it.", "True"),
    "hf_path": ("text", "Hugging Face dataset, or the format of hf_train_files.", "none"),
    "hf_train_files": ("text", "Files of the corpus, such as C4's parquet files.", "none"),
    "grain_train_files": ("text", "Files of the corpus for Grain.", "none"),
    "hf_data_dir": ("text", "Part of a Hugging Face dataset.", "none"),
    "dataset_path": ("text", "Where a tfds dataset lies.", "none"),
    "tokenizer_path": ("text", "Tokenizer file or repository; not read with synthetic data.", "MaxText's own"),
    "tokenizer_type": ("text", "Class of the tokenizer.", "sentencepiece"),
    "async_checkpointing": ("flag", "Whether checkpoints are written beside training.", "True"),
    "logits_dot_in_fp32": ("flag", "Whether logits are computed in fp32.", "False"),
    "megablox": ("flag", "Grouped products of mixture-of-experts layers.", "True"),
    "quantize_kvcache": ("flag", "Only for decoding.", "False"),
    "kv_quant_axis": ("text", "Only for decoding.", "heads_and_dkv"),
    "kv_quant_dtype": ("text", "Only for decoding.", "int8"),
    "checkpoint_is_quantized": ("flag", "Only for decoding.", "False"),
    "skip_first_n_steps_for_profiler": ("whole", "Steps before a profile starts.", "1"),
    "profiler": ("text", "Kind of profile.", "none"),
    "enable_dropout": ("flag", "Whether dropout is on; its rate is 0 unless given.", "False"),
    "hardware": ("text", "gpu, tpu or cpu.", "gpu"),
    "optimizer_memory_host_offload": ("flag", "Optimizer state in host memory.", "False"),
    "param_scan_axis": ("whole", "Axis layers are stacked on.", "1"),
    "shardy": ("flag", "XLA's newer partitioner.", "False, for ROCm's images"),
    "packing": ("flag", "Whether several documents share a sequence.", "True"),
    "max_segments_per_seq": ("whole", "Documents that may share a sequence.", "32 where there is packing"),
    "enable_goodput_recording": ("flag", "Whether goodput is recorded in a cloud.", "False"),
    "monitor_goodput": ("flag", "Whether goodput is watched in a cloud.", "False"),
    "opt_type": ("text", "The optimizer.", "adamw"),
    "grad_dtype": ("text", "Format of gradients.", "the weights'"),
    "override_model_config": ("flag", "Whether a dimension of the command line beats the preset.", "False"),
    "mu_dtype": ("text", "Format of Adam's first moment.", "weight_dtype's"),
    "log_period": ("whole", "Steps between writes of metrics.", "100"),
    "jax_distributed_initialization_timeout": ("whole", "Seconds nodes are waited for.", "300"),
}

_JAX_MODEL: Keys = {
    **_LABELS,
    **_MESH,
    "attention": Key("text", "Attention kernel.", "kernels.use_flash_attn", "autoselected"),
    "remat_policy": Key(
        "text",
        "What is recomputed in the backward pass; `none` recomputes everything where layers are scanned.",
        "training.recompute",
        "full",
    ),
    "dataset_type": Key("text", "synthetic, hf, grain or tfds.", "data.source", "tfds"),
    "dtype": Key("text", "Format of activations and products.", "precision.dtype", "bfloat16"),
    "weight_dtype": Key("text", "Format weights and Adam's moments are kept in.", "MaxText's weight_dtype", "float32"),
    "quantization": Key("text", "fp8 or nothing.", "precision.fp8", "none"),
    "per_device_batch_size": Key(
        "number", "Sequences a GPU; the global batch is this times all GPUs.", "training.global_batch_size"
    ),
    "gradient_accumulation_steps": Key("whole", "Micro-batches before a step.", "training.global_batch_size", "1"),
    "max_target_length": Key("whole", "Tokens a sequence.", "training.sequence_length"),
    "learning_rate": Key("number", "The peak learning rate.", "training.learning_rate", "3e-5"),
    "learning_rate_final_fraction": Key(
        "number", "Share of it the schedule ends at.", "training.min_learning_rate", "0.1"
    ),
    "cosine_learning_rate_final_fraction": Key(
        "number", "Older name of learning_rate_final_fraction.", "training.min_learning_rate", "0.1"
    ),
    "warmup_steps_fraction": Key("number", "Share of the steps that warm up.", "training.warmup_steps", "0.1"),
    "learning_rate_schedule_steps": Key("whole", "Steps of the schedule; -1 for all.", "training.decay_steps", "-1"),
    "adam_b1": Key("number", "Decay of AdamW's first moment.", "training.adam_beta1", "0.9"),
    "adam_b2": Key("number", "Decay of AdamW's second moment.", "training.adam_beta2", "0.95"),
    "adam_eps": Key("number", "Added to the root of the second moment.", "training.adam_epsilon", "1e-8"),
    "adam_weight_decay": Key("number", "Decay of all parameters.", "training.weight_decay", "0.1"),
    "gradient_clipping_threshold": Key("number", "Norm gradients are clipped to.", "training.clip_grad_norm", "1.0"),
    "init_weights_seed": Key("whole", "Seeds the weights.", "training.seed", "0"),
    "data_shuffle_seed": Key("whole", "Seeds the order of a corpus.", "data.seed", "0"),
    **{name: Key(kind, meaning, f"MaxText's {name}", default) for name, (kind, meaning, default) in _PASSED_ON.items()},
    **PRESET_KEYS,
    "xla_flags": Key("mapping", "XLA's flags.", "XLA_FLAGS", "none"),
    "batch_size": Key("whole", "Nothing: per_device_batch_size decides the global batch.", NOTHING),
    "micro_batch_size": Key("whole", "Nothing: per_device_batch_size decides.", NOTHING),
    "precision": Key("text", "Nothing: dtype, weight_dtype and quantization decide.", NOTHING),
    "sequence_length": Key("whole", "Nothing: max_target_length decides.", NOTHING),
    "tensor_parallelism": Key("whole", "Nothing: ici_tensor_parallelism decides.", NOTHING),
    "pipeline_parallelism": Key("whole", "Nothing: ici_pipeline_parallelism decides.", NOTHING),
    "recompute": Key("flag", "Nothing: remat_policy decides.", NOTHING),
    "fsdp": Key("flag", "Nothing: ici_fsdp_parallelism decides.", NOTHING),
    "result_dict": Key("mapping", "Thresholds of the run.", "thresholds"),
}

_BOUNDS = {
    "tflops_per_gpu": "At least so many TFLOP/s a GPU.",
    "tokens_per_s_per_gpu": "At least so many tokens/s a GPU.",
    "step_time_s": "At most so many milliseconds a step.",
}
RESULTS: Keys = {
    name: Key("number", _BOUNDS[metric], f"{metric}{direction}") for name, (metric, direction, _) in CVS_NAMES.items()
}
"""Under result_dict. The direction is the metric's nature, whatever a suite compared with what."""

TABLES: Mapping[str, tuple[Keys, Keys]] = {
    MEGATRON: (_MEGATRON_CONFIG, _MEGATRON_MODEL),
    JAX: (_JAX_CONFIG, _JAX_MODEL),
}
"""By family: the keys of its general part, and of its models."""
