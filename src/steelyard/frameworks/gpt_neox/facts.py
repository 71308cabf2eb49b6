"""Facts about GPT-NeoX, which can be read but not planned."""

from steelyard.accounting.flops import Convention, attention_flops, parameters
from steelyard.accounting.vocabularies import PADDED_TO
from steelyard.experiment.experiment import Recompute
from steelyard.experiment.model import Model
from steelyard.frameworks.facts import POSITION_ENCODING, TORCH_RESERVED, Described, Facts, ShareOf


def _of_a_gpt(model: Model, sequence_length: int, logits: float, recompute: Recompute) -> float:
    """(24 L h^2 (1 + s/6h) + logits) per forward pass, times 3, or 4 with recomputed activations.

    It counts every model as a GPT with 4 h wide feed-forward blocks and multi-head attention.
    """
    width, layers = model.hidden_size, model.num_layers
    forward = 24.0 * layers * width**2 + 4.0 * layers * width * sequence_length + logits
    return forward * (4 if recompute == "full" else 3)


def _current(model: Model, sequence_length: int, vocab_size: int | None, recompute: Recompute) -> float:
    logits = 1.5 * model.hidden_size * (vocab_size or model.vocab_size)
    return _of_a_gpt(model, sequence_length, logits, recompute)


def _without_logits(model: Model, sequence_length: int, _: int | None, recompute: Recompute) -> float:
    return _of_a_gpt(model, sequence_length, 0.0, recompute)


def _by_parameters(model: Model, sequence_length: int, vocab_size: int | None, _: Recompute) -> float:
    return 6.0 * parameters(model, vocab_size).total + 5 * attention_flops(model, sequence_length)


FLOPS = Convention("gpt_neox", _current, counts_recomputation=True)
"""megatron/logging.py, get_actual_flops: since December 2023."""
WITHOUT_LOGITS = Convention("gpt_neox_without_logits", _without_logits, counts_recomputation=True)
"""get_flops from September to December 2023, which added the term of the vocabulary to the product."""
BY_PARAMETERS = Convention("gpt_neox_by_parameters", _by_parameters)
"""get_flops of version 2.0 and before: 6 N + 60 L h s."""

FACTS = Facts(
    name="gpt-neox",
    silent_defaults={  # megatron/neox_arguments
        "training.seed": 1234,
        "training.min_learning_rate": 0.0,
        "training.schedule": "linear",
        "training.warmup_steps": ShareOf("training.steps", 0.01),
        "training.weight_decay": 0.1,
        "training.adam_beta1": 0.9,
        "training.adam_beta2": 0.999,
        "training.adam_epsilon": 1e-8,
        "training.clip_grad_norm": 1.0,
        "training.init_method_std": Described("0.02, unless init_method has its own"),
        "training.recompute": "none",
        "parallelism.tensor_parallel_size": 1,
        "parallelism.sequence_parallel": False,
        "parallelism.distributed_optimizer": False,
        "precision.dtype": "fp32",
        "data.seed": 1234,
        "data.split": "969, 30, 1",
    },
    model_defaults={"model.norm_epsilon": 1e-5, "model.rope_theta": 10000, "model.tied_embeddings": True},
    keyless_defaults={"training.hidden_dropout": 0.0, "data.eod_mask_loss": "counted", POSITION_ENCODING: "learned"},
    vocabulary_multiple=PADDED_TO,  # make_vocab_size_divisible_by, times model_parallel_size
    one_seed=True,
    flop_conventions=(FLOPS, WITHOUT_LOGITS, BY_PARAMETERS),
    flop_conventions_by_era={"2024-12 or newer": (FLOPS,)},
    memory_kind=TORCH_RESERVED.name,
    memory_kinds=(TORCH_RESERVED,),
    end_marker=rb"results at the end of training for (?:val|test) data",
    tracker_tags={
        "train/lm_loss": "loss",
        "runtime/iteration_time": "step_time_s",
    },
)
