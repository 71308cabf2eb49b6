"""MaxText, 2023 to 2026: counted from 0, no line at the end, the first three steps artefacts of dispatch."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from steelyard.frameworks.logs.dialect import Dialect, Handler, Known, Place, Said, at_step, event, memory
from steelyard.frameworks.logs.fields import Field, Shape, UnreadError, Values, whole_number
from steelyard.frameworks.logs.settings import (
    ATTENTION_WINDOW,
    EXPERT_CAPACITY,
    EXPERT_WIDTH,
    EXPERTS,
    EXPERTS_PER_TOKEN,
    FIRST_MOMENT_DTYPE,
    GPU_NAME,
    HIDDEN_DROPOUT,
    LATENT_ATTENTION,
    MAIN_GRADIENTS_DTYPE,
    MAIN_WEIGHTS_DTYPE,
    OPTIMIZER,
    OPTIMIZER_OFFLOAD,
    PACKING,
    QK_NORM,
    SHARED_EXPERT_WIDTH,
    TOKENS_AHEAD,
    VERSION,
    WORLD_SIZE,
    Setting,
    flag,
    shaping,
    stored,
)
from steelyard.frameworks.maxtext.facts import FACTS

FIELDS: Mapping[bytes, Field] = MappingProxyType(
    {
        b"seconds": Field("step_time_s"),
        b"TFLOP/s/device": Field("reported_tflops_per_gpu"),
        b"TFLOP/s": Field("reported_tflops_per_gpu"),
        b"Tokens/s/device": Field("reported_tokens_per_s_per_gpu"),
        b"total_weights": Field("trained_tokens"),
        b"loss": Field("loss"),
        b"learning_rate": Field("learning_rate"),
        b"grad_norm": Field("grad_norm"),
    }
)


def _number(mark: re.Match[bytes], values: Values) -> tuple[int, int, int | None]:
    reported = int(mark["step"])
    return reported + 1, reported, None


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


# What MaxText prints of its configuration: every key, as in force.

Convert = Callable[[str], Any]


def _integer(text: str) -> int:
    return -whole_number(text[1:]) if text.startswith("-") else whole_number(text)


def _dtype(text: str) -> str:
    return {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}[text]


def _quantization(text: str) -> str | None:
    name = text.rpartition(".")[2].lower()
    if name in ("", "none"):
        return None
    return {"fp8": "e4m3", "fp8_gpu": "e4m3", "te_fp8_delayedscaling": "hybrid", "nanoo_fp8": "e4m3"}[name]


def _recompute(text: str) -> str:
    return "full" if text in ("full", "none") else "selective"  # `none` recomputes all on the scanned path


def _source(text: str) -> str:
    return "fixed_batch" if text.rpartition(".")[2].lower() == "synthetic" else "tokens"


def _optimizer(text: str) -> str:
    """Megatron's adam is what MaxText calls adamw."""
    return text.rpartition(".")[2].lower().removesuffix("w")


PARAMETERS: Mapping[str, tuple[str, Convert]] = MappingProxyType(
    {
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
        "dtype": ("precision.dtype", _dtype),
        "quantization": ("precision.fp8", _quantization),
        "dataset_type": ("data.source", _source),
        "data_shuffle_seed": ("data.seed", _integer),
        "tokenizer_path": ("data.tokenizer", str),
        "opt_type": (OPTIMIZER, _optimizer),
        "use_qk_norm": (QK_NORM, flag),
        "mtp_num_layers": (TOKENS_AHEAD, int),
        "weight_dtype": (MAIN_WEIGHTS_DTYPE, stored),
        "mu_dtype": (FIRST_MOMENT_DTYPE, stored),
        "grad_dtype": (MAIN_GRADIENTS_DTYPE, stored),
        "optimizer_memory_host_offload": (OPTIMIZER_OFFLOAD, lambda text: float(flag(text))),
        "packing": (PACKING, flag),
    }
)
"""A key of MaxText's configuration that says one thing of ours by itself, and how its text is read."""

