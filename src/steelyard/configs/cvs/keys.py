"""The keys of the suite's two families of JSON configs: the meaning of each, and what reads it.

Unknown keys, types, the reference pages and `explain` all come from these tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from steelyard.experiment.thresholds import CVS_NAMES
from steelyard.frameworks.maxtext.facts import LLAMA_LAYER

LAYER_OF_LLAMA = LLAMA_LAYER
"""Keys of a JAX config that describe the layers of a Llama model."""

Kind = Literal["whole", "number", "flag", "text", "list", "mapping"]

MEGATRON: Final = "megatron"
JAX: Final = "jax"
"""The suite's families of files, as in `Reading.family`."""

NOTHING = "nothing"
"""`Key.reads` of a key that has no effect."""

THE_SUITE = "the suite itself"
"""`Key.reads` of a key that the suite's own programs read, and for which a plan has no use."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a config family."""

    kind: Kind
    meaning: str
    reads: str
    """The key of the experiment or the platform, a variable of the training program, or nothing."""
    default: str | None = None
    """The value if the key is absent; None if the key is required or has no effect."""


Keys = Mapping[str, Key]

_COMMON: Keys = {
    "container_image": Key("text", "The container image.", "platform.container.image"),
    "container_name": Key("text", "The name of the container.", "platform.container.name", "experiment name and rank"),
    "nnodes": Key(
        "whole",
        "Nodes of one job; under single_node, the number of nodes that each run their own job.",
        "platform.nodes",
    ),
    "distributed_training": Key(
        "flag", "Whether the job spans nodes. It must agree with single_node or multi_node, which decide.", NOTHING
    ),
    "hf_token_file": Key(
        "text", "File with the Hugging Face token; its content never enters the plan.", "platform.hf_token_file"
    ),
    "shm_size": Key("text", "Size of the container's /dev/shm.", "platform.container.shm_size", "64M (engine default)"),
    "data_cache_dir": Key(
        "text", "Cache for datasets; with several nodes, on a shared file system.", "platform.cache_dir"
    ),
    "mock_data": Key("flag", "Whether tokens are generated instead of read.", "data.source", "True"),
    "dataset_source": Key("mapping", "The corpus if mock_data is False: path (and name, split).", "data.path", "empty"),
    "log_dir": Key(
        "text", "Directory on the hosts for the control files of a run.", "platform.log_dir", "a directory of the login"
    ),
    "scripts_dir": Key("text", "Directory of the suite's wrapper scripts; a plan writes none.", THE_SUITE),
    "nic_type": Key("text", "Family of the network cards: ainic, thor2 or cx7.", "platform.network.nic"),
    "nccl_ib_hca_list": Key(
        "text",
        "RDMA devices (NCCL_IB_HCA), comma-separated; `rdma link` lists them.",
        "platform.network.hcas",
        "all devices",
    ),
    "nccl_ib_hca": Key(
        "text",
        "Another name of nccl_ib_hca_list; if both are set, they must agree.",
        "platform.network.hcas",
        "all devices",
    ),
    "nccl_socket_ifname": Key(
        "text",
        "Network interface for NCCL/RCCL sockets (NCCL_SOCKET_IFNAME); `ip link` lists them.",
        "platform.network.socket_interface",
    ),
    "gloo_socket_ifname": Key(
        "text",
        "Network interface for Gloo (GLOO_SOCKET_IFNAME).",
        "platform.network.gloo_interface",
        "that of nccl_socket_ifname",
    ),
    "nccl_ib_gid_index": Key(
        "whole",
        "Index in the GID table of the card (NCCL_IB_GID_INDEX); `show_gids` lists it. RoCE v2 is usually 3.",
        "platform.network.gid_index",
        "that of the NIC family",
    ),
    "nccl_debug": Key(
        "text", "Log level of NCCL/RCCL; with ERROR the log does not show which network was used.", "NCCL_DEBUG"
    ),
    "rdma_lib": Key("mapping", "Library of the network cards; a plan finds it in volume_dict.", THE_SUITE),
    "hca_id_pattern": Key("text", "Device names that the suite expects; preflight checks the devices.", THE_SUITE),
    "rocm_dir": Key("text", "The ROCm directory in the image; the image sets it.", THE_SUITE),
    "verify_network_errors": Key(
        "flag", "Whether network counters are compared; Steelyard always compares them.", THE_SUITE
    ),
    "container_config": Key("mapping", "Devices, volumes and variables of the container.", "platform.container"),
}

