"""MaxText, 2023 to 2026: steps count from 0, no end marker, the first three step times are artifacts of dispatch."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from steelyard.frameworks.logs import settings
from steelyard.frameworks.logs.arguments import UnreadArguments
from steelyard.frameworks.logs.dialect import Dialect, Entry, Place, at_step, event, memory, states
from steelyard.frameworks.logs.fields import Field, Shape, UnreadError, whole_number
from steelyard.frameworks.logs.settings import Setting, flag, shaping, stored
from steelyard.frameworks.maxtext.facts import FACTS
from steelyard.records.step import Evidence


def _flags(line: bytes) -> tuple[str, ...]:
    if b"[Rampup Batch Size Phase]" in line:
        return ("rampup",)
    return ("profile",) if b"completed profiler" in line else ()


def _era(shape: Shape, before: bytes) -> str:
    if b"lm_loss" in shape.labels:
        return "2026-04 or newer"
    if b"Tokens/s/device" not in shape.labels:
        return "2024" if b"TFLOP/s/device" in shape.labels else "2023" if b"TFLOP/s" in shape.labels else ""
    return "2025-12 to 2026-04" if b"metric_logger.py" in before else "2025"


# MaxText prints every key of its configuration with the value in force.

Convert = Callable[[str], Any]


def _integer(text: str) -> int:
    return -whole_number(text[1:]) if text.startswith("-") else whole_number(text)


def _quantization(text: str) -> str | None:
    name = text.rpartition(".")[2].lower()
    if name in ("", "none"):
        return None
    return {"fp8": "e4m3", "fp8_gpu": "e4m3", "te_fp8_delayedscaling": "hybrid", "nanoo_fp8": "e4m3"}[name]


def _recompute(text: str) -> str:
    return "full" if text in ("full", "none") else "selective"  # with scanned layers, `none` recomputes everything


def _source(text: str) -> str:
    return "fixed_batch" if text.rpartition(".")[2].lower() == "synthetic" else "tokens"


def _optimizer(text: str) -> str:
    """MaxText's adamw is Megatron's adam."""
    return text.rpartition(".")[2].lower().removesuffix("w")


PARAMETERS: Mapping[str, tuple[str, Convert]] = {
    "num_decoder_layers": ("model.num_layers", _integer),
    "emb_dim": ("model.hidden_size", _integer),
    "mlp_dim": ("model.ffn_hidden_size", _integer),
    "num_query_heads": ("model.num_attention_heads", _integer),
    "num_kv_heads": ("model.num_key_value_heads", _integer),
    "head_dim": ("model.head_dim", _integer),
    "vocab_size": ("model.vocab_size", _integer),
    "normalization_layer_epsilon": ("model.norm_epsilon", float),
    "rope_max_timescale": ("model.rope_theta", float),
    "logits_via_embedding": ("model.tied_embeddings", flag),
    "attention_bias": ("model.qkv_bias", flag),
    "init_weights_seed": ("training.seed", _integer),
    "gradient_accumulation_steps": ("training.gradient_accumulation_steps", _integer),
    "global_batch_size_to_train_on": ("training.global_batch_size", _integer),
    "max_target_length": ("training.sequence_length", _integer),
    "steps": ("training.steps", _integer),
    "learning_rate": ("training.learning_rate", float),
    "adam_weight_decay": ("training.weight_decay", float),
    "adam_b1": ("training.adam_beta1", float),
    "adam_b2": ("training.adam_beta2", float),
    "adam_eps": ("training.adam_epsilon", float),
    "gradient_clipping_threshold": ("training.clip_grad_norm", lambda text: float(text) or None),
    "remat_policy": ("training.recompute", _recompute),
    "dtype": ("precision.dtype", stored),
    "quantization": ("precision.fp8", _quantization),
    "dataset_type": ("data.source", _source),
    "data_shuffle_seed": ("data.seed", _integer),
    "tokenizer_path": ("data.tokenizer", str),
    "opt_type": (settings.OPTIMIZER, _optimizer),
    "use_qk_norm": (settings.QK_NORM, flag),
    "mtp_num_layers": (settings.TOKENS_AHEAD, int),
    "weight_dtype": (settings.MAIN_WEIGHTS_DTYPE, stored),
    "mu_dtype": (settings.FIRST_MOMENT_DTYPE, stored),
    "grad_dtype": (settings.MAIN_GRADIENTS_DTYPE, stored),
    "optimizer_memory_host_offload": (settings.OPTIMIZER_OFFLOAD, lambda text: float(flag(text))),
    "packing": (settings.PACKING, flag),
}
"""Keys of MaxText's configuration that determine one of our keys, with the conversion of their text."""

