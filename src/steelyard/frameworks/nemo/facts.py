"""Facts about NeMo 2."""

from steelyard.accounting.flops import Convention, flops_per_token
from steelyard.accounting.vocabularies import PADDED_TO
from steelyard.frameworks.facts import LLAMA_31, POSITION_ENCODING, TORCH_RESERVED, Facts, MockData, ShareOf
from steelyard.frameworks.megatron_family.facts import ATTENTION_NAMES, CORE_DEFAULTS, FUSIONS, NAMES

_AS_MEGATRON = {
    "model.config": (
        *("model.num_layers", "model.hidden_size", "model.ffn_hidden_size", "model.num_attention_heads"),
        *("model.num_key_value_heads", "model.head_dim", "model.rope_theta", "model.qkv_bias"),
        *("training.init_method_std", "training.recompute", "precision.fp32_residual_connection"),
    ),
    "optim.config": (
        *("training.learning_rate", "training.weight_decay", "training.adam_beta1", "training.adam_beta2"),
        *("training.adam_epsilon", "training.clip_grad_norm"),
    ),
    "optim.lr_scheduler": ("training.min_learning_rate",),
    "data": ("training.micro_batch_size", "training.global_batch_size"),
    "trainer.strategy": (
        *("parallelism.tensor_parallel_size", "parallelism.pipeline_parallel_size"),
        *("parallelism.context_parallel_size", "parallelism.sequence_parallel"),
    ),
    "trainer.strategy.ddp": (
        *("parallelism.distributed_optimizer", "parallelism.overlap_grad_reduce"),
        "parallelism.overlap_param_gather",
    ),
}
"""Keys with Megatron's name, by their place in a recipe."""

_COUNTED_VOCABULARY = {"llama": 128256, "gpt": 51200}
"""Its FLOP formulas hard-code the vocabulary by family and ignore the tokenizer."""
CAUSAL = Convention(
    "nemo_causal", lambda model, length, *_: flops_per_token(model, length, _COUNTED_VOCABULARY[model.architecture])
)
NONCAUSAL = Convention(
    "nemo_noncausal",
    lambda model, length, *_: flops_per_token(model, length, _COUNTED_VOCABULARY[model.architecture], causal=False),
)

FACTS = Facts(
    name="nemo",
    names={
        **{key: f"{place}.{NAMES[key]}" for place, keys in _AS_MEGATRON.items() for key in keys},
        **{f"kernels.{key}": f"model.config.{key}" for key in (*FUSIONS, "gradient_accumulation_fusion")},
        **ATTENTION_NAMES,
        "model.preset": "llm.llama31_8b",
        "model.norm_epsilon": "model.config.layernorm_epsilon",
        "model.rope_scaling": "model.config.scale_factor",
        "model.tied_embeddings": "model.config.share_embeddings_and_output_weights",
        "training.seed": "seed_everything, init_parallel_ranks",
        "training.sequence_length": "data.seq_length, model.config.seq_length",
        "training.steps": "trainer.max_steps",
        "training.schedule": "optim.lr_scheduler",
        "training.decay_steps": "optim.lr_scheduler.max_steps",
        "training.warmup_steps": "optim.lr_scheduler.warmup_steps",
        "training.checkpointing": "trainer.enable_checkpointing, log.ckpt",
        "training.tracking": "trainer.logger, log.tensorboard",
        "precision.dtype": "trainer.plugins.precision",
        "precision.loss_scale": "trainer.plugins.fp16_loss_scale",
        "precision.fp8": "trainer.plugins.fp8",
        "precision.fp8_recipe": "trainer.plugins.fp8_recipe",
        "precision.grad_reduce_in_fp32": "trainer.plugins.grad_reduce_in_fp32",
        "kernels.use_flash_attn": "model.config.attention_backend",
        "data.source": "data",
        "data.path": "data.paths",
        "data.seed": "data.seed",
        "data.split": "data.split",
        "data.samples": "data.num_train_samples",
        "data.tokenizer": "data.tokenizer",
        "data.tokenizer_type": "data.tokenizer",
    },
    unnamed=frozenset(
        {
            *("model.architecture", "model.vocab_size", "model.max_position_embeddings", "parallelism.fsdp_size"),
            *("kernels.enable_primus_turbo", "kernels.use_turbo_attention", "kernels.compile", "kernels.deterministic"),
            *("kernels.transformer_impl", "data.dataset"),
        }
    ),
    silent_defaults={
        **CORE_DEFAULTS,
        "training.micro_batch_size": 1,
        "training.global_batch_size": 512,
        "training.sequence_length": 8192,
        "training.steps": 1168251,
        "training.learning_rate": 3e-4,
        "training.min_learning_rate": ShareOf("training.learning_rate", 0.1),
        "training.schedule": "cosine",
        "training.warmup_steps": 2000,
        "training.weight_decay": 0.1,
        "training.adam_beta2": 0.95,
        "training.adam_epsilon": 1e-5,
        "training.checkpointing": True,
        "training.tracking": True,
        "parallelism.context_parallel_size": 2,
        "parallelism.distributed_optimizer": True,
        "parallelism.overlap_grad_reduce": True,
        "parallelism.overlap_param_gather": True,
        "precision.dtype": "bf16",
        "kernels.cross_entropy_loss_fusion": True,
        "data.source": "uniform",
        "data.seed": 1234,
        "data.split": "900,50,50",
        "data.tokenizer": "GPT-2's",
    },
    model_defaults=LLAMA_31,
    keyless_defaults={"training.hidden_dropout": 0.0, "data.eod_mask_loss": "counted", POSITION_ENCODING: "rotary"},
    vocabulary_multiple=PADDED_TO,
    mock_data=MockData.UNIFORM,
    mock_vocabularies={50257: None},
    overwritten_seed=1234,  # nemo/lightning/_strategy_lib.py, when ranks are set up
    init_stds=(0.02, 0.01, 0.008944),
    flop_conventions=(CAUSAL, NONCAUSAL),
    flop_conventions_by_era={"": (CAUSAL, NONCAUSAL, Convention.CAUSAL, Convention.NONCAUSAL)},
    averages_tflops=True,  # over trainer.log_every_n_steps (nemo/lightning/pytorch/callbacks/flops_callback.py)
    memory_kind=TORCH_RESERVED.name,
    memory_kinds=(TORCH_RESERVED,),
    end_marker=rb"`?Trainer\.fit`? stopped: `?max_steps=(?P<steps>\d+)`? reached",
    tracker_tags={
        "reduced_train_loss": "loss",
        "train_step_timing in s": "step_time_s",
        "tokens_per_sec_per_gpu": "reported_tokens_per_s_per_gpu",
        "TFLOPS_per_GPU": "reported_tflops_per_gpu",
        "tflops_per_sec_per_gpu": "reported_tflops_per_gpu",
    },
    tracker_zero_based=True,
    suite_name="nemo",
)
