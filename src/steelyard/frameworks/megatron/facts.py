"""Facts about Megatron-LM and ROCm's fork of it."""

from steelyard.accounting.flops import Convention
from steelyard.accounting.vocabularies import PADDED_TO
from steelyard.frameworks.facts import DEVICE_USED, POSITION_ENCODING, TORCH_RESERVED, Facts, MockData
from steelyard.frameworks.megatron_family.facts import (
    ATTENTION_NAMES,
    CORE_DEFAULTS,
    COUNTING_FLOOR,
    FLAGS,
    LOCAL_KERNELS,
    LOSS_DIGITS,
)

FACTS = Facts(
    name="megatron",
    names={
        **FLAGS,
        **ATTENTION_NAMES,
        "model.architecture": "--normalization, --swiglu, --position-embedding-type",
        "model.rope_scaling": "--use-rope-scaling",
        "parallelism.fsdp_size": "--use-torch-fsdp2",
        "precision.dtype": "--bf16, --fp16",
        "precision.fp8": "--fp8-format",
        "precision.fp8_recipe": "--fp8-recipe",
        "precision.grad_reduce_in_fp32": "--grad-reduce-in-bf16",
        "kernels.bias_activation_fusion": "--no-bias-swiglu-fusion, --no-bias-gelu-fusion",
        "kernels.apply_rope_fusion": "--no-rope-fusion",
        "kernels.cross_entropy_loss_fusion": "--cross-entropy-loss-fusion",
        "kernels.use_flash_attn": "--attention-backend",
        "data.source": "--mock-data, --data-path",
    },
    unnamed=frozenset(
        {
            *("model.preset", "data.dataset", "data.samples"),
            *("kernels.enable_primus_turbo", "kernels.use_turbo_attention", "kernels.compile", "kernels.deterministic"),
        }
    ),
    silent_defaults={
        **CORE_DEFAULTS,
        "kernels.transformer_impl": "transformer_engine",
        "kernels.gradient_accumulation_fusion": True,
    },
    local_kernels=LOCAL_KERNELS,
    model_defaults={
        "model.norm_epsilon": 1e-5,
        "model.rope_theta": 10000,
        "model.rope_scaling": None,
        "model.tied_embeddings": True,
    },
    keyless_defaults={"training.hidden_dropout": 0.1, "data.eod_mask_loss": "counted", POSITION_ENCODING: "learned"},
    vocabulary_multiple=PADDED_TO,
    mock_data=MockData.COUNTING,
    mock_floor=COUNTING_FLOOR,
    one_seed=True,
    init_stds=(0.02,),
    flop_conventions=(Convention.CAUSAL, Convention.NONCAUSAL),
    flop_conventions_by_era={
        "core 0.5 or older": (Convention.NONCAUSAL,),
        "core 0.13 to 0.15": (Convention.CAUSAL,),
        "core 0.16 or newer": (Convention.CAUSAL,),
    },
    loss_digits=LOSS_DIGITS,
    norm_only_if_clipped=True,
    memory_kind=TORCH_RESERVED.name,
    memory_kinds=(TORCH_RESERVED, DEVICE_USED),
    end_marker=rb"\[after training is done\]",
    tracker_tags={
        "lm loss": "loss",
        "grad-norm": "grad_norm",
        "learning-rate": "learning_rate",
        "iteration-time": "step_time_s",
        "throughput": "reported_tflops_per_gpu",
    },
    suite_name="mega",
    has_launch_script=True,
    shards_weights=True,
)