_AXES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "tensor_parallel_size": ("tensor", "tensor_transpose", "tensor_sequence"),
        "pipeline_parallel_size": ("pipeline",),
        "context_parallel_size": ("context", "context_usp_ulysses", "sequence"),
        "data_parallel_size": ("data", "fsdp", "fsdp_transpose", "expert", "diloco"),
    }
)
"""What the axes of its mesh are to us, the one that every version has first; the batch is split over experts too."""
_SIZE = re.compile(rf"(?:ici|dcn)_(?:{'|'.join(axis for axes in _AXES.values() for axis in axes)})_parallelism")
_RATE = re.compile(r"\d(?:\.\d{1,9})?")
_CAPACITY = re.compile(r"-?\d{1,6}(?:\.\d{1,9})?")
_TOGETHER = {
    "num_experts",
    "num_experts_per_tok",
    "moe_mlp_dim",
    "shared_experts",
    "capacity_factor",
    "sparse_matmul",
    "attention_type",
    "sliding_window_size",
    "dropout_rate",
    "enable_dropout",
    "decoder_block",
    "learning_rate_final_fraction",
    "learning_rate",
    "steps",
}


class Configuration:
    """Gathers `Config param` lines, and says what they mean together once a line of another kind comes."""

    tells = FACTS.name
    ended = 0  # it is printed once, and a restart is told by its steps

    def __init__(self) -> None:
        self._said: dict[str, tuple[str, Place]] = {}
        self._open = False

    def take(self, body: bytes, place: Place) -> Iterator[Said] | None:
        found = PARAMETER.search(body)
        if found is None:
            return None
        self._open = True
        return self._parameter(found, place)

    def close(self) -> Iterator[Said]:
        if self._open:
            self._open = False
            yield from self._meaning()

    def _parameter(self, found: re.Match[bytes], place: Place) -> Iterator[Said]:
        name, text = found["name"].decode(), found["value"].decode("utf-8", "replace").strip()
        if name in _TOGETHER or _SIZE.fullmatch(name):
            self._said[name] = text, place
        if name in PARAMETERS:
            key, convert = PARAMETERS[name]
            try:
                yield Setting(key, convert(text), place.evidence)
            except (ValueError, KeyError):
                return  # a value we have no word for: not known

    def _meaning(self) -> Iterator[Said]:
        said, self._said = self._said, {}
        block = said.get("decoder_block")
        if block and "llama" in block[0].lower():
            yield Setting("model.architecture", "llama", block[1].evidence)
        yield from _experts(said)
        yield from _attention(said)
        rate = said.get("dropout_rate")
        if rate is not None and "enable_dropout" in said and _RATE.fullmatch(rate[0]):
            yield Setting(
                HIDDEN_DROPOUT, float(rate[0]) if said["enable_dropout"][0] == "True" else 0.0, rate[1].evidence
            )
        final, peak = said.get("learning_rate_final_fraction"), said.get("learning_rate")
        if final and peak:
            try:
                yield Setting("training.min_learning_rate", float(final[0]) * float(peak[0]), final[1].evidence)
            except ValueError:
                return
        for key, axes in _AXES.items():
            sizes = {name: said[name] for axis in axes for name in _sizes(axis) if name in said}
            if all(name in sizes for name in _sizes(axes[0])):
                counts = [_count(size) for size in sizes.values()]
                if all(count is not None for count in counts):
                    product = math.prod(count for count in counts if count is not None)
                    yield Setting(f"parallelism.{key}", product, sizes[_sizes(axes[0])[0]][1].evidence)


_SIZE_DIGITS = 9
"""Of a size of a mesh or a model: the product of all ten axes is still within a float."""


def _count(said: tuple[str, Place] | None) -> int | None:
    """A whole number; None for anything else, such as the -1 of an axis whose size follows from the others."""
    try:
        return whole_number(said[0], _SIZE_DIGITS) if said is not None else None
    except UnreadError:
        return None


def _sizes(axis: str) -> tuple[str, str]:
    """Within a slice, and between them."""
    return f"ici_{axis}_parallelism", f"dcn_{axis}_parallelism"


def _experts(said: Mapping[str, tuple[str, Place]]) -> Iterator[Said]:
    """A model of one expert is a dense one."""
    found = said.get("num_experts")
    experts = _count(found)
    if found is None or experts is None:
        return
    yield from shaping(EXPERTS, experts if experts > 1 else 0, found[1].evidence)
    if experts < 2:
        return
    for name, key in (("num_experts_per_tok", EXPERTS_PER_TOKEN), ("moe_mlp_dim", EXPERT_WIDTH)):
        if (count := _count(said.get(name))) is not None:
            yield Setting(key, count, said[name][1].evidence)
    shared, width = _count(said.get("shared_experts")), _count(said.get("moe_mlp_dim"))
    if shared is not None and width is not None:
        yield Setting(SHARED_EXPERT_WIDTH, shared * width, said["shared_experts"][1].evidence)
    capacity, sparse = said.get("capacity_factor"), said.get("sparse_matmul")
    if capacity and sparse and _CAPACITY.fullmatch(capacity[0]):
        drops = sparse[0] == "False"  # sparse products take what comes
        yield Setting(EXPERT_CAPACITY, max(0.0, float(capacity[0])) if drops else 0.0, capacity[1].evidence)


