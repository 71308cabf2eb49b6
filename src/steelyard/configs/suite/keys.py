"""The keys of the suite's two families of JSON configs: what each means and what reads it.

Unknown keys, types, the reference pages and `explain` all come from these tables.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Kind = Literal["whole", "number", "flag", "text", "list", "mapping"]

MEGATRON: Final = "megatron"
JAX: Final = "jax"
"""Families of the suite's files, by what `Reading.family` calls them."""

NOTHING = "nothing"
"""What reads a key that changes nothing wherever it is put."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a config family."""

    name: str
    kind: Kind
    meaning: str
    reads: str
    """The experiment's dotted key, the platform's, a variable of the training program, or nothing."""
    default: str | None = None
    """What holds where it is absent; None where it must be given or has no effect."""


def _table(keys: Iterable[Key]) -> Mapping[str, Key]:
    return MappingProxyType({key.name: key for key in keys})


_COMMON = (
    Key("container_image", "text", "Image the training runs in.", "platform.container.image"),
    Key(
        "container_name",
        "text",
        "Name of the container.",
        "platform.container.name",
        "the experiment's name and the rank",
    ),
    Key(
        "nnodes",
        "whole",
        "Nodes of one job; under single_node, how many nodes each run a job of their own.",
        "platform.nodes",
    ),
    Key(
        "distributed_training",
        "flag",
        "Whether the job spans nodes; single_node or multi_node decides, and it must agree.",
        NOTHING,
    ),
    Key(
        "hf_token_file",
        "text",
        "File that holds the Hugging Face token; its content stays out of the plan.",
        "platform.hf_token_file",
    ),
    Key("shm_size", "text", "Size of the container's /dev/shm.", "platform.container.shm_size", "64M, the engine's"),
    Key(
        "data_cache_dir",
        "text",
        "Cache of datasets, on a file system all nodes see where there are several.",
        "platform.cache_dir",
    ),
    Key("mock_data", "flag", "Whether tokens are made up instead of read.", "data.source", "True"),
    Key(
        "dataset_source",
        "mapping",
        "The corpus, where mock_data is False: path (and name, split).",
        "data.path",
        "empty",
    ),
    Key("log_dir", "text", "Directory of the hosts for a run's control files.", "platform.log_dir", "the login's own"),
    Key("scripts_dir", "text", "Directory for wrapper scripts, which a plan does not need.", NOTHING),
    Key("nic_type", "text", "Family of the network cards: ainic, thor2 or cx7.", "platform.network.nic"),
    Key(
        "nccl_ib_hca_list",
        "text",
        "RDMA devices (NCCL_IB_HCA), separated by commas; `rdma link` lists them.",
        "platform.network.hcas",
        "all",
    ),
    Key(
        "nccl_ib_hca",
        "text",
        "RDMA devices once more; where both are given they must agree.",
        "platform.network.hcas",
        "all",
    ),
    Key(
        "nccl_socket_ifname",
        "text",
        "Interface of the collective library's sockets (NCCL_SOCKET_IFNAME); `ip link` lists them.",
        "platform.network.socket_interface",
    ),
    Key(
        "gloo_socket_ifname",
        "text",
        "Interface of Gloo (GLOO_SOCKET_IFNAME).",
        "platform.network.gloo_interface",
        "nccl_socket_ifname",
    ),
    Key(
        "nccl_ib_gid_index",
        "whole",
        "Entry of the card's GID table (NCCL_IB_GID_INDEX); `show_gids` lists them, and RoCE v2 is 3 as a rule.",
        "platform.network.gid_index",
        "the NIC family's own",
    ),
    Key(
        "nccl_debug",
        "text",
        "Log level of the collective library; at ERROR nothing proves which network was used.",
        "NCCL_DEBUG",
    ),
    Key("rdma_lib", "text", "Library of the network cards; the NIC's family decides.", NOTHING),
    Key("hca_id_pattern", "text", "Pattern of device names that another suite greps for.", NOTHING),
    Key("rocm_dir", "text", "ROCm's directory in the image, which the image knows itself.", NOTHING),
    Key(
        "verify_network_errors",
        "flag",
        "Whether network counters are compared; Steelyard always does.",
        NOTHING,
    ),
    Key("container_config", "mapping", "Devices, volumes and variables of the container.", "platform.container"),
)

