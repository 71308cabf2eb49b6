"""Reads a JAX config: MaxText, with two meshes and a batch per GPU."""

import difflib
import math
import re
from collections.abc import Collection

from steelyard.configs.cvs.draft import Draft
from steelyard.configs.cvs.keys import AXES, LEFT_OVER, NOTHING, PRESET_KEYS, REST_AXIS
from steelyard.configs.cvs.section import Section
from steelyard.configs.cvs.values import converted, left_open
from steelyard.experiment.problems import CONTRADICTED, PLACEHOLDER, UNKNOWN_KEY, WRONG_VALUE, bare, shown
from steelyard.experiment.reading import PointerPath, Stated
from steelyard.frameworks.facts import Described, ShareOf
from steelyard.frameworks.maxtext.facts import FACTS
from steelyard.frameworks.maxtext.plan import SOURCE

DTYPES = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}
_HYBRID = ("fp8", "nanoo_fp8", "fp8_full", "fp8_gpu", "te_fp8_delayedscaling", "te_fp8_currentscaling")
QUANTIZATIONS = {"": None, **dict.fromkeys(_HYBRID, "hybrid"), "te_mxfp8": "e4m3"}

RECOMPUTED = {"none": "full", "full": "full"}
"""What a remat policy recomputes with scanned layers; every other policy is selective."""

FIXED = {key: value for key, value in FACTS.silent_defaults.items() if not isinstance(value, ShareOf | Described)}
"""MaxText's defaults, for the keys whose default is a value."""

ALLOWED = {
    "attention": ("autoselected", "dot_product", "flash", "cudnn_flash_te", "cudnn_flash_jax", "paged", "vllm_rpa"),
    "remat_policy": (
        *("none", "full", "custom", "save_qkv_proj", "qkv_proj_offloaded", "save_out_proj"),
        *("minimal", "minimal_flash", "minimal_with_context", "minimal_offloaded"),
        *("minimal_with_quantization", "minimal_with_context_and_quantization"),
        *("save_dot_except_mlp", "save_dot_except_mlpwi", "save_dot_with_context_except_mlp"),
    ),
    "weight_dtype": tuple(DTYPES),
    "hardware": ("gpu", "gpu_multiprocess"),
    "kv_quant_dtype": ("int8", "int4"),
    "opt_type": ("adamw", "adam_pax"),
    "dataset_type": ("synthetic", "hf", "grain", "tfds", "c4_mlperf"),
    "tokenizer_type": ("sentencepiece", "huggingface", "tiktoken"),
}
"""Values that MaxText accepts and a plan can use."""

OTHER_KEYS = ("tokenizer_model", "model_size", "result_dict", "xla_flags")
"""Parameters of the file that are not MaxText keys."""

NEIGHBOURS = (
    "base_moe_mlp_dim",
    "eval_per_device_batch_size",
    "local_rope_max_timescale",
    "per_device_batch_size_increment",
    "per_device_batch_size_start",
    "rope_min_timescale",
    "v_head_dim",
)
"""MaxText keys that look like a misspelling of another key."""

DECIDED = {
    "steps": "config.training_steps",
    "enable_checkpointing": "config.enable_checkpointing",
    "model_name": "the key of the model",
    "run_name": "the plan",
    "base_config": "the plan",
    "base_output_directory": "config.log_dir",
}
"""MaxText keys that the plan, or another key of the file, decides."""


def translate(draft: Draft) -> None:
    draft.put_all({**FIXED, "training.checkpointing": False}, SOURCE)
    steps = draft.take_steps("training_steps")
    if (checkpointing := draft.config.get("enable_checkpointing")) is not None:
        draft.put("training.checkpointing", checkpointing.value, checkpointing.path)
    _batch(draft, _mesh(draft))
    _schedule(draft, steps)
    draft.take("max_target_length", required=True)
    for name in ("learning_rate", "adam_b1", "adam_b2", "adam_eps", "adam_weight_decay"):
        draft.take(name)
    draft.take("init_weights_seed")
    draft.take("data_shuffle_seed")
    draft.take("gradient_clipping_threshold", meaning=lambda norm: norm or None)  # 0 is off
    draft.take("remat_policy", meaning=lambda policy: RECOMPUTED.get(policy, "selective"))
    _check_values(draft)
    draft.take("attention", meaning=lambda kernel: "flash" in kernel)
    _source(draft)
    _environment(draft)
    _options(draft)


