"""The fairness policy, as data: what each parameter does to each comparison where the two sides differ in it.

It blocks (the ratio is refused), qualifies (the difference is said beside the ratio) or is free. Best-vs-best leaves
kernels free; `matched` turns every qualification into a refusal.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any


class Metric(StrEnum):
    THROUGHPUT = "throughput"
    MEMORY = "memory"
    FLOPS = "flops"
    CONVERGENCE = "convergence"


class Effect(StrEnum):
    BLOCKS = "blocks"
    QUALIFIES = "qualifies"


RATES = (Metric.THROUGHPUT, Metric.MEMORY, Metric.FLOPS)
"""Memory and FLOPs are held to everything that throughput is."""

Effects = Mapping[Metric, Effect]


def _effects(rates: Effect | None = None, convergence: Effect | None = None) -> Effects:
    effects = {metric: rates for metric in RATES if rates} | ({Metric.CONVERGENCE: convergence} if convergence else {})
    return MappingProxyType(effects)


_B, _Q = Effect.BLOCKS, Effect.QUALIFIES
_BOTH = _effects(_B, _B)
_CONVERGENCE = _effects(None, _B)
_LAYOUT = _effects(_Q, _Q)
_FREE = _effects()
_STATE = MappingProxyType({**_effects(_Q), Metric.MEMORY: _B})
"""Where and how wide the optimizer's state lies: a matter of memory first."""
_STATE_DTYPE = MappingProxyType({**_STATE, Metric.CONVERGENCE: _Q})

POLICY: Mapping[str, Effects] = MappingProxyType(
    {
        "model.architecture": _BOTH,
        "model.num_layers": _BOTH,
        "model.hidden_size": _BOTH,
        "model.ffn_hidden_size": _BOTH,
        "model.num_attention_heads": _BOTH,
        "model.num_key_value_heads": _BOTH,
        "model.head_dim": _BOTH,
        "model.vocab_size": _BOTH,
        "model.qkv_bias": _BOTH,
        "model.tied_embeddings": _BOTH,
        "model.max_position_embeddings": _CONVERGENCE,
        "model.norm_epsilon": _CONVERGENCE,
        "model.rope_theta": _CONVERGENCE,
        "model.rope_scaling": _CONVERGENCE,
        "model.preset": _FREE,
        "training.tokens_per_step": _BOTH,
        "training.global_batch_size": _BOTH,
        "training.sequence_length": _BOTH,
        "training.micro_batch_size": _LAYOUT,
        "training.gradient_accumulation_steps": _FREE,
        "training.recompute": _effects(_B, _Q),
        "training.checkpointing": _effects(_Q),
        "training.tracking": _effects(_Q),
        "training.steps": _CONVERGENCE,
        "training.learning_rate": _CONVERGENCE,
        "training.min_learning_rate": _CONVERGENCE,
        "training.schedule": _CONVERGENCE,
        "training.decay_steps": _CONVERGENCE,
        "training.warmup_steps": _CONVERGENCE,
        "training.weight_decay": _CONVERGENCE,
        "training.adam_beta1": _CONVERGENCE,
        "training.adam_beta2": _CONVERGENCE,
        "training.adam_epsilon": _CONVERGENCE,
        "training.clip_grad_norm": _CONVERGENCE,
        "training.init_method_std": _CONVERGENCE,
        "training.seed": _FREE,
        "parallelism.tensor_parallel_size": _LAYOUT,
        "parallelism.pipeline_parallel_size": _LAYOUT,
        "parallelism.context_parallel_size": _LAYOUT,
        "parallelism.data_parallel_size": _LAYOUT,
        "parallelism.sequence_parallel": _LAYOUT,
        "parallelism.distributed_optimizer": _LAYOUT,
        "parallelism.fsdp_size": _LAYOUT,
        "parallelism.overlap_grad_reduce": _LAYOUT,
        "parallelism.overlap_param_gather": _LAYOUT,
        "precision.dtype": _effects(_B, _Q),
        "precision.loss_scale": _effects(_B, _Q),
        "precision.fp8": _effects(_B, _Q),
        "precision.grad_reduce_in_fp32": _effects(_B, _Q),
        "precision.fp32_residual_connection": _effects(_B, _Q),
        "data.source": _CONVERGENCE,
        "data.seed": _CONVERGENCE,
        "data.path": _CONVERGENCE,
        "data.dataset": _CONVERGENCE,
        "data.tokenizer": _CONVERGENCE,
        "data.tokenizer_type": _FREE,
        "data.split": _CONVERGENCE,
        "data.samples": _CONVERGENCE,
        "kernels.bias_activation_fusion": _FREE,
        "kernels.bias_dropout_fusion": _FREE,
        "kernels.masked_softmax_fusion": _FREE,
        "kernels.persist_layer_norm": _FREE,
        "kernels.apply_rope_fusion": _FREE,
        "kernels.cross_entropy_loss_fusion": _FREE,
        "kernels.use_flash_attn": _FREE,
        "kernels.nvte_fused_attn": _FREE,
        "kernels.nvte_flash_attn": _FREE,
        "kernels.enable_primus_turbo": _FREE,
        "kernels.use_turbo_attention": _FREE,
        "kernels.compile": _FREE,
        "kernels.deterministic": _FREE,
        "platform.world_size": _effects(_B),
        "platform.nodes": _effects(_Q),
        "platform.gpu": _FREE,
        "platform.framework": _FREE,
        "measurement.memory_kind": MappingProxyType({Metric.MEMORY: _B}),
    }
)
"""By dotted key; a test holds it to the experiment's own keys, so that none goes ungoverned by oversight."""

