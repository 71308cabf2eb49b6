"""The registry of keys: type, unit, meaning and comparison policy of all that two runs can differ in."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic.fields import FieldInfo

from steelyard.experiment.experiment import GROUPS, Experiment
from steelyard.experiment.policy import (
    ALGORITHM,
    ARITHMETIC,
    FREE,
    JOB,
    LAYOUT,
    STATE,
    STATE_FORMAT,
    TRAINED,
    Effect,
    Metric,
    Policy,
)

UNSTATED = object()
"""No value: where a key has none in a plan of ours."""


@dataclass(frozen=True, slots=True)
class Key:
    """One thing two runs can differ in."""

    name: str
    """Dotted: group and key."""
    type: Any
    meaning: str
    policy: Policy
    planned: Any = UNSTATED
    """Its value in every plan of ours, of a key that no experiment file has."""
    usual: tuple[Any, ...] = ()
    """What a framework does unless told otherwise, and so does a version that knows no such setting."""


def _of_experiment() -> dict[str, Key]:
    keys = {}
    for group in GROUPS:
        for name, field in fields_of(group).items():
            policy = next(note for note in field.metadata if isinstance(note, Policy))
            keys[f"{group}.{name}"] = Key(f"{group}.{name}", field.annotation, meaning_of(field), policy)
    return keys


def fields_of(group: str) -> Mapping[str, FieldInfo]:
    model: Any = Experiment.model_fields[group].annotation
    fields: Mapping[str, FieldInfo] = model.model_fields
    return fields


def meaning_of(field: FieldInfo) -> str:
    return " ".join((field.description or "").split())


def _stated(name: str, kind: Any, meaning: str, policy: Policy, *usual: Any, planned: Any = UNSTATED) -> Key:
    values = usual if planned is UNSTATED else (planned, *usual)
    return Key(name, kind, meaning, policy, planned, values)


_MEASURED = (
    Key("training.tokens_per_step", int, "Tokens of one step, as recorded.", JOB.counted_in("tokens")),
    Key("platform.world_size", int, "GPUs of the job.", Policy(Effect.BLOCKS, unit="GPUs")),
    Key("platform.nodes", int, "Machines of the job.", Policy(Effect.QUALIFIES, unit="nodes")),
    Key("platform.gpu", str, "The kind of GPU.", FREE),
    Key("platform.framework", str, "What trained.", FREE),
    Key("measurement.memory_kind", str, "What is measured as memory.", Policy(memory=Effect.BLOCKS)),
)

_STATED = (
    _stated("model.num_experts", int, "Experts of a layer.", JOB, planned=0),
    _stated("model.moe_router_topk", int, "Experts a token is sent to.", JOB),
    _stated("model.moe_ffn_hidden_size", int, "Inner width of an expert.", JOB),
    _stated("model.moe_shared_expert_intermediate_size", int, "Inner width of the shared expert.", JOB, 0),
    _stated("model.moe_expert_capacity_factor", float, "Tokens an expert takes before it drops some.", JOB, 0.0),
    _stated("model.moe_layer_freq", str, "Which layers have experts.", JOB, "1"),
    _stated("model.moe_router_force_load_balancing", bool, "Whether tokens are sent to experts evenly.", JOB, False),
    _stated("model.mtp_num_layers", int, "Layers that predict further tokens.", JOB, planned=0),
    _stated("model.qk_layernorm", bool, "Whether queries and keys are normalised.", JOB, planned=False),
    _stated("model.attention_window", int, "Tokens a token attends to; 0 for all.", JOB, planned=0),
    _stated("model.window_attn_skip_freq", str, "Which layers attend to all tokens.", JOB, planned="none"),
    _stated("model.multi_latent_attention", bool, "Whether keys and values are compressed.", JOB, planned=False),
    _stated("model.experimental_attention_variant", str, "Another kind of attention.", JOB, planned="none"),
    _stated("model.hybrid_layer_pattern", str, "Layers that are not transformers.", JOB, planned="none"),
    _stated("model.padded_vocab_size", int, "The vocabulary as it was padded.", ALGORITHM.counted_in("tokens")),
    _stated("training.recompute_extent", str, "How much is recomputed.", ARITHMETIC, "none", "uniform 1", "core_attn"),
    _stated("training.optimizer", str, "The optimizer.", TRAINED, planned="adam"),
    _stated("training.optimizer_cpu_offload", float, "Share of the optimizer in CPU memory.", STATE, planned=0.0),
    _stated(
        "training.use_precision_aware_optimizer", bool, "Whether its state is narrower.", STATE_FORMAT, planned=False
    ),
    _stated("training.hidden_dropout", float, "Share of activations dropped.", TRAINED, planned=0.0),
    _stated("training.attention_dropout", float, "Share of attention dropped.", TRAINED, planned=0.0),
    _stated("precision.exp_avg_dtype", str, "Format of the first moment.", STATE_FORMAT, "fp32"),
    _stated("precision.exp_avg_sq_dtype", str, "Format of the second moment.", STATE_FORMAT, "fp32"),
    _stated("precision.main_params_dtype", str, "Format of the master weights.", STATE_FORMAT, "fp32"),
    _stated("precision.main_grads_dtype", str, "Format of the gradients that are added up.", STATE_FORMAT, "fp32"),
    _stated("data.eod_mask_loss", bool, "Whether ends of documents are not trained on.", ALGORITHM, planned=False),
    _stated("data.reset_attention_mask", bool, "Whether attention stops at ends of documents.", JOB, planned=False),
    _stated("data.reset_position_ids", bool, "Whether positions begin anew there.", ALGORITHM, planned=False),
    _stated("data.packing", bool, "Whether documents share a sequence.", TRAINED, planned=True),
    _stated("data.trained_share", float, "Share of a step's tokens that are trained on.", LAYOUT, 1.0),
)

_GROUPS = (*GROUPS, "platform", "measurement")
KEYS: Mapping[str, Key] = MappingProxyType(
    dict(
        sorted(
            ({key.name: key for key in _MEASURED} | _of_experiment()).items(),
            key=lambda entry: _GROUPS.index(entry[0].partition(".")[0]),
        )
    )
)
"""What every run has: the keys of an experiment file, and what is recorded beside them."""

STATED: Mapping[str, Key] = MappingProxyType({key.name: key for key in _STATED})
"""What no experiment file has a key for, and a log may state of itself."""


def blocking(*metrics: Metric) -> list[str]:
    """What blocks one of these where runs differ in it."""
    return [
        name
        for name, key in {**KEYS, **STATED}.items()
        if any(key.policy.effects.get(metric) == Effect.BLOCKS for metric in metrics)
    ]
