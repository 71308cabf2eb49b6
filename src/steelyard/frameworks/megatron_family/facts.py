"""Facts about all frameworks based on Megatron-LM; each framework's folder has its differences."""

import math

COUNTING_FLOOR = math.log(4095) / 2048
"""Loss floor in nats per token of the mock data. It counts 1, 2, 3, ...; only the end of a document of 1 to 4095 tokens
is unpredictable (megatron/core/datasets/gpt_dataset.py, MockGPTLowLevelDataset)."""

LOSS_DIGITS = 7
"""Losses are printed as 1.182034E+01."""

_SAME_NAMES = (
    *("model.num_layers", "model.hidden_size", "model.ffn_hidden_size", "model.num_attention_heads"),
    *("model.vocab_size", "model.max_position_embeddings", "model.norm_epsilon"),
    *("training.seed", "training.micro_batch_size", "training.global_batch_size", "training.weight_decay"),
    *("training.adam_beta1", "training.adam_beta2", "training.init_method_std"),
    *("parallelism.context_parallel_size", "parallelism.sequence_parallel"),
    *("parallelism.overlap_grad_reduce", "parallelism.overlap_param_gather"),
    *("precision.fp32_residual_connection", "data.split", "data.tokenizer_type"),
)

NAMES = {
    **{key: key.partition(".")[2] for key in _SAME_NAMES},
    "model.num_key_value_heads": "num_query_groups",
    "model.head_dim": "kv_channels",
    "model.rope_theta": "rotary_base",
    "model.qkv_bias": "add_qkv_bias",
    "model.tied_embeddings": "untie_embeddings_and_output_weights",
    "training.sequence_length": "seq_length",
    "training.steps": "train_iters",
    "training.learning_rate": "lr",
    "training.min_learning_rate": "min_lr",
    "training.schedule": "lr_decay_style",
    "training.decay_steps": "lr_decay_iters",
    "training.warmup_steps": "lr_warmup_iters",
    "training.adam_epsilon": "adam_eps",
    "training.clip_grad_norm": "clip_grad",
    "training.recompute": "recompute_granularity",
    "training.checkpointing": "save",
    "training.tracking": "tensorboard_dir",
    "parallelism.tensor_parallel_size": "tensor_model_parallel_size",
    "parallelism.pipeline_parallel_size": "pipeline_model_parallel_size",
    "parallelism.distributed_optimizer": "use_distributed_optimizer",
    "data.tokenizer": "tokenizer_model",
}
"""Names of the experiment's keys in Megatron's code."""

FLAGS = {
    **{key: f"--{name.replace('_', '-')}" for key, name in NAMES.items()},
    "kernels.bias_dropout_fusion": "--no-bias-dropout-fusion",
    "kernels.masked_softmax_fusion": "--no-masked-softmax-fusion",
    "kernels.persist_layer_norm": "--no-persist-layer-norm",
    "kernels.transformer_impl": "--transformer-impl",
    "kernels.gradient_accumulation_fusion": "--no-gradient-accumulation-fusion",
    "data.path": "--data-path",
    "data.seed": "--seed",
}
"""Their flags of pretrain_gpt.py."""

ATTENTION_NAMES = {"kernels.nvte_fused_attn": "NVTE_FUSED_ATTN", "kernels.nvte_flash_attn": "NVTE_FLASH_ATTN"}
"""Transformer Engine's variables."""

FUSIONS = (
    *("bias_activation_fusion", "bias_dropout_fusion", "masked_softmax_fusion"),
    *("persist_layer_norm", "apply_rope_fusion", "cross_entropy_loss_fusion"),
)
"""Kernels that Megatron-Core can fuse, by the experiment's names."""

DEFAULTS = {
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
    "precision.dtype": "fp32",
    "precision.fp32_residual_connection": False,
    "kernels.bias_activation_fusion": True,
    "kernels.bias_dropout_fusion": True,
    "kernels.masked_softmax_fusion": True,
    "kernels.persist_layer_norm": True,
}
"""Megatron's defaults."""

LOCAL_KERNELS = {
    "kernels.masked_softmax_fusion": False,
    "kernels.persist_layer_norm": False,
    "kernels.apply_rope_fusion": False,
    "kernels.gradient_accumulation_fusion": False,
    "kernels.use_flash_attn": False,
}
"""Kernels of Megatron-Core that need Transformer Engine or Apex."""

CORE_DEFAULTS = {
    **DEFAULTS,
    "parallelism.overlap_param_gather": False,
    "precision.grad_reduce_in_fp32": True,
    "kernels.apply_rope_fusion": True,
    "kernels.cross_entropy_loss_fusion": False,
}
"""Defaults of Megatron-Core, the base of Megatron-LM, Primus and NeMo."""