STATED: Mapping[str, Effects] = MappingProxyType(
    {
        "model.num_experts": _BOTH,
        "model.moe_router_topk": _BOTH,
        "model.moe_ffn_hidden_size": _BOTH,
        "model.moe_shared_expert_intermediate_size": _BOTH,
        "model.moe_expert_capacity_factor": _BOTH,
        "model.moe_layer_freq": _BOTH,
        "model.moe_router_force_load_balancing": _BOTH,
        "model.mtp_num_layers": _BOTH,
        "model.qk_layernorm": _BOTH,
        "model.attention_window": _BOTH,
        "model.window_attn_skip_freq": _BOTH,
        "model.multi_latent_attention": _BOTH,
        "model.experimental_attention_variant": _BOTH,
        "model.hybrid_layer_pattern": _BOTH,
        "model.padded_vocab_size": _CONVERGENCE,
        "training.recompute_extent": _effects(_B, _Q),
        "training.optimizer": _effects(_Q, _B),
        "training.optimizer_cpu_offload": _STATE,
        "training.use_precision_aware_optimizer": _STATE_DTYPE,
        "training.hidden_dropout": _effects(_Q, _B),
        "training.attention_dropout": _effects(_Q, _B),
        "precision.exp_avg_dtype": _STATE_DTYPE,
        "precision.exp_avg_sq_dtype": _STATE_DTYPE,
        "precision.main_params_dtype": _STATE_DTYPE,
        "precision.main_grads_dtype": _STATE_DTYPE,
        "data.eod_mask_loss": _CONVERGENCE,
        "data.reset_attention_mask": _BOTH,
        "data.reset_position_ids": _CONVERGENCE,
        "data.packing": _effects(_Q, _B),
        "data.trained_share": _effects(_Q, _Q),
    }
)
"""What no experiment has a key for, and a log may state of itself."""

PLANNED: Mapping[str, Any] = MappingProxyType(
    {
        "model.num_experts": 0,
        "model.mtp_num_layers": 0,
        "model.qk_layernorm": False,
        "model.attention_window": 0,
        "model.window_attn_skip_freq": "none",
        "model.multi_latent_attention": False,
        "model.experimental_attention_variant": "none",
        "model.hybrid_layer_pattern": "none",
        "training.optimizer": "adam",
        "training.optimizer_cpu_offload": 0.0,
        "training.use_precision_aware_optimizer": False,
        "training.hidden_dropout": 0.0,
        "training.attention_dropout": 0.0,
        "data.eod_mask_loss": False,
        "data.reset_attention_mask": False,
        "data.reset_position_ids": False,
        "data.packing": True,
    }
)
"""The same in every run of a plan of ours."""

USUAL: Mapping[str, Sequence[Any]] = MappingProxyType(
    {
        **{key: (value,) for key, value in PLANNED.items()},
        "model.moe_shared_expert_intermediate_size": (0,),
        "model.moe_expert_capacity_factor": (0.0,),
        "model.moe_layer_freq": ("1",),
        "model.moe_router_force_load_balancing": (False,),
        "training.recompute_extent": ("none", "uniform 1", "core_attn"),
        "precision.exp_avg_dtype": ("fp32",),
        "precision.exp_avg_sq_dtype": ("fp32",),
        "precision.main_params_dtype": ("fp32",),
        "precision.main_grads_dtype": ("fp32",),
        "data.trained_share": (1.0,),
    }
)
"""What a framework does unless told otherwise; a version that knows no such setting, and says nothing, does so too."""


def blocking(*metrics: Metric) -> list[str]:
    """What blocks one of these where runs differ in it."""
    return [
        dotted
        for dotted, effects in {**POLICY, **STATED}.items()
        if any(effects.get(metric) == Effect.BLOCKS for metric in metrics)
    ]


OWN_FIGURES: Mapping[str, Effects] = MappingProxyType(
    {
        "throughput_identity": _effects(_B),
        "peak_flops": _effects(_B),
        "batch_identity": _LAYOUT,
        "world_identity": _LAYOUT,
        "plan_identity": _BOTH,
        "memory_capacity": MappingProxyType({Metric.MEMORY: _B}),
        "steps_present": _effects(_Q, _Q),
        "completed": _effects(_Q, _Q),
        "loss_finite": _effects(_Q, _Q),
        "loss_falling": _effects(_Q, _Q),
        "loss_floor": _effects(_Q, _Q),
        "skipped_steps": _effects(_Q, _Q),
        "errors": _effects(_Q, _Q),
    }
)
"""What a failed finding of one side does: one whose measurements contradict themselves is refused by its own figures.

Declared batch and layout only qualify, since the ratio stands on the tokens that were recorded.
"""

UNKNOWN_QUALIFIES = ("completed", "steps_present", "loss_finite", "throughput_identity")
"""Findings that, not known of a side, are said beside its ratios."""