CONTAINER: Keys = {
    "device_list": Key("list", "Host devices that the container can access.", "platform.container.devices"),
    "volume_dict": Key("mapping", "Host paths and their paths in the container.", "platform.container.volumes"),
    "env_dict": Key("mapping", "Environment variables of the container.", "platform.container.env"),
    "engine": Key("text", "Container engine on the hosts: docker or podman.", "platform.container.engine", "docker"),
}
"""Under config.container_config."""

DATASET: Keys = {
    "path": Key("text", "Path of the tokenized corpus.", "data.path"),
    "name": Key("text", "Name of the corpus.", "data.dataset"),
    "split": Key("text", "Shares for training, validation and test.", "data.split", "100,0,0"),
}
"""Under config.dataset_source."""

_MEGATRON_CONFIG: Keys = {
    **_COMMON,
    "master_address": Key("text", "Address of host 0, where ranks meet.", "platform.network.head", "the first host"),
    "training_iterations": Key("whole", "Optimizer steps to train.", "training.steps"),
    "megatron_root": Key("text", "Directory of Megatron-LM in the image.", "platform.root", "/workspace/Megatron-LM"),
    "training_scripts": Key(
        "mapping", "Launch script by a pattern of the tokenizer's name; plans use train_llama3.sh.", "platform.script"
    ),
}

_LABELS: Keys = {
    "tokenizer_model": Key("text", "Hugging Face repository of the tokenizer, or a path.", "data.tokenizer"),
    "model_size": Key(
        "text", "Size of the model in billions; it must agree with the key of the model.", "model.preset"
    ),
}