_AXES = {
    "tensor_parallel_size": ("tensor", "tensor_transpose", "tensor_sequence"),
    "pipeline_parallel_size": ("pipeline",),
    "context_parallel_size": ("context", "context_usp_ulysses", "sequence"),
    "data_parallel_size": ("data", "fsdp", "fsdp_transpose", "expert", "diloco"),
}
"""Our parallel sizes by mesh axes, the axis that every version has first; experts also split the batch."""
_SIZE = re.compile(rf"(?:ici|dcn)_(?:{'|'.join(axis for axes in _AXES.values() for axis in axes)})_parallelism")
_RATE = re.compile(r"\d(?:\.\d{1,9})?")
_CAPACITY = re.compile(r"-?\d{1,6}(?:\.\d{1,9})?")
_TOGETHER = {
    *("num_experts", "num_experts_per_tok", "moe_mlp_dim", "shared_experts", "capacity_factor", "sparse_matmul"),
    *("attention_type", "sliding_window_size", "dropout_rate", "enable_dropout", "decoder_block"),
    *("learning_rate_final_fraction", "learning_rate"),
}
"""Parameters that determine a key of ours only together."""
_PARAMETER = re.compile(rb"Config param (?P<name>\w+): (?P<value>.*)$", re.S)

Parameters = Mapping[str, tuple[str, Evidence]]
"""Text and place of each parameter of `_TOGETHER`."""


class Configuration:
    """Collects `Config param` lines, and interprets them at the first other line."""

    identifies = FACTS.name
    ended = 0  # printed once; a restart is detected by its steps

    def __init__(self) -> None:
        self._together: dict[str, tuple[str, Evidence]] = {}
        self._unread = UnreadArguments()

    def take(self, body: bytes, place: Place) -> Iterator[Entry] | None:
        match = _PARAMETER.search(body)
        return None if match is None else self._parameter(match, place)

    def close(self) -> Iterator[Entry]:
        together, self._together = self._together, {}
        if together:
            yield from _meaning(together)
            yield from self._unread.setting((), next(iter(together.values()))[1])

    def _parameter(self, match: re.Match[bytes], place: Place) -> Iterator[Entry]:
        name, text = match["name"].decode(), match["value"].decode("utf-8", "replace").strip()
        if name in _TOGETHER or _SIZE.fullmatch(name):
            self._together[name] = text, place.evidence
        elif name not in PARAMETERS:
            self._unread.add(name, text)
        if name in PARAMETERS:
            key, convert = PARAMETERS[name]
            try:
                yield Setting(key, convert(text), place.evidence)
            except (ValueError, KeyError):
                return  # a value without an equivalent: unknown


def _meaning(parameters: Parameters) -> Iterator[Entry]:
    block = parameters.get("decoder_block")
    if block and "llama" in block[0].lower():
        yield Setting("model.architecture", "llama", block[1])
    yield from _experts(parameters)
    yield from _attention(parameters)
    rate = parameters.get("dropout_rate")
    if rate is not None and "enable_dropout" in parameters and _RATE.fullmatch(rate[0]):
        enabled = parameters["enable_dropout"][0] == "True"
        yield Setting(settings.HIDDEN_DROPOUT, float(rate[0]) if enabled else 0.0, rate[1])
    final, peak = parameters.get("learning_rate_final_fraction"), parameters.get("learning_rate")
    if final and peak:
        try:
            yield Setting("training.min_learning_rate", float(final[0]) * float(peak[0]), final[1])
        except ValueError:
            return
    for key, axes in _AXES.items():
        names = [f"{network}_{axis}_parallelism" for axis in axes for network in ("ici", "dcn")]
        if all(name in parameters for name in names[:2]):  # within slices and between slices, of the first axis
            sizes = [parameters[name] for name in names if name in parameters]
            counts = [count for size in sizes if (count := _count(size)) is not None]
            if len(counts) == len(sizes):
                yield Setting(f"parallelism.{key}", math.prod(counts), sizes[0][1])


_SIZE_DIGITS = 9
"""Digits of a mesh or model size: the product of all ten axes fits into a float."""


def _count(parameter: tuple[str, Evidence] | None) -> int | None:
    """A count; None for anything else, such as -1 for an axis whose size follows from the others."""
    try:
        return whole_number(parameter[0], _SIZE_DIGITS) if parameter is not None else None
    except UnreadError:
        return None