CONTAINER = _table(
    (
        Key("device_list", "list", "Device nodes of the host the container sees.", "platform.container.devices"),
        Key(
            "volume_dict",
            "mapping",
            "Paths of the host and where the container sees them.",
            "platform.container.volumes",
        ),
        Key("env_dict", "mapping", "Variables of the container.", "platform.container.env"),
        Key("engine", "text", "Engine of the hosts: docker or podman.", "platform.container.engine", "docker"),
    )
)
"""Under config.container_config."""

DATASET = _table(
    (
        Key("path", "text", "Where the tokenized corpus lies.", "data.path"),
        Key("name", "text", "What a person calls the corpus.", "data.dataset"),
        Key("split", "text", "Shares for training, validation and test.", "data.split", "100,0,0"),
    )
)
"""Under config.dataset_source."""

MEGATRON_CONFIG = _table(
    (
        *_COMMON,
        Key(
            "master_address", "text", "Address of host 0, where ranks meet.", "platform.network.head", "the first host"
        ),
        Key("training_iterations", "whole", "Optimizer steps to train.", "training.steps"),
        Key(
            "megatron_root",
            "text",
            "Where Megatron-LM lies in the image.",
            "platform.root",
            "/workspace/Megatron-LM",
        ),
        Key(
            "training_scripts",
            "mapping",
            "Launch script by a pattern on the tokenizer's name; the model's key decides instead.",
            NOTHING,
        ),
    )
)

_LABELS = (
    Key("tokenizer_model", "text", "Hugging Face repository of the tokenizer, or a path.", "data.tokenizer"),
    Key("model_size", "text", "Size of the model in billions; it must agree with the model's key.", "model.preset"),
)

MEGATRON_MODEL = _table(
    (
        *_LABELS,
        Key("batch_size", "whole", "Global batch in sequences.", "training.global_batch_size"),
        Key("global_batch_size", "whole", "Another name of batch_size.", "training.global_batch_size"),
        Key(
            "micro_batch_size",
            "whole",
            "Sequences a data-parallel replica takes at once.",
            "training.micro_batch_size",
        ),
        Key(
            "precision",
            "text",
            "TE_BF16, or TE_FP8 for bf16 with FP8 matrix products (hybrid).",
            "precision.fp8",
        ),
        Key("sequence_length", "whole", "Tokens a sequence.", "training.sequence_length"),
        Key(
            "tensor_parallelism",
            "whole",
            "GPUs that share each matrix.",
            "parallelism.tensor_parallel_size",
            "1",
        ),
        Key(
            "pipeline_parallelism",
            "whole",
            "GPUs that share the layers.",
            "parallelism.pipeline_parallel_size",
            "1",
        ),
        Key("recompute", "flag", "Whether activations are computed again (full).", "training.recompute", "0"),
        Key(
            "fsdp",
            "flag",
            "Whether weights are sharded over the replicas; the launch script then forces tensor_parallelism to 1.",
            "parallelism.fsdp_size",
            "0",
        ),
        Key("result_dict", "mapping", "Thresholds of the run.", "thresholds"),
    )
)

JAX_CONFIG = _table(
    (
        *_COMMON,
        Key(
            "coordinator_ip", "text", "Address of host 0, where ranks meet.", "platform.network.head", "the first host"
        ),
        Key("training_steps", "whole", "Optimizer steps to train.", "training.steps"),
        Key("enable_checkpointing", "flag", "Whether checkpoints are written.", "training.checkpointing", "False"),
        Key("gpu_max_hw_queues", "whole", "Hardware queues a process may use.", "GPU_MAX_HW_QUEUES"),
        Key("nccl_proto", "text", "Protocol of the collective library.", "NCCL_PROTO"),
        Key("nccl_ib_tc", "whole", "Traffic class.", "NCCL_IB_TC"),
        Key("nccl_ib_sl", "whole", "Service level.", "NCCL_IB_SL"),
        Key("nccl_checks_disable", "whole", "Whether argument checks are left out.", "NCCL_CHECKS_DISABLE"),
        Key(
            "nvte_ck_bwd_v3",
            "whole",
            "Whether Transformer Engine's attention backward takes Composable Kernel's version 3.",
            "NVTE_CK_USES_BWD_V3",
        ),
        Key(
            "nvte_ck_v3_bf16_cvt",
            "whole",
            "How that kernel rounds to bf16 (0, 1 or 2).",
            "NVTE_CK_HOW_V3_BF16_CVT",
        ),
        Key(
            "xla_python_client_mem_fraction",
            "number",
            "Share of the GPU's memory XLA takes at once.",
            "XLA_PYTHON_CLIENT_MEM_FRACTION",
        ),
        Key(
            "xla_gpu_executable_warn_stuck_timeout",
            "whole",
            "Seconds before XLA warns of a stuck program.",
            "XLA_FLAGS",
        ),
        Key("env_vars", "mapping", "Variables of the training program.", "platform.env", "none"),
        Key("xla_flags", "mapping", "XLA's flags.", "XLA_FLAGS", "none"),
    )
)

