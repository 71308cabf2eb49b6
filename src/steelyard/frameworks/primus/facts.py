"""What is true of Primus on its Megatron backend."""

from steelyard.accounting.flops import Convention
from steelyard.accounting.vocabularies import PADDED_TO
from steelyard.frameworks.facts import POSITION_ENCODING, Facts, MockData
from steelyard.frameworks.megatron_family.facts import ATTENTION_NAMES, CORE_DEFAULTS, FUSIONS, NAMES

FACTS = Facts(
    name="primus",
    names={
        **NAMES,
        **ATTENTION_NAMES,
        **{f"kernels.{key}": key for key in (*FUSIONS, "enable_primus_turbo", "use_turbo_attention")},
        "model.preset": "model",
        "model.architecture": "normalization, swiglu, position_embedding_type, add_bias_linear",
        "model.rope_scaling": "use_rope_scaling, rope_scaling_factor",
        "training.checkpointing": "save, disable_last_saving",
        "training.tracking": "disable_tensorboard",
        "parallelism.fsdp_size": "use_torch_fsdp2, data_parallel_replicate_degree",
        "precision.dtype": "bf16, fp16",
        "precision.loss_scale": "loss_scale",
        "precision.fp8": "fp8",
        "precision.grad_reduce_in_fp32": "grad_reduce_in_bf16, accumulate_allreduce_grads_in_fp32",
        "kernels.bias_activation_fusion": "bias_swiglu_fusion, bias_gelu_fusion",
        "kernels.persist_layer_norm": "no_persist_layer_norm",
        "kernels.cross_entropy_loss_fusion": "cross_entropy_loss_fusion, cross_entropy_fusion_impl",
        "kernels.use_flash_attn": "use_flash_attn, attention_backend",
        "data.source": "mock_data, train_data_path",
        "data.path": "train_data_path",
        "data.seed": "seed",
        "data.split": "split, train_data_path",
    },
    silent_defaults={
        **CORE_DEFAULTS,
        "training.micro_batch_size": 2,
        "training.global_batch_size": 16,
        "training.sequence_length": 1024,
        "training.steps": 1000,
        "training.learning_rate": 2e-5,
        "training.schedule": "cosine",
        "training.warmup_steps": 40,
        "training.weight_decay": 0.0,
        "training.tracking": False,
        "parallelism.sequence_parallel": True,
        "parallelism.distributed_optimizer": True,
        "precision.dtype": "bf16",
        "kernels.masked_softmax_fusion": False,
        "kernels.use_flash_attn": True,
        "kernels.enable_primus_turbo": False,
        "kernels.use_turbo_attention": False,
        "data.seed": 1234,
    },
    model_defaults={
        "model.norm_epsilon": 1e-6,  # of its examples
        "model.rope_theta": 500000,
        "model.tied_embeddings": False,
    },
    keyless_defaults={
        **{"training.hidden_dropout": 0.0, POSITION_ENCODING: "rotary"},
        "data.eod_mask_loss": "masked in its examples",
    },
    vocabulary_multiple=PADDED_TO,
    mock_data=MockData.COUNTING,
    mock_vocabularies={131072: "NullTokenizer's"},
    one_seed=True,
    init_stds=(0.02, 0.008),
    flop_conventions=(Convention.CAUSAL, Convention.NONCAUSAL),
    flop_conventions_by_era={
        "v0.1": (Convention.NONCAUSAL,),
        "v0.2 to v0.5": (Convention.NONCAUSAL,),
        "v26.2 to v26.4, core runtime": (Convention.CAUSAL,),
        "v26.5 or newer": (Convention.CAUSAL,),
    },
    memory_kind="device_used",
    suite_name="prim",
    shards_weights=True,
)
