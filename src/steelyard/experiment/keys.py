"""The registry of keys: type, unit, meaning and comparison policy of every difference between two runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic.fields import FieldInfo

from steelyard.experiment.experiment import GROUPS, Experiment
from steelyard.experiment.policy import (
    ALGORITHM,
    ARITHMETIC,
    CURVE,
    FREE,
    JOB,
    LAYOUT,
    OVERHEAD,
    SITE,
    STATE,
    STATE_FORMAT,
    TRAINED,
    Before,
    Effect,
    Metric,
    Policy,
)

UNSTATED = object()
"""The key has no fixed value in our plans."""


@dataclass(frozen=True, slots=True)
class Key:
    """One setting in which two runs can differ."""

    name: str
    """Dotted: group and key."""
    type: Any
    meaning: str
    policy: Policy
    planned: Any = UNSTATED
    """The value in a plan of ours that does not state the key: in every plan if no experiment file has the key, in
    plans from before the key existed if it was added later."""
    usual: tuple[Any, ...] = ()
    """Values that frameworks use by default, and that versions without this setting use."""
    among: str = ""
    """The key in which both sides must agree for this one to matter: versions of two frameworks do not compare."""


def _of_experiment() -> dict[str, Key]:
    keys = {}
    for group in GROUPS:
        for name, field in fields_of(group).items():
            policy = next(note for note in field.metadata if isinstance(note, Policy))
            before = tuple(note.value for note in field.metadata if isinstance(note, Before))
            planned = before[0] if before else UNSTATED
            about = (field.annotation, meaning_of(field), policy)
            keys[f"{group}.{name}"] = Key(f"{group}.{name}", *about, planned, before)
    return keys


def fields_of(group: str) -> Mapping[str, FieldInfo]:
    model: Any = Experiment.model_fields[group].annotation
    fields: Mapping[str, FieldInfo] = model.model_fields
    return fields


def defaults() -> dict[str, Any]:
    """Every key of an experiment file with its default; None where it has none."""
    fields = {f"{group}.{name}": field for group in GROUPS for name, field in fields_of(group).items()}
    return {dotted: None if field.is_required() else field.get_default() for dotted, field in fields.items()}


def meaning_of(field: FieldInfo) -> str:
    return " ".join((field.description or "").split())


def _stated(name: str, kind: Any, meaning: str, policy: Policy, *usual: Any, planned: Any = UNSTATED) -> Key:
    values = usual if planned is UNSTATED else (planned, *usual)
    return Key(name, kind, meaning, policy, planned, values)


_MEASURED = (
    Key("training.tokens_per_step", int, "Tokens per step, as recorded.", JOB.counted_in("tokens")),
    Key("platform.world_size", int, "Number of GPUs of the job.", Policy(Effect.BLOCKS, unit="GPUs")),
    Key("platform.nodes", int, "Number of nodes of the job.", Policy(Effect.QUALIFIES, unit="nodes")),
    Key("platform.gpu", str, "Type of GPU.", FREE),
    Key("platform.framework", str, "Training framework.", FREE),
    Key("platform.framework_version", str, "Version of it.", LAYOUT, among="platform.framework"),
    Key("platform.image", str, "Container image, by ID.", LAYOUT, among="platform.framework"),
    Key("platform.driver", str, "Driver of the GPUs.", SITE, among="platform.gpu"),
    Key("platform.power_cap_w", float, "Power cap per GPU.", SITE.counted_in("W"), among="platform.gpu"),
    Key("platform.clock_mhz", float, "Mean clock per GPU.", SITE.counted_in("MHz"), among="platform.gpu"),
    Key("measurement.memory_kind", str, "What the memory figure measures.", Policy(memory=Effect.BLOCKS)),
)

_STATED = (
    _stated("model.num_experts", int, "Experts per layer.", JOB, planned=0),
    _stated("model.moe_router_topk", int, "Experts per token.", JOB),
    _stated("model.moe_ffn_hidden_size", int, "Width inside an expert.", JOB),
    _stated("model.moe_shared_expert_intermediate_size", int, "Width inside the shared expert.", JOB, 0),
    _stated("model.moe_expert_capacity_factor", float, "Tokens above which an expert drops some.", JOB, 0.0),
    _stated("model.moe_layer_freq", str, "Which layers have experts.", JOB, "1"),
    _stated(
        "model.moe_router_force_load_balancing",
        bool,
        "Whether experts get equal token counts.",
        JOB,
        False,
    ),
    _stated("model.mtp_num_layers", int, "Layers that predict more than the next token.", JOB, planned=0),
    _stated("model.qk_layernorm", bool, "Whether queries and keys are normalized.", JOB, planned=False),
    _stated("model.attention_window", int, "Length of the attention window; 0 for all tokens.", JOB, planned=0),
    _stated("model.window_attn_skip_freq", str, "Which layers attend to all tokens.", JOB, planned="none"),
    _stated("model.multi_latent_attention", bool, "Whether keys and values are compressed.", JOB, planned=False),
    _stated("model.experimental_attention_variant", str, "Another variant of attention.", JOB, planned="none"),
    _stated("model.hybrid_layer_pattern", str, "Pattern of layers that are not transformers.", JOB, planned="none"),
    _stated("model.attention_output_gate", bool, "Whether the output of attention is gated.", JOB, planned=False),
    _stated(
        "model.packed_sequences", bool, "Whether attention stops at the ends of packed samples.", JOB, planned=False
    ),
    _stated("model.padded_vocab_size", int, "Size of the padded vocabulary.", ALGORITHM.counted_in("tokens")),
    _stated("training.recompute_extent", str, "How much is recomputed.", ARITHMETIC, "none", "uniform 1", "core_attn"),
    _stated("training.optimizer", str, "The optimizer.", TRAINED, planned="adam"),
    _stated("training.optimizer_cpu_offload", float, "Share of the optimizer state in CPU memory.", STATE, planned=0.0),
    _stated(
        "training.use_precision_aware_optimizer",
        bool,
        "Whether its state uses narrower formats.",
        STATE_FORMAT,
        planned=False,
    ),
    _stated("training.initial_weights", str, "Name or hash of initial weights that runs share.", FREE),
    _stated("training.hidden_dropout", float, "Share of activations that are dropped.", TRAINED, planned=0.0),
    _stated("training.attention_dropout", float, "Share of attention weights that are dropped.", TRAINED, planned=0.0),
    _stated("precision.exp_avg_dtype", str, "Format of Adam's first moment.", STATE_FORMAT, "fp32"),
    _stated("precision.exp_avg_sq_dtype", str, "Format of Adam's second moment.", STATE_FORMAT, "fp32"),
    _stated("precision.main_params_dtype", str, "Format of the master weights.", STATE_FORMAT, "fp32"),
    _stated("precision.main_grads_dtype", str, "Format of accumulated gradients.", STATE_FORMAT, "fp32"),
    _stated(
        "data.eod_mask_loss",
        bool,
        "Whether the loss skips document ends.",
        ALGORITHM,
        planned=False,
    ),
    _stated("data.reset_attention_mask", bool, "Whether attention stops at document ends.", JOB, planned=False),
    _stated("data.reset_position_ids", bool, "Whether positions restart there.", ALGORITHM, planned=False),
    _stated("data.packing", bool, "Whether documents share a sequence.", TRAINED, planned=True),
    _stated("model.add_bias_linear", bool, "Whether linear layers have biases.", JOB, False, True),
    _stated("model.squared_relu", bool, "Whether the activation is a squared ReLU.", ALGORITHM, planned=False),
    _stated("model.rotary_percent", float, "Share of a head with rotary positions.", ALGORITHM, planned=1.0),
    _stated("model.rotary_interleaved", bool, "Whether rotary pairs are neighbors.", ALGORITHM, planned=False),
    _stated("model.rotary_seq_len_interpolation_factor", str, "Stretch of positions.", ALGORITHM, planned="none"),
    _stated("model.apply_residual_connection_post_layernorm", bool, "Residual after norm.", ALGORITHM, planned=False),
    _stated("model.apply_layernorm_1p", bool, "Whether norm weights are centered on 0.", ALGORITHM, planned=False),
    _stated("model.apply_query_key_layer_scaling", bool, "QK scaled by layer number.", ALGORITHM, planned=False),
    _stated("model.moe_router_load_balancing_type", str, "How experts are balanced.", ALGORITHM),
    _stated("model.moe_aux_loss_coeff", str, "Weight of the balancing loss.", ALGORITHM),
    _stated("model.moe_z_loss_coeff", str, "Weight of the router's z-loss.", ALGORITHM, "none"),
    _stated("training.freeze_all_layers", bool, "Whether layers are frozen.", JOB, planned=False),
    _stated("training.sft", bool, "Whether it is supervised fine-tuning.", JOB, planned=False),
    _stated("training.load", bool, "Whether a checkpoint may be loaded.", CURVE, False),
    _stated("training.pretrained_checkpoint", bool, "Whether trained weights are loaded.", ALGORITHM, planned=False),
    _stated("training.finetune", bool, "Whether a loaded checkpoint starts at step 0.", CURVE, planned=False),
    _stated("training.use_mup", bool, "Whether muP scales rates and weights by width.", ALGORITHM, planned=False),
    _stated("training.decoupled_lr", str, "Learning rate of embeddings and output.", ALGORITHM, planned="none"),
    _stated("training.decoupled_min_lr", str, "Its minimum.", ALGORITHM, planned="none"),
    _stated("training.embedding_init_method_std", str, "Std of initial embeddings.", ALGORITHM, planned="none"),
    _stated("training.init_method_xavier_uniform", bool, "Whether weights start uniform.", ALGORITHM, planned=False),
    _stated("training.data_parallel_random_init", bool, "Whether replicas start apart.", ALGORITHM, planned=False),
    _stated("training.end_weight_decay", str, "Weight decay at the end, if it changes.", ALGORITHM, planned="none"),
    _stated("training.weight_decay_incr_style", str, "How weight decay changes.", ALGORITHM, planned="constant"),
    _stated("training.lr_warmup_fraction", str, "Warm-up as a share of the schedule.", ALGORITHM, planned="none"),
    _stated("training.calculate_per_token_loss", bool, "Whether tokens weigh equally.", ALGORITHM, planned=False),
    _stated("training.cpu_offloading_num_layers", int, "Layers with activations in CPU memory.", STATE, planned=0),
    _stated("training.fine_grained_activation_offloading", bool, "Offload of activations.", STATE, planned=False),
    _stated("training.save_interval", str, "Steps between checkpoints.", OVERHEAD, "none"),
    _stated("parallelism.virtual_pipeline_model_parallel_size", int, "Stages per rank.", LAYOUT, planned=0),
    _stated("parallelism.expert_model_parallel_size", int, "GPUs that share the experts.", LAYOUT, 1),
    _stated("parallelism.moe_token_dispatcher_type", str, "How tokens reach experts.", LAYOUT),
    _stated("parallelism.tp_comm_overlap", bool, "Overlap of tensor parallelism.", LAYOUT, planned=False),
    _stated("precision.fp8_param_gather", bool, "Whether weights are kept in FP8.", STATE_FORMAT, False),
    _stated("precision.first_last_layers_bf16", bool, "Outer layers in bf16.", ARITHMETIC, False),
    _stated("precision.attention_softmax_in_fp32", bool, "Whether softmax is in fp32.", LAYOUT, False, True),
    _stated("data.fim_data", bool, "Whether the middle of samples is to be filled in.", ALGORITHM, planned=False),
    _stated("data.dataloader_type", str, "Order of samples: single or cyclic.", ALGORITHM, "single"),
    _stated("data.trained_share", float, "Share of the tokens of a step that are trained on.", LAYOUT, 1.0),
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
"""Keys of every run: those of an experiment file, and measured ones."""

STATED: Mapping[str, Key] = MappingProxyType({key.name: key for key in _STATED})
"""Keys that an experiment file does not have, but a log may contain."""

DECLARED = ("training.initial_weights",)
"""Those that no log contains: `ingest --set` states them."""


def blocking(*metrics: Metric) -> list[str]:
    """Keys that block a comparison of one of these metrics if they differ."""
    return [
        name
        for name, key in {**KEYS, **STATED}.items()
        if any(key.policy.effects.get(metric) == Effect.BLOCKS for metric in metrics)
    ]