UNREAD_ENV: Mapping[str, str] = MappingProxyType(
    {
        "JAX_DISTRIBUTED_INITIALIZATION_TIMEOUT_SECONDS": "jax_distributed_initialization_timeout",
        "JAX_DISTRIBUTED_HEARTBEAT_TIMEOUT_SECONDS": "",
        "JAX_COORDINATOR_ADDRESS": "",
        "TE_BF16": "",
        "TE_F16": "",
        "NVTE_CK_BWD_V3": "",
        "NVTE_CK_V3_BF16_CVT": "",
    }
)
"""Variables nothing on the GPU path reads, and the MaxText key that does what was meant, where there is one."""

_MESH = tuple(
    Key(
        f"{net}_{axis}_parallelism",
        "whole",
        f"{words} that {what}; -1 for what is left.",
        reads,
        default,
    )
    for net, words in (("ici", "GPUs of a node"), ("dcn", "Nodes"))
    for axis, what, reads, default in (
        ("data", "hold whole replicas", "parallelism.data_parallel_size", "1" if net == "ici" else "-1"),
        (
            "fsdp",
            "share weights, gradients and optimizer state",
            "parallelism.fsdp_size",
            "-1" if net == "ici" else "1",
        ),
        ("tensor", "share each matrix", "parallelism.tensor_parallel_size", "1"),
        ("pipeline", "share the layers", "parallelism.pipeline_parallel_size", "1"),
        ("sequence", "share each sequence", "parallelism.context_parallel_size", "1"),
        ("context", "share each sequence, in attention too", "parallelism.context_parallel_size", "1"),
        ("fsdp_transpose", "share weights along their other axis", "parallelism.fsdp_size", "1"),
        ("tensor_transpose", "share each matrix along its other axis", "parallelism.tensor_parallel_size", "1"),
        ("tensor_sequence", "share each matrix and its sequence", "parallelism.tensor_parallel_size", "1"),
        ("expert", "share the experts of a layer", "parallelism.data_parallel_size", "1"),
        ("autoregressive", "share decoding", "parallelism.tensor_parallel_size", "1"),
    )
)

_DIMENSIONS = (
    Key("base_emb_dim", "whole", "Width of the residual stream.", "model.hidden_size", "the model's"),
    Key("base_num_query_heads", "whole", "Query heads.", "model.num_attention_heads", "the model's"),
    Key("base_num_kv_heads", "whole", "Key and value heads.", "model.num_key_value_heads", "the model's"),
    Key("base_num_decoder_layers", "whole", "Layers.", "model.num_layers", "the model's"),
    Key("base_mlp_dim", "whole", "Inner width of the feed-forward block.", "model.ffn_hidden_size", "the model's"),
    Key("head_dim", "whole", "Width of one head.", "model.head_dim", "the model's"),
    Key("vocab_size", "whole", "Tokens in the vocabulary.", "model.vocab_size", "the model's"),
    Key("normalization_layer_epsilon", "number", "Added to the variance.", "model.norm_epsilon", "the model's"),
    Key("rope_max_timescale", "number", "Base of the rotary frequencies.", "model.rope_theta", "the model's"),
    Key("logits_via_embedding", "flag", "Whether embeddings are tied.", "model.tied_embeddings", "the model's"),
    Key(
        "decoder_block",
        "text",
        "Kind of layer; Llama 3.1 is MaxText's llama2 block.",
        "model.architecture",
        "the model's",
    ),
    Key("mlp_activations", "list", "Activations of the feed-forward block.", "model.architecture", "the model's"),
)
"""MaxText takes them from the preset of model_name, which comes after the file: here they can only agree with it."""