def _attention(said: Mapping[str, tuple[str, Place]]) -> Iterator[Said]:
    """A window is in force where the attention is said to slide."""
    found, window = said.get("attention_type"), said.get("sliding_window_size")
    if found is None:
        return
    kind = found[0].rpartition(".")[2].lower()
    yield from shaping(LATENT_ATTENTION, kind == "mla", found[1].evidence)
    if kind in ("global", "mla", "full"):
        yield Setting(ATTENTION_WINDOW, 0, found[1].evidence)
    elif kind == "local_sliding" and window is not None and (positions := _count(window)) is not None:
        yield from shaping(ATTENTION_WINDOW, positions, window[1].evidence)
    else:
        yield from shaping(ATTENTION_WINDOW, kind, found[1].evidence)


PARAMETER = re.compile(rb"Config param (?P<name>\w+): (?P<value>.*)$", re.S)


def _devices(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    yield Setting(WORLD_SIZE, whole_number(found["devices"]), place.evidence)


def _backend(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    if found["backend"] == b"cpu":
        yield Setting(GPU_NAME, "cpu", place.evidence)


def _version(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    yield Setting(VERSION, f"jax {found['version'].decode()}", place.evidence)


def _disturbs(kind: str) -> Handler:
    """An event of the two steps after the named one: the first waits for it, the second is dispatched ahead."""

    def say(found: re.Match[bytes], place: Place) -> Iterator[Said]:
        yield from at_step(kind, after=2)(found, place)
        yield from at_step(kind, after=3)(found, place)

    return say


def _memstats(found: re.Match[bytes], place: Place) -> Iterator[Said]:
    yield memory(float(found["used"]), FACTS.memory_kind, place, found.string)


MAXTEXT = Dialect(
    name=FACTS.name,
    framework=FACTS.name,
    precedence=2,
    opening=rb"^\s*(?:\[Rampup[^\]]*\], )?completed (?:profiler activation/deactivation )?step: ?\d",
    words=(
        rb"completed (?:profiler|step)",
        rb"Config param ",
        rb"Num_devices",
        rb"Jax (?:Backend|Version)",
        rb"Using \(GB\)",
        rb"Memstats",
        rb"shutdown result",
        rb"[Rr]estor",
        rb"checkpoint",
        rb"eval",
    ),
    telltales=(rb"metric_logger", rb"axText", rb"maxtext", rb"MAXTEXT"),
    dump=Configuration,
    mark=re.compile(rb"completed (?:profiler activation/deactivation )?step: (?P<step>\d{1,12})(?=,)"),
    separator=b",",
    fields=FIELDS,
    required=("loss",),
    number=_number,
    zero_based=True,
    flags=_flags,
    era=_era,
    interval=1,
    first_artefacts=3,
    others=(
        Known(re.compile(rb"Num_devices: (?P<devices>\d+), shape"), _devices),
        Known(re.compile(rb"Jax Backend: (?P<backend>\w+)"), _backend),
        Known(re.compile(rb"Jax Version: (?P<version>[\w.]+)"), _version),
        Known(re.compile(rb"\bUsing \(GB\) (?P<used>\d+(?:\.\d+)?) / \d"), _memstats),
        Known(
            re.compile(rb"(?:Completed eval after train step|eval metrics after step:) (?P<step>\d+)"),
            _disturbs("eval"),
        ),
        Known(
            re.compile(rb"restor(?:ing|ed) from .{1,300}?\bstep[ =:]*(?P<step>\d+)", re.I),
            at_step("resumed", after=1),
        ),
        Known(re.compile(rb"[Ss]aved a checkpoint at step (?P<step>\d+)"), _disturbs("checkpoint")),
        Known(re.compile(rb"Distributed task shutdown result: OK"), event("launcher_finished")),
    ),
    companions=(
        PARAMETER,
        re.compile(rb"\bMemstats: After params initialized"),
        re.compile(rb"\bmetric_logger\.py:\d+\]"),
        re.compile(rb"MAXTEXT CONFIG ERROR|\bMaxTextConfig\b|\bmaxtext[./]"),
    ),
)

DIALECTS = (MAXTEXT,)
