"""Facts about torchtitan, which can be read but not planned."""

from steelyard.accounting.flops import Convention, attention_flops, parameters
from steelyard.experiment import Model
from steelyard.frameworks.facts import LLAMA_31, POSITION_ENCODING, TORCH_RESERVED, Described, Facts


def _flops_per_token(model: Model, sequence_length: int, *_: object) -> float:
    """All weights but the embedding, and attention without a causal mask; the vocabulary is not padded."""
    counted = parameters(model)
    return 6.0 * (counted.total - counted.embedding) + attention_flops(model, sequence_length)


FLOPS = Convention("torchtitan", _flops_per_token)

FACTS = Facts(
    name="torchtitan",
    silent_defaults={
        "training.micro_batch_size": 8,
        "training.sequence_length": 2048,
        "training.steps": 10000,
        "training.learning_rate": 8e-4,
        "training.min_learning_rate": 0.0,
        "training.schedule": "linear",
        "training.warmup_steps": 200,
        "training.weight_decay": 0.1,
        "training.adam_beta1": 0.9,
        "training.adam_beta2": 0.95,
        "training.adam_epsilon": 1e-8,
        "training.clip_grad_norm": 1.0,
        "training.init_method_std": Described("0.02 inside and hidden^-0.5 at the output, with no knob"),
        "data.dataset": "c4_test",
    },
    model_defaults=LLAMA_31,
    keyless_defaults={"training.hidden_dropout": 0.0, "data.eod_mask_loss": "counted", POSITION_ENCODING: "rotary"},
    unit_logits=True,  # and a truncated normal at the output, whose first loss no std tells to a hundredth
    flop_conventions_by_era={"": (FLOPS,)},
    memory_kind=TORCH_RESERVED.name,
    memory_kinds=(TORCH_RESERVED,),
    loss_of_last_step=True,
    end_marker=rb"Training completed\s*$",
    announces_end=True,
    tracker_tags={
        "loss_metrics/global_avg_loss": "loss",
        "time_metrics/end_to_end(s)": "step_time_s",
        "throughput(tps)": "reported_tokens_per_s_per_gpu",
        "memory/max_reserved(GiB)": "memory_gib",
    },
)