DIMENSIONS: Mapping[str, str] = MappingProxyType(
    {key.name: key.reads for key in _DIMENSIONS if key.name not in ("decoder_block", "mlp_activations")}
)
"""Dimensions of a JAX file and the experiment's key for each."""

_PASSED_ON: tuple[tuple[str, Kind, str, str], ...] = (
    ("use_iota_embed", "flag", "Embed by a matrix product with one-hot vectors.", "False"),
    ("scan_layers", "flag", "Compile one layer and scan over it.", "True"),
    ("hf_path", "text", "Hugging Face dataset, or the format of hf_train_files.", "none"),
    ("hf_train_files", "text", "Files of the corpus, such as C4's parquet files.", "none"),
    ("grain_train_files", "text", "Files of the corpus for Grain.", "none"),
    ("hf_data_dir", "text", "Part of a Hugging Face dataset.", "none"),
    ("dataset_path", "text", "Where a tfds dataset lies.", "none"),
    ("tokenizer_path", "text", "Tokenizer file or repository; not read with synthetic data.", "MaxText's own"),
    ("tokenizer_type", "text", "Class of the tokenizer.", "sentencepiece"),
    ("async_checkpointing", "flag", "Whether checkpoints are written beside training.", "True"),
    ("logits_dot_in_fp32", "flag", "Whether logits are computed in fp32.", "False"),
    ("megablox", "flag", "Grouped products of mixture-of-experts layers.", "True"),
    ("quantize_kvcache", "flag", "Only for decoding.", "False"),
    ("kv_quant_axis", "text", "Only for decoding.", "heads_and_dkv"),
    ("kv_quant_dtype", "text", "Only for decoding.", "int8"),
    ("checkpoint_is_quantized", "flag", "Only for decoding.", "False"),
    ("skip_first_n_steps_for_profiler", "whole", "Steps before a profile starts.", "1"),
    ("profiler", "text", "Kind of profile.", "none"),
    ("enable_dropout", "flag", "Whether dropout is on; its rate is 0 unless given.", "False"),
    ("hardware", "text", "gpu, tpu or cpu.", "gpu"),
    ("optimizer_memory_host_offload", "flag", "Optimizer state in host memory.", "False"),
    ("param_scan_axis", "whole", "Axis layers are stacked on.", "1"),
    ("shardy", "flag", "XLA's newer partitioner.", "False, for ROCm's images"),
    ("packing", "flag", "Whether several documents share a sequence.", "True"),
    ("max_segments_per_seq", "whole", "Documents that may share a sequence.", "32 where there is packing"),
    ("enable_goodput_recording", "flag", "Whether goodput is recorded in a cloud.", "False"),
    ("monitor_goodput", "flag", "Whether goodput is watched in a cloud.", "False"),
    ("opt_type", "text", "The optimizer.", "adamw"),
    ("grad_dtype", "text", "Format of gradients.", "the weights'"),
    ("override_model_config", "flag", "Whether a dimension of the command line beats the preset.", "False"),
    ("mu_dtype", "text", "Format of Adam's first moment.", "weight_dtype's"),
    ("log_period", "whole", "Steps between writes of metrics.", "100"),
    ("jax_distributed_initialization_timeout", "whole", "Seconds nodes are waited for.", "300"),
)

_PASSED = tuple(Key(name, kind, meaning, f"MaxText's {name}", default) for name, kind, meaning, default in _PASSED_ON)

