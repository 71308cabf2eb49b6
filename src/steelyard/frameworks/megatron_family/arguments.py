"""The arguments that Megatron prints: their meaning one by one, and together."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, get_args

from steelyard.accounting import padded_vocab_size
from steelyard.experiment.experiment import Fp8Recipe
from steelyard.experiment.presets import PRESETS
from steelyard.frameworks.logs import settings
from steelyard.frameworks.logs.arguments import UnreadArguments
from steelyard.frameworks.logs.dialect import Entry, Place
from steelyard.frameworks.logs.fields import UnreadError, whole_number
from steelyard.frameworks.logs.settings import NONE, Setting, or_none, shaping
from steelyard.frameworks.megatron_family.command_line import COMMAND, arguments_of
from steelyard.frameworks.megatron_family.named_arguments import (
    ARGUMENTS,
    CORPORA,
    OF_EXPERTS,
    OF_FP8,
    RENAMED,
    TOGETHER,
    WITH_OTHERS,
    Convert,
)

_NUMBER = re.compile(r"\d{1,6}(?:\.\d{1,6})?")
_MODULE = re.compile(r"\w+")

_COUNTS_FREELY = "NullTokenizer"
"""Its count depends on the version: up to core 0.19 it adds a token for document ends. So only the padded size, which
the model embeds, is that of the model."""
_PADDED = re.compile(rb"padded vocab \(size: (?P<size>\d+)\) with \d+ dummy tokens \(new size: (?P<padded>\d+)\)")


def _count(text: str | None) -> int | None:
    """A count; None for anything else."""
    try:
        return None if text is None else whole_number(text)
    except UnreadError:
        return None


_PACKS = re.compile(r"(?:\A|_)(?:packed|packing)(?:_|\Z)")
"""Names of arguments that pack samples into one sequence: `use_packed_seq_params`, `sequence_packing`, and those of
forks. FLOPs are then counted from the lengths of the samples, which no log contains."""

ARGUMENT = re.compile(rb"(?:^\s{0,4}|\s\s)(?P<name>[a-z_][a-z0-9_]*) \.{2,} (?P<value>(?:.*\S)?)\s*$")
START, END = re.compile(rb"-{3,} arguments -{3,}"), re.compile(rb"- end of arguments -")


class Arguments:
    """Collects a dump of arguments, and interprets it at its end.

    DeepSpeed prints its own settings in the same format after the end of the dump; they may differ, and do not count.
    """

    identifies = None

    def __init__(self) -> None:
        self._together: dict[str, tuple[str, Place]] = {}
        self._names: set[str] = set()
        self._tokenizer = ""
        self._unread = UnreadArguments()
        self._closed = False
        self.ended = 0

    def take(self, body: bytes, place: Place) -> Iterator[Entry] | None:
        if match := ARGUMENT.search(body):
            return iter(()) if self._closed else self._argument(match, place)
        if END.search(body):
            self.ended += 1
            self._closed = True
            return self._end(place)
        if START.search(body):
            self._closed = False
            self._names.clear()
        elif not self.ended and COMMAND.search(body):
            return self._command_line(body, place)
        elif self._tokenizer == _COUNTS_FREELY and (match := _PADDED.search(body)):
            return _embedded(match, place)
        return None

    def _command_line(self, body: bytes, place: Place) -> Iterator[Entry]:
        """Settings of an echoed command; those of a dump, which follows it, replace them."""
        given = arguments_of(body)
        for name, text in given.items():
            if name in ARGUMENTS:
                yield from _setting(*ARGUMENTS[name], text, place)
        for key, value, _ in _meaning(given):
            yield from shaping(key, value, place.evidence)

    def close(self) -> Iterator[Entry]:
        return iter(())  # a dump has an end marker

    def _argument(self, match: re.Match[bytes], place: Place) -> Iterator[Entry]:
        name, text = match["name"].decode(), match["value"].decode("utf-8", "replace")
        if name in self._names:  # the first counts
            return
        self._names.add(name)
        if name in TOGETHER:
            self._together[name] = text, place
        if name == "tokenizer_type":
            self._tokenizer = text
        if name not in ARGUMENTS and (name not in TOGETHER or name in WITH_OTHERS):
            self._unread.add(name, text)
        if _PACKS.search(name) and text == "True":
            yield from shaping(settings.PACKED_SEQUENCES, True, place.evidence)
        if name in ARGUMENTS:
            yield from _setting(*ARGUMENTS[name], text, place)

    def _end(self, place: Place) -> Iterator[Entry]:
        together, self._together = self._together, {}
        governed = set()
        for key, value, name in _meaning({name: text for name, (text, _) in together.items()}):
            governed.add(name)
            yield from shaping(key, value, together[name][1].evidence)
        yield from self._unread.setting(governed, place.evidence)


def _embedded(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
    """The vocabulary of a tokenizer whose count depends on the version."""
    size, padded = whole_number(match["size"]), whole_number(match["padded"])
    yield Setting(settings.PADDED_VOCABULARY, padded, place.evidence)
    if size == padded:
        yield Setting("model.vocab_size", size, place.evidence)


def _setting(key: str, convert: Convert, text: str, place: Place) -> Iterator[Entry]:
    try:
        yield from shaping(key, convert(text), place.evidence)
    except (ValueError, KeyError):
        return  # None, or a value without an equivalent: unknown


def _meaning(given: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """Settings from several arguments: key, value, and the argument for evidence."""
    if "bf16" in given and "fp16" in given:
        dtype = "bf16" if given["bf16"] == "True" else "fp16" if given["fp16"] == "True" else "fp32"
        if given.get("fp4", "None") != "None":
            dtype = "fp4"  # the format of the products, for which the catalog has no peak
        yield "precision.dtype", dtype, dtype if dtype in given else "fp16"
        yield "precision.loss_scale", "dynamic" if dtype == "fp16" else None, "fp16"
    if "fp8_hybrid" in given and "fp8_e4m3" in given:  # of versions before --fp8-format
        fp8 = next((name for name in ("hybrid", "e4m3") if given[f"fp8_{name}"] == "True"), None)
        yield "precision.fp8", fp8, f"fp8_{fp8 or 'hybrid'}"
    if "add_bias_linear" in given and "add_qkv_bias" not in given:  # of versions with one argument for all biases
        yield "model.qkv_bias", given["add_bias_linear"] == "True", "add_bias_linear"
    recipe = given.get("fp8_recipe", "None")
    if given.get("fp8", "None") != "None" and recipe in get_args(Fp8Recipe):
        yield "precision.fp8_recipe", recipe, "fp8_recipe"
    yield from _vocabulary(given)
    yield from _experts(given)
    yield from _recomputed(given)
    yield from _with_others(given)
    for key, names in RENAMED.items():
        if printed := [name for name in names if name in given]:
            used = next((name for name in printed if given[name] != "None"), printed[0])
            yield key, or_none(given[used]), used
    if "optimizer_cpu_offload" in given:
        share = given.get("optimizer_offload_fraction", "1.0")
        offloads = given["optimizer_cpu_offload"] == "True" and _NUMBER.fullmatch(share)
        yield settings.OPTIMIZER_OFFLOAD, float(share) if offloads else 0.0, "optimizer_cpu_offload"
    yield from _attention(given)
    yield from _positions(given)
    if (seed := _count(given.get("seed"))) is not None:
        yield "data.seed", seed, "seed"  # one seed for weights and data order
    if given.get("use_torch_fsdp2") == "False" and given.get("use_megatron_fsdp", "False") == "False":
        yield "parallelism.fsdp_size", 1, "use_torch_fsdp2"
    named = next((name for name in CORPORA if given.get(name, "None") not in ("None", "[]")), None)
    if given.get("mock_data") == "True":
        yield "data.source", "counting", "mock_data"
    elif named is not None:
        yield "data.source", "tokens", named
        if path := _corpus(given[named]):
            yield "data.path", path, named


def _vocabulary(given: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """The vocabulary; only what is embedded, if the count may leave out a token that does not change it."""
    size = _count(given.get("vocab_size"))
    multiple = _count(given.get("make_vocab_size_divisible_by")), _count(given.get("tensor_model_parallel_size"))
    if size is None:
        return
    if given.get("tokenizer_type") == _COUNTS_FREELY and multiple[0] and multiple[1]:
        padded = padded_vocab_size(size, multiple[0] * multiple[1])
        if padded > size:
            yield settings.PADDED_VOCABULARY, padded, "vocab_size"
            return
    yield "model.vocab_size", size, "vocab_size"


def _attention(given: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """Key and value heads, and the architecture."""
    heads, groups = _count(given.get("num_attention_heads")), _count(given.get("num_query_groups"))
    if given.get("group_query_attention") == "True":
        if groups is not None:
            yield "model.num_key_value_heads", groups, "num_query_groups"
    elif heads is not None:
        yield "model.num_key_value_heads", heads, "num_attention_heads"
    norm = given.get("normalization", "").lower()  # Megatron-DeepSpeed prints rmsnorm
    if given.get("swiglu") == "True" and norm in ("", "rmsnorm"):
        yield "model.architecture", "llama", "swiglu"
    elif given.get("swiglu") == "False" and norm in ("", "layernorm"):
        yield "model.architecture", "gpt", "swiglu"


def _positions(given: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """Position encoding."""
    if given.get("position_embedding_type") == "rope" and "rotary_base" in given:
        try:
            yield "model.rope_theta", float(given["rotary_base"]), "rotary_base"
        except ValueError:
            return
        if given.get("use_rope_scaling", "False") == "False":
            yield "model.rope_scaling", None, "rotary_base"
        elif _NUMBER.fullmatch(given.get("rope_scaling_factor", "")):
            # Megatron's scaling is Llama 3.1's with a settable factor.
            scaling = {**PRESETS["llama3.1-8b"]["rope_scaling"], "factor": float(given["rope_scaling_factor"])}
            yield "model.rope_scaling", scaling, "use_rope_scaling"
    elif given.get("position_embedding_type") == "learned_absolute":
        yield "model.rope_theta", None, "position_embedding_type"
        yield "model.rope_scaling", None, "position_embedding_type"


_WORD = r"'[^'\\]*'|\"[^\"\\]*\"|[\w.+-]+"
_WORDS = re.compile(rf"\[(?:(?:{_WORD})(?:, ?|(?=\])))*\]")
"""A list of texts and numbers as Python prints it; texts with a backslash do not match."""


def _corpus(text: str) -> str | None:
    """A corpus, or a blend of several with weights, as one text; None for an unreadable list."""
    if not text.startswith("["):
        path = text
    elif _WORDS.fullmatch(text):
        path = " ".join(word[1:-1] if word[0] in "'\"" else word for word in re.findall(_WORD, text))
    else:
        return None
    return path if path.isprintable() else None


def _experts(given: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """Settings of a mixture of experts; arguments of the router are ignored for a dense model."""
    count = given.get("num_experts", "")
    if count == "None":
        yield settings.EXPERTS, 0, "num_experts"
    elif (experts := _count(count)) is not None:
        yield settings.EXPERTS, experts if experts > 1 else 0, "num_experts"
        yield from _each(OF_EXPERTS, given)


def _each(table: Mapping[str, Convert], given: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """Arguments under their own names; one that is missing, or None, is unknown."""
    for name, convert in table.items():
        with suppress(ValueError, KeyError):
            yield name, convert(given[name]), name


def _with_others(given: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """Arguments that matter only where FP8, checkpoints or a changing weight decay are in use."""
    if given.get("fp8", "None") != "None":
        yield from _each(OF_FP8, given)
    if given.get("save", "None") != "None":
        yield from _each({"save_interval": or_none}, given)
    end = given.get("end_weight_decay", "None")
    if end != "None":
        yield "end_weight_decay", NONE if end == given.get("start_weight_decay") else end, "end_weight_decay"


def _recomputed(given: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """Layers or modules with recomputed activations; older versions support only one module."""
    granularity, method = given.get("recompute_granularity"), given.get("recompute_method", "None")
    layers = _count(given.get("recompute_num_layers"))
    if granularity == "None":
        yield settings.RECOMPUTE_EXTENT, settings.NONE, "recompute_granularity"
    elif granularity == "selective":
        modules = _MODULE.findall(given.get("recompute_modules", "None"))
        extent = "core_attn" if modules in ([], ["None"]) else ", ".join(sorted(modules))
        yield settings.RECOMPUTE_EXTENT, extent, "recompute_granularity"
    elif granularity == "full" and method != "None" and layers is not None:
        yield settings.RECOMPUTE_EXTENT, f"{method} {layers}", "recompute_method"
