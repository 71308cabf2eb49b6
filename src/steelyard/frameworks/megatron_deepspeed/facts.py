"""Facts about Megatron-DeepSpeed."""

from steelyard.accounting.flops import Convention, attention_flops, ffn_weights, logit_weights
from steelyard.accounting.vocabularies import PADDED_TO
from steelyard.experiment.experiment import Recompute
from steelyard.experiment.model import Model
from steelyard.frameworks.facts import TORCH_ALLOCATED, Facts
from steelyard.frameworks.megatron_family.facts import DEFAULTS, FLAGS, LOSS_DIGITS


def _flops_per_token(model: Model, sequence_length: int, vocab_size: int | None, recompute: Recompute) -> float:
    """Counts recomputation. An integer division drops K and V for four or more query heads per group."""
    group = model.num_attention_heads // model.num_key_value_heads
    projections = (1 + 2 // group + 1) * model.hidden_size**2
    scores = attention_flops(model, sequence_length) / 6  # multiply-adds of the forward pass
    forward = model.num_layers * (projections + ffn_weights(model)) + scores + logit_weights(model, vocab_size)
    if recompute == "full":
        return 2.0 * 4 * forward
    return 2.0 * 3 * forward + (2.0 * scores if recompute == "selective" else 0.0)


FLOPS = Convention("megatron_deepspeed", _flops_per_token, counts_recomputation=True)

FACTS = Facts(
    name="megatron-deepspeed",
    names={
        **{key: flag for key, flag in FLAGS.items() if key != "parallelism.overlap_param_gather"},
        "model.architecture": "--normalization, --swiglu, --use-rotary-position-embeddings",
        "model.num_key_value_heads": "--num-key-value-heads",
        "model.norm_epsilon": "--layernorm-epsilon",
        "model.rope_theta": "--rotary-position-embeddings-theta",
        "model.qkv_bias": "--disable-bias-linear",
        "training.micro_batch_size": "--micro-batch-size, train_micro_batch_size_per_gpu",
        "training.global_batch_size": "--global-batch-size, train_batch_size",
        "training.gradient_accumulation_steps": "gradient_accumulation_steps",
        "training.clip_grad_norm": "--clip-grad, gradient_clipping",
        "parallelism.context_parallel_size": "--ds-sequence-parallel-size",
        "parallelism.distributed_optimizer": "--zero-stage, zero_optimization.stage",
        "parallelism.fsdp_size": "--zero-stage, zero_optimization.stage",
        "parallelism.overlap_grad_reduce": "zero_optimization.overlap_comm",
        "precision.dtype": "--bf16, --fp16, bf16.enabled, fp16.enabled",
        "precision.loss_scale": "fp16.loss_scale",
        "precision.fp8": "--fp8-hybrid, --fp8-e4m3",
        "precision.grad_reduce_in_fp32": "communication_data_type, data_types.grad_accum_dtype",
        "kernels.bias_activation_fusion": "--no-bias-gelu-fusion",
        "kernels.use_flash_attn": "--use-flash-attn-v2",
        "data.source": "--data-path",
        "data.tokenizer": "--tokenizer-model, --vocab-file, --merge-file",
    },
    unnamed=frozenset(
        {
            *("model.preset", "model.rope_scaling", "parallelism.overlap_param_gather"),
            *("kernels.apply_rope_fusion", "kernels.cross_entropy_loss_fusion"),
            *("kernels.nvte_fused_attn", "kernels.nvte_flash_attn"),
            *("kernels.enable_primus_turbo", "kernels.use_turbo_attention", "kernels.compile", "kernels.deterministic"),
            *("data.dataset", "data.samples"),
        }
    ),
    silent_defaults={
        **DEFAULTS,
        "training.clip_grad_norm": None,
        "training.checkpointing": False,
        "training.tracking": False,
        "kernels.use_flash_attn": False,
        "data.seed": 1234,
        "data.split": "969, 30, 1",
    },
    model_defaults={"model.norm_epsilon": 1e-5, "model.rope_theta": 10000, "model.tied_embeddings": True},
    keyless_defaults={"training.hidden_dropout": 0.1, "data.eod_mask_loss": "counted"},
    vocabulary_multiple=PADDED_TO,
    one_seed=True,
    init_stds=(0.02,),
    flop_conventions=(FLOPS,),
    forks_count_differently=True,
    loss_digits=LOSS_DIGITS,
    memory_kind=TORCH_ALLOCATED.name,
    memory_kinds=(TORCH_ALLOCATED,),
    suite_name="deep",
    shards_weights=True,
)