JAX_MODEL = _table(
    (
        *_LABELS,
        *_MESH,
        Key("attention", "text", "Attention kernel.", "kernels.use_flash_attn", "autoselected"),
        Key(
            "remat_policy",
            "text",
            "What is recomputed in the backward pass; `none` recomputes everything where layers are scanned.",
            "training.recompute",
            "full",
        ),
        Key("dataset_type", "text", "synthetic, hf, grain or tfds.", "data.source", "tfds"),
        Key("dtype", "text", "Format of activations and products.", "precision.dtype", "bfloat16"),
        Key(
            "weight_dtype",
            "text",
            "Format weights and Adam's moments are kept in.",
            "MaxText's weight_dtype",
            "float32",
        ),
        Key("quantization", "text", "fp8 or nothing.", "precision.fp8", "none"),
        Key(
            "per_device_batch_size",
            "number",
            "Sequences a GPU; the global batch is this times all GPUs.",
            "training.global_batch_size",
        ),
        Key("gradient_accumulation_steps", "whole", "Micro-batches before a step.", "training.global_batch_size", "1"),
        Key("max_target_length", "whole", "Tokens a sequence.", "training.sequence_length"),
        Key("learning_rate", "number", "The peak learning rate.", "training.learning_rate", "3e-5"),
        Key(
            "learning_rate_final_fraction",
            "number",
            "Share of it the schedule ends at.",
            "training.min_learning_rate",
            "0.1",
        ),
        Key(
            "cosine_learning_rate_final_fraction",
            "number",
            "Older name of learning_rate_final_fraction.",
            "training.min_learning_rate",
            "0.1",
        ),
        Key("warmup_steps_fraction", "number", "Share of the steps that warm up.", "training.warmup_steps", "0.1"),
        Key(
            "learning_rate_schedule_steps",
            "whole",
            "Steps of the schedule; -1 for all.",
            "training.decay_steps",
            "-1",
        ),
        Key("adam_b1", "number", "Decay of AdamW's first moment.", "training.adam_beta1", "0.9"),
        Key("adam_b2", "number", "Decay of AdamW's second moment.", "training.adam_beta2", "0.95"),
        Key("adam_eps", "number", "Added to the root of the second moment.", "training.adam_epsilon", "1e-8"),
        Key("adam_weight_decay", "number", "Decay of all parameters.", "training.weight_decay", "0.1"),
        Key(
            "gradient_clipping_threshold", "number", "Norm gradients are clipped to.", "training.clip_grad_norm", "1.0"
        ),
        Key("init_weights_seed", "whole", "Seeds the weights.", "training.seed", "0"),
        Key("data_shuffle_seed", "whole", "Seeds the order of a corpus.", "data.seed", "0"),
        *_PASSED,
        *_DIMENSIONS,
        Key("xla_flags", "mapping", "XLA's flags.", "XLA_FLAGS", "none"),
        Key("batch_size", "whole", "Nothing: per_device_batch_size decides the global batch.", NOTHING),
        Key("micro_batch_size", "whole", "Nothing: per_device_batch_size decides.", NOTHING),
        Key("precision", "text", "Nothing: dtype, weight_dtype and quantization decide.", NOTHING),
        Key("sequence_length", "whole", "Nothing: max_target_length decides.", NOTHING),
        Key("tensor_parallelism", "whole", "Nothing: ici_tensor_parallelism decides.", NOTHING),
        Key("pipeline_parallelism", "whole", "Nothing: ici_pipeline_parallelism decides.", NOTHING),
        Key("recompute", "flag", "Nothing: remat_policy decides.", NOTHING),
        Key("fsdp", "flag", "Nothing: ici_fsdp_parallelism decides.", NOTHING),
        Key("result_dict", "mapping", "Thresholds of the run.", "thresholds"),
    )
)

RESULTS = _table(
    (
        Key("throughput_per_gpu", "number", "At least so many TFLOP/s a GPU.", "tflops_per_gpu>="),
        Key("tflops_per_sec_per_gpu", "number", "At least so many TFLOP/s a GPU.", "tflops_per_gpu>="),
        Key("tokens_per_gpu", "number", "At least so many tokens/s a GPU.", "tokens_per_s_per_gpu>="),
        Key("tokens_per_sec_per_gpu", "number", "At least so many tokens/s a GPU.", "tokens_per_s_per_gpu>="),
        Key("elapsed_time_per_iteration", "number", "At most so many milliseconds a step.", "step_time_s<="),
    )
)
"""Under result_dict. The direction is the metric's nature, whatever a suite compared with what."""

TABLES: Mapping[str, tuple[Mapping[str, Key], Mapping[str, Key]]] = MappingProxyType(
    {MEGATRON: (MEGATRON_CONFIG, MEGATRON_MODEL), JAX: (JAX_CONFIG, JAX_MODEL)}
)
"""By family: the keys of its general part, and of its models."""