def _experts(parameters: Parameters) -> Iterator[Entry]:
    """Settings of a mixture of experts; a model with one expert is dense."""
    experts = _count(parameters.get("num_experts"))
    if experts is None:
        return
    yield from shaping(settings.EXPERTS, experts if experts > 1 else 0, parameters["num_experts"][1])
    if experts < 2:
        return
    for name, key in (("num_experts_per_tok", settings.EXPERTS_PER_TOKEN), ("moe_mlp_dim", settings.EXPERT_WIDTH)):
        if (count := _count(parameters.get(name))) is not None:
            yield Setting(key, count, parameters[name][1])
    shared, width = _count(parameters.get("shared_experts")), _count(parameters.get("moe_mlp_dim"))
    if shared is not None and width is not None:
        yield Setting(settings.SHARED_EXPERT_WIDTH, shared * width, parameters["shared_experts"][1])
    capacity, sparse = parameters.get("capacity_factor"), parameters.get("sparse_matmul")
    if capacity and sparse and _CAPACITY.fullmatch(capacity[0]):
        drops = sparse[0] == "False"  # sparse products drop no tokens
        yield Setting(settings.EXPERT_CAPACITY, max(0.0, float(capacity[0])) if drops else 0.0, capacity[1])


def _attention(parameters: Parameters) -> Iterator[Entry]:
    """Attention settings; a window applies only to sliding attention."""
    if "attention_type" not in parameters:
        return
    text, at = parameters["attention_type"]
    kind = text.rpartition(".")[2].lower()
    yield from shaping(settings.LATENT_ATTENTION, kind == "mla", at)
    positions = _count(parameters.get("sliding_window_size"))
    if kind in ("global", "mla", "full"):
        yield Setting(settings.ATTENTION_WINDOW, 0, at)
    elif kind == "local_sliding" and positions is not None:
        yield from shaping(settings.ATTENTION_WINDOW, positions, parameters["sliding_window_size"][1])
    else:
        yield from shaping(settings.ATTENTION_WINDOW, kind, at)


MAXTEXT = Dialect(
    name=FACTS.name,
    framework=FACTS.name,
    precedence=2,
    opening=rb"^\s*(?:\[Rampup[^\]]*\], )?completed (?:profiler activation/deactivation )?step: ?\d",
    words=(
        rb"completed (?:profiler|step)|Config param |Num_devices|Jax (?:Backend|Version)|Using \(GB\)|Memstats",
        rb"checkpoint",
        rb"shutdown result|[Rr]estor|eval",
    ),
    telltales=(rb"metric_logger", rb"axText", rb"maxtext", rb"MAXTEXT"),
    dump=Configuration,
    mark=re.compile(rb"completed (?:profiler activation/deactivation )?step: (?P<step>\d{1,12})(?=,)"),
    separator=b",",
    fields={
        b"seconds": Field("step_time_s"),
        b"TFLOP/s/device": Field("reported_tflops_per_gpu"),
        b"TFLOP/s": Field("reported_tflops_per_gpu"),
        b"Tokens/s/device": Field("reported_tokens_per_s_per_gpu"),
        b"total_weights": Field("trained_tokens"),
        b"loss": Field("loss"),
        b"learning_rate": Field("learning_rate"),
        b"grad_norm": Field("grad_norm"),
    },
    required=("loss",),
    zero_based=True,
    flags=_flags,
    era=_era,
    interval=1,
    first_artefacts=3,
    others={
        rb"Num_devices: (?P<devices>\d+), shape": states(devices=settings.WORLD_SIZE),
        rb"Jax Backend: (?P<backend>cpu)\b": states(bytes.decode, backend=settings.GPU_NAME),
        rb"Jax Version: (?P<version>[\w.]+)": states(lambda text: f"jax {text.decode()}", version=settings.VERSION),
        rb"\bUsing \(GB\) (?P<memory>\d+(?:\.\d+)?) / \d": memory(FACTS.memory_kind),
        # The step after an evaluation waits for it, and the second one is dispatched early.
        rb"(?:Completed eval after train step|eval metrics after step:) (?P<step>\d+)": at_step("eval", 2, 3),
        rb"(?i)restor(?:ing|ed) from .{1,300}?\bstep[ =:]*(?P<step>\d+)": at_step("resumed", 1),
        rb"[Ss]aved a checkpoint at step (?P<step>\d+)": at_step("checkpoint", 2, 3),
        rb"Distributed task shutdown result: OK": event("launcher_finished"),
    },
    start=rb"Config param \w+: ",
    companions=(
        rb"Config param \w+: |\bMemstats: After params initialized|\bmetric_logger\.py:\d+\]",
        rb"MAXTEXT CONFIG ERROR|\bMaxTextConfig\b|\bmaxtext[./]",
    ),
)

DIALECTS = (MAXTEXT,)