def _mesh(draft: Draft) -> int:
    """Set the parallel sizes from the two meshes; return the GPUs per replica."""
    sizes = dict.fromkeys((f"parallelism.{size}" for _, size in AXES.values()), 1)
    for net, whole in (("ici", draft.gpus_per_node), ("dcn", draft.nodes)):
        values = {axis: draft.params.value(f"{net}_{axis}_parallelism") for axis in AXES}
        stated = {axis: value for axis, value in values.items() if value is not None}
        resolved = resolved_axes(dict.fromkeys(AXES, 1) | {REST_AXIS[net]: LEFT_OVER} | stated, whole)
        for axis, (_, size) in AXES.items():
            sizes[f"parallelism.{size}"] *= resolved[axis]
    for axes, dotted in (
        (("tensor",), "parallelism.tensor_parallel_size"),
        (("pipeline",), "parallelism.pipeline_parallel_size"),
        (("fsdp",), "parallelism.fsdp_size"),
        (("sequence", "context"), "parallelism.context_parallel_size"),
    ):
        first = next(filter(None, (draft.params.get(f"ici_{axis}_parallelism") for axis in axes)), None)
        draft.put(dotted, sizes[dotted], first.path if first else SOURCE)
    return math.prod(sizes[f"parallelism.{size}_parallel_size"] for size in ("tensor", "pipeline", "context"))


def resolved_axes(values: dict[str, int], whole: int) -> dict[str, int]:
    """The axes with a single -1 replaced by the remaining devices. SY208 reports an axis that cannot be resolved."""
    fixed = math.prod(value for value in values.values() if value > 0)
    open_axes = [axis for axis, value in values.items() if value == LEFT_OVER]
    filled = {axis: max(1, value) for axis, value in values.items()}
    if len(open_axes) == 1 and fixed and whole % fixed == 0:
        filled[open_axes[0]] = whole // fixed
    return filled


def _batch(draft: Draft, replica: int) -> None:
    """Set the batches: globally per_device_batch_size x all GPUs, per micro-batch the part of one replica."""
    stated = draft.params.get("per_device_batch_size", required=True)
    accumulation = draft.params.value("gradient_accumulation_steps") or 1
    if stated is None:
        return
    micro = stated.value * replica
    if stated.value <= 0 or micro != int(micro) or accumulation < 1:
        draft.report.add(
            WRONG_VALUE,
            stated.path,
            f"per_device_batch_size is {stated.value:g} with {replica} GPU{'s' * (replica != 1)} per replica",
            "choose a batch with a whole number of sequences per replica",
            stated.value,
            "a positive number of sequences",
        )
        return
    draft.put("training.micro_batch_size", int(micro), stated.path)
    draft.put("training.global_batch_size", int(stated.value * draft.world_size * accumulation), stated.path)


def _schedule(draft: Draft, steps: int) -> None:
    """Set warm-up and minimum rate, which the file has as shares of the steps and of the peak."""
    params = draft.params
    rate = params.value("learning_rate") or FIXED["training.learning_rate"]
    final = params.get("learning_rate_final_fraction") or params.get("cosine_learning_rate_final_fraction")
    warmup = params.get("warmup_steps_fraction")
    length = params.get("learning_rate_schedule_steps")
    total = length.value if length and length.value > 0 else steps
    share = final.value if final else _default_share("training.min_learning_rate")
    minimum = float(f"{share * float(rate):.10g}")
    draft.put("training.min_learning_rate", minimum, final.path if final else SOURCE)
    warmup_steps = int((warmup.value if warmup else _default_share("training.warmup_steps")) * total)
    draft.put("training.warmup_steps", warmup_steps, warmup.path if warmup else SOURCE)
    if length and length.value > 0:
        draft.put("training.decay_steps", length.value, length.path)


def _default_share(dotted: str) -> float:
    default = FACTS.silent_defaults[dotted]
    assert isinstance(default, ShareOf)
    return default.share


def _one_of(draft: Draft, name: str, words: Collection[str]) -> Stated | None:
    """A parameter with a fixed set of values; another value is a problem."""
    stated = draft.params.get(name)
    if stated is None or stated.value in words:
        return stated
    draft.report.wrong(stated.path, stated.value, f"one of {', '.join(map(repr, words))}", "write one of them")
    return None


def _check_values(draft: Draft) -> None:
    """Check the formats and other fixed values; set those that the experiment has."""
    for name, words in (("dtype", DTYPES), ("quantization", QUANTIZATIONS)):
        if _one_of(draft, name, words):
            draft.take(name, meaning=words.get)
    if draft.content["precision"].get("dtype") == "fp16":
        draft.put("precision.loss_scale", "dynamic", SOURCE)
    for name, allowed in ALLOWED.items():
        _one_of(draft, name, allowed)
    share = draft.params.get("warmup_steps_fraction")
    if share is not None and not 0 <= share.value <= 1:
        message = f"{share.path[-1]} is {share.value:g}"
        draft.report.add(WRONG_VALUE, share.path, message, "write a share of the steps", share.value, "0 to 1")