_MEGATRON_MODEL: Keys = {
    **_LABELS,
    "batch_size": Key("whole", "Global batch, in sequences.", "training.global_batch_size"),
    "global_batch_size": Key("whole", "Another name of batch_size.", "training.global_batch_size"),
    "micro_batch_size": Key(
        "whole", "Sequences per data-parallel replica and micro-batch.", "training.micro_batch_size"
    ),
    "precision": Key("text", "TE_BF16, or TE_FP8 for bf16 with FP8 matrix products (hybrid format).", "precision.fp8"),
    "sequence_length": Key("whole", "Tokens per sequence.", "training.sequence_length"),
    "tensor_parallelism": Key("whole", "GPUs that share each matrix.", "parallelism.tensor_parallel_size", "1"),
    "pipeline_parallelism": Key(
        "whole", "GPUs that share the layers, in stages.", "parallelism.pipeline_parallel_size", "1"
    ),
    "recompute": Key("flag", "Whether all activations are recomputed in the backward pass.", "training.recompute", "0"),
    "fsdp": Key(
        "flag",
        "Whether weights are sharded over the replicas; the launch script then sets tensor_parallelism to 1.",
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
    "gpu_max_hw_queues": Key("whole", "Hardware queues per process.", "GPU_MAX_HW_QUEUES"),
    "nccl_proto": Key("text", "Protocol of NCCL/RCCL.", "NCCL_PROTO"),
    "nccl_ib_tc": Key("whole", "InfiniBand traffic class.", "NCCL_IB_TC"),
    "nccl_ib_sl": Key("whole", "InfiniBand service level.", "NCCL_IB_SL"),
    "nccl_checks_disable": Key("whole", "Whether NCCL/RCCL skips argument checks.", "NCCL_CHECKS_DISABLE"),
    "nvte_ck_bwd_v3": Key(
        "whole",
        "Whether the attention backward of Transformer Engine uses Composable Kernel version 3.",
        "NVTE_CK_USES_BWD_V3",
    ),
    "nvte_ck_v3_bf16_cvt": Key("whole", "Rounding of that kernel to bf16 (0, 1 or 2).", "NVTE_CK_HOW_V3_BF16_CVT"),
    "xla_python_client_mem_fraction": Key(
        "number", "Share of the GPU memory that XLA allocates at the start.", "XLA_PYTHON_CLIENT_MEM_FRACTION"
    ),
    "xla_gpu_executable_warn_stuck_timeout": Key(
        "whole", "Seconds after which XLA warns of a stuck program.", "XLA_FLAGS"
    ),
    "env_vars": Key("mapping", "Environment variables of the training program.", "platform.env", "none"),
    "xla_flags": Key("mapping", "XLA flags.", "XLA_FLAGS", "none"),
}

COMPILER_FLAGS = "xla_flags"
COMPILER_FLAG = "xla_gpu_executable_warn_stuck_timeout"
"""A flag of the compiler that config states by itself too."""

COPIES = (
    (("config", "coordinator_ip"), ("env", "JAX_COORDINATOR_IP")),
    (("config", "master_address"), ("env", "MASTER_ADDR")),
    (("env", "MASTER_PORT"), ("env", "JAX_COORDINATOR_PORT")),
)
"""Where the first host is stated twice: what is read, and its copy, each by its part of the file and its name."""

UNREAD_ENV: Mapping[str, str] = {
    "JAX_DISTRIBUTED_INITIALIZATION_TIMEOUT_SECONDS": "jax_distributed_initialization_timeout",
    "JAX_DISTRIBUTED_HEARTBEAT_TIMEOUT_SECONDS": "",
    "JAX_COORDINATOR_ADDRESS": "",
    "TE_BF16": "",
    "TE_F16": "",
    "NVTE_CK_BWD_V3": "",
    "NVTE_CK_V3_BF16_CVT": "",
}
"""Variables that nothing reads on GPUs, and the MaxText key to use instead, if there is one."""

AXES = {
    "data": ("each hold a whole replica", "data_parallel_size"),
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
"""Axes of both meshes: what their GPUs or nodes do, and the parallel size that they multiply."""

LEFT_OVER = -1
"""An axis that takes what the others leave."""

REST_AXIS = {"ici": "fsdp", "dcn": "data"}
"""By mesh, the axis that takes the remaining devices by default."""

_MESH: Keys = {
    f"{net}_{axis}_parallelism": Key(
        "whole",
        f"{ranks} that {share}; {LEFT_OVER} for all remaining.",
        f"parallelism.{size}",
        str(LEFT_OVER) if axis == REST_AXIS[net] else "1",
    )
    for net, ranks in (("ici", "GPUs of a node"), ("dcn", "Nodes"))
    for axis, (share, size) in AXES.items()
}

_PRESET: Mapping[str, tuple[Kind, str, str]] = {
    "base_emb_dim": ("whole", "Width of the residual stream.", "model.hidden_size"),
    "base_num_query_heads": ("whole", "Query heads.", "model.num_attention_heads"),
    "base_num_kv_heads": ("whole", "Key and value heads.", "model.num_key_value_heads"),
    "base_num_decoder_layers": ("whole", "Layers.", "model.num_layers"),
    "base_mlp_dim": ("whole", "Width inside the feed-forward block.", "model.ffn_hidden_size"),
    "head_dim": ("whole", "Width of one head.", "model.head_dim"),
    "vocab_size": ("whole", "Tokens in the vocabulary.", "model.vocab_size"),
    "normalization_layer_epsilon": ("number", "Epsilon of the norms.", "model.norm_epsilon"),
    "rope_max_timescale": ("number", "Base of the rotary frequencies.", "model.rope_theta"),
    "logits_via_embedding": ("flag", "Whether embeddings are tied.", "model.tied_embeddings"),
    "decoder_block": ("text", "Type of layer; Llama 3.1 uses MaxText's llama2 block.", "model.architecture"),
    "mlp_activations": ("list", "Activations of the feed-forward block.", "model.architecture"),
}
"""MaxText reads them from the preset of model_name after the file, so the file cannot change them."""

PRESET_KEYS: Keys = {name: Key(*row, "value of the model") for name, row in _PRESET.items()}

DIMENSIONS: Mapping[str, str] = {
    name: key.reads for name, key in PRESET_KEYS.items() if key.reads != "model.architecture"
}
"""Dimensions in a JAX file and the key of the experiment for each."""

_PASSED_ON: Mapping[str, tuple[Kind, str, str]] = {
    "use_iota_embed": ("flag", "Whether embeddings use a matrix product with one-hot vectors.", "False"),
    "scan_layers": ("flag", "Whether one layer is compiled and scanned over.", "True"),
    "hf_path": ("text", "Hugging Face dataset, or the format of hf_train_files.", "none"),
    "hf_train_files": ("text", "Files of the corpus, such as the parquet files of C4.", "none"),
    "grain_train_files": ("text", "Files of the corpus for Grain.", "none"),
    "hf_data_dir": ("text", "Subset of a Hugging Face dataset.", "none"),
    "dataset_path": ("text", "Path of a tfds dataset.", "none"),
    "tokenizer_path": ("text", "Tokenizer file or repository; not read with synthetic data.", "MaxText's default"),
    "tokenizer_type": ("text", "Class of the tokenizer.", "sentencepiece"),
    "async_checkpointing": ("flag", "Whether checkpoints are written in the background.", "True"),
    "logits_dot_in_fp32": ("flag", "Whether logits are computed in fp32.", "False"),
    "megablox": ("flag", "Whether mixture-of-experts layers use grouped matrix products.", "True"),
    "quantize_kvcache": ("flag", "Only for decoding.", "False"),
    "kv_quant_axis": ("text", "Only for decoding.", "heads_and_dkv"),
    "kv_quant_dtype": ("text", "Only for decoding.", "int8"),
    "checkpoint_is_quantized": ("flag", "Only for decoding.", "False"),
    "skip_first_n_steps_for_profiler": ("whole", "Steps before the profile starts.", "1"),
    "profiler": ("text", "Type of profile.", "none"),
    "enable_dropout": ("flag", "Whether dropout is on; its rate is 0 unless given.", "False"),
    "hardware": ("text", "gpu, tpu or cpu.", "gpu"),
    "optimizer_memory_host_offload": ("flag", "Whether optimizer state is kept in host memory.", "False"),
    "param_scan_axis": ("whole", "Axis along which layers are stacked.", "1"),
    "shardy": ("flag", "Whether XLA uses its newer partitioner.", "False (for ROCm images)"),
    "packing": ("flag", "Whether several documents share a sequence.", "True"),
    "max_segments_per_seq": ("whole", "Largest number of documents per sequence.", "32 with packing"),
    "enable_goodput_recording": ("flag", "Whether goodput is recorded (in a cloud).", "False"),
    "monitor_goodput": ("flag", "Whether goodput is monitored (in a cloud).", "False"),
    "opt_type": ("text", "The optimizer.", "adamw"),
    "grad_dtype": ("text", "Format of gradients.", "format of the weights"),
    "override_model_config": ("flag", "Whether dimensions on the command line override the preset.", "False"),
    "mu_dtype": ("text", "Format of Adam's first moment.", "weight_dtype"),
    "log_period": ("whole", "Steps between two writes of metrics.", "100"),
    "jax_distributed_initialization_timeout": ("whole", "Seconds to wait for all nodes.", "300"),
}

_JAX_MODEL: Keys = {
    **_LABELS,
    **_MESH,
    "attention": Key("text", "Attention kernel.", "kernels.use_flash_attn", "autoselected"),
    "remat_policy": Key(
        "text",
        "What is recomputed in the backward pass; with scanned layers `none` recomputes everything.",
        "training.recompute",
        "full",
    ),
    "dataset_type": Key("text", "synthetic, hf, grain or tfds.", "data.source", "tfds"),
    "dtype": Key("text", "Format of activations and matrix products.", "precision.dtype", "bfloat16"),
    "weight_dtype": Key("text", "Format of weights and of Adam's moments.", "MaxText's weight_dtype", "float32"),
    "quantization": Key(
        "text", "Format of quantized matrix products, such as fp8; empty for none.", "precision.fp8", "none"
    ),
    "per_device_batch_size": Key(
        "number", "Sequences per GPU; the global batch is this x all GPUs.", "training.global_batch_size"
    ),
    "gradient_accumulation_steps": Key("whole", "Micro-batches per step.", "training.global_batch_size", "1"),
    "max_target_length": Key("whole", "Tokens per sequence.", "training.sequence_length"),
    "learning_rate": Key("number", "Peak learning rate.", "training.learning_rate", "3e-5"),
    "learning_rate_final_fraction": Key(
        "number", "Final learning rate as a share of the peak.", "training.min_learning_rate", "0.1"
    ),
    "cosine_learning_rate_final_fraction": Key(
        "number", "Older name of learning_rate_final_fraction.", "training.min_learning_rate", "0.1"
    ),
    "warmup_steps_fraction": Key("number", "Warm-up as a share of the steps.", "training.warmup_steps", "0.1"),
    "learning_rate_schedule_steps": Key(
        "whole", "Steps of the schedule; -1 for all steps.", "training.decay_steps", "-1"
    ),
    "adam_b1": Key("number", "Decay of AdamW's first moment.", "training.adam_beta1", "0.9"),
    "adam_b2": Key("number", "Decay of AdamW's second moment.", "training.adam_beta2", "0.95"),
    "adam_eps": Key("number", "Epsilon of AdamW.", "training.adam_epsilon", "1e-8"),
    "adam_weight_decay": Key("number", "Weight decay of all parameters.", "training.weight_decay", "0.1"),
    "gradient_clipping_threshold": Key(
        "number", "Largest gradient norm; larger gradients are scaled down.", "training.clip_grad_norm", "1.0"
    ),
    "init_weights_seed": Key("whole", "Seed of the initial weights.", "training.seed", "0"),
    "data_shuffle_seed": Key("whole", "Seed of the order of a corpus.", "data.seed", "0"),
    **{name: Key(kind, meaning, f"MaxText's {name}", default) for name, (kind, meaning, default) in _PASSED_ON.items()},
    **PRESET_KEYS,
    "xla_flags": Key("mapping", "XLA flags.", "XLA_FLAGS", "none"),
    "batch_size": Key("whole", "per_device_batch_size decides the global batch.", NOTHING),
    "micro_batch_size": Key("whole", "per_device_batch_size decides.", NOTHING),
    "precision": Key("text", "dtype, weight_dtype and quantization decide.", NOTHING),
    "sequence_length": Key("whole", "max_target_length decides.", NOTHING),
    "tensor_parallelism": Key("whole", "ici_tensor_parallelism decides.", NOTHING),
    "pipeline_parallelism": Key("whole", "ici_pipeline_parallelism decides.", NOTHING),
    "recompute": Key("flag", "remat_policy decides.", NOTHING),
    "fsdp": Key("flag", "ici_fsdp_parallelism decides.", NOTHING),
    "result_dict": Key("mapping", "Thresholds of the run.", "thresholds"),
}

_BOUNDS = {
    "reported_tflops_per_gpu": "Lower limit, in TFLOP/s per GPU as the framework prints them.",
    "tokens_per_s_per_gpu": "Lower limit, in tokens/s per GPU.",
    "step_time_s": "Upper limit, in milliseconds per step.",
}
RESULTS: Keys = {
    name: Key("number", _BOUNDS[metric], f"{metric}{direction}") for name, (metric, direction, _) in CVS_NAMES.items()
}
"""Under result_dict. The metric decides the direction of the limit."""

TABLES: Mapping[str, tuple[Keys, Keys]] = {
    MEGATRON: (_MEGATRON_CONFIG, _MEGATRON_MODEL),
    JAX: (_JAX_CONFIG, _JAX_MODEL),
}
"""By family: the keys of `config`, and of a model on a GPU."""