def _source(draft: Draft) -> None:
    kind, mock = draft.params.get("dataset_type"), draft.config.get("mock_data")
    synthetic = kind.value == "synthetic" if kind else mock is None or bool(mock.value)
    decisive = kind or mock
    draft.put("data.source", "uniform" if synthetic else "tokens", decisive.path if decisive else SOURCE)
    if synthetic:
        return
    for name, dotted in (
        ("hf_train_files", "data.path"),
        ("grain_train_files", "data.path"),
        ("dataset_path", "data.path"),
        ("hf_path", "data.dataset"),
        ("tokenizer_path" if draft.params.get("tokenizer_path") else "tokenizer_model", "data.tokenizer"),
    ):
        if (stated := draft.params.get(name)) and stated.value:
            draft.put(dotted, stated.value, stated.path)


def _environment(draft: Draft) -> None:
    """Set the variables: from lower-case keys of the file, then from env_vars, then XLA_FLAGS."""
    config = draft.config
    env: dict[str, str] = {}
    for name, key in config.keys.items():
        if not key.reads.isupper() or key.reads == "XLA_FLAGS":
            continue
        if (stated := config.get(name)) is not None:
            env[key.reads] = f"{stated.value:g}" if isinstance(stated.value, float) else str(stated.value)
            draft.state_variable(key.reads, stated)
    for name, raw in (config.value("env_vars") or {}).items():
        if not name.startswith("_") and (value := draft.variable(name, raw, ("config", "env_vars", name))) is not None:
            env[name] = value
    if flags := _xla_flags(draft):
        env["XLA_FLAGS"] = " ".join(f"--{name}={value}" for name, value in flags.items())
        place = draft.params.path if "xla_flags" in draft.params else draft.config.path
        draft.state_variable("XLA_FLAGS", Stated(env["XLA_FLAGS"], (*place, "xla_flags")))
    draft.platform["env"] = env


def _xla_flags(draft: Draft) -> dict[str, str]:
    flags: dict[str, str] = {}
    if stuck := draft.config.get("xla_gpu_executable_warn_stuck_timeout"):
        flags["xla_gpu_executable_warn_stuck_timeout"] = str(stuck.value)
    for section in (draft.config, draft.params):
        for name, raw in (section.value("xla_flags") or {}).items():
            path = (*section.path, "xla_flags", name)
            if name.startswith("_"):
                continue
            if raw is None or isinstance(raw, dict | list) or re.search(r"\s", f"{name}{raw}") or left_open(raw):
                _no_value(draft, path, raw, f"xla_flags.{bare(name)}", "a value without spaces")
                continue
            text = section.filled(str(raw), path)
            flags[name] = text.lower() if text.lower() in ("true", "false") else text
    return flags


def _no_value(draft: Draft, path: PointerPath, raw: object, name: str, expected: str) -> None:
    code = PLACEHOLDER if left_open(raw) else WRONG_VALUE
    draft.report.add(
        code, path, f"{name} is {shown(raw)}", "write a value, or put an underscore in front of the name", raw, expected
    )


def _options(draft: Draft) -> None:
    """Set the options that are passed to MaxText unchanged; `--set` on the experiment overrides them."""
    options: dict[str, object] = {}
    for name in draft.params.names():
        key = draft.params.keys.get(name)
        if key is None:
            if name not in DECIDED and (value := _passed_on(draft, name)) is not None:
                options[name] = value
        elif name not in OTHER_KEYS and name not in PRESET_KEYS and key.reads != NOTHING:
            stated = draft.params.get(name)
            options |= {name: stated.value} if stated and not stated.assumed else {}
    draft.platform["options"] = options


def _passed_on(draft: Draft, name: str) -> object:
    """The value of an unknown key, typed like YAML; None and a problem if it is not a value."""
    raw, path = draft.params.values[name], (*draft.params.path, name)
    if raw is None or isinstance(raw, dict) or left_open(raw):
        _no_value(draft, path, raw, bare(name), "a value")
        return None
    if not isinstance(raw, str):
        return raw
    for kind in ("whole", "number"):
        try:
            return converted(raw, kind)
        except ValueError:
            continue
    if raw.strip().lower() in ("true", "false"):
        return raw.strip().lower() == "true"
    return draft.params.filled(str(converted(raw, "text")), path)


def unknown(params: Section) -> None:
    """Report unknown keys: an error if it resembles a known key, else a warning that it is passed on."""
    for name in params.first_unknown():
        path, value, report = (*params.path, name), params.values[name], params.report
        if name in DECIDED:
            message = f"{name} is {shown(value)}, but {DECIDED[name]} decides it"
            report.add(CONTRADICTED, path, message, f"remove it, and change {DECIDED[name]}", value)
            continue
        message = f"{bare(name)} is not a known key of MaxText"
        near = difflib.get_close_matches(name, sorted(params.keys), n=1, cutoff=0.85)
        if near and name not in NEIGHBOURS:
            fix, expected = f"write {near[0]}, or rename it to _{name}", f"{near[0]!r}, the nearest known key"
            report.add(UNKNOWN_KEY, path, message, fix, value, expected)
        else:
            fix = "check that MaxText has it: MaxText stops at an unknown key"
            report.add(UNKNOWN_KEY, path, message, fix, value, severity="warning")
