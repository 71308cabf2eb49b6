"""A JAX config: MaxText, whose parallelism is two meshes and whose batch is stated a GPU."""

import difflib
import math
import re
from collections.abc import Collection

from steelyard.configs.suite.draft import Draft
from steelyard.configs.suite.keys import JAX_CONFIG, JAX_MODEL, NOTHING
from steelyard.configs.suite.section import Section
from steelyard.configs.suite.values import converted, left_open
from steelyard.experiment.problems import CONTRADICTED, PLACEHOLDER, UNKNOWN_KEY, WRONG_VALUE, shown
from steelyard.experiment.reading import Stated
from steelyard.frameworks.maxtext.plan import SOURCE

DTYPES = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}
QUANTIZATIONS = {
    "": None,
    **dict.fromkeys(
        ("fp8", "nanoo_fp8", "fp8_full", "fp8_gpu", "te_fp8_delayedscaling", "te_fp8_currentscaling"), "hybrid"
    ),
    **dict.fromkeys(("te_mxfp8",), "e4m3"),
}
AXES = (
    "data",
    "fsdp",
    "fsdp_transpose",
    "tensor",
    "tensor_transpose",
    "tensor_sequence",
    "pipeline",
    "sequence",
    "context",
    "expert",
    "autoregressive",
)
"""Of both meshes. Ranks of data and expert hold replicas of a dense model; the rest share one."""

RECOMPUTED = {"none": "full", "full": "full"}
"""What a remat policy recomputes where layers are scanned; every other policy is selective."""

LEARNING_RATE = 3e-5

FIXED = {
    "training.learning_rate": LEARNING_RATE,
    "training.schedule": "cosine",
    "training.weight_decay": 0.1,
    "training.adam_beta1": 0.9,
    "training.adam_beta2": 0.95,
    "training.adam_epsilon": 1e-8,
    "training.clip_grad_norm": 1.0,
    "training.seed": 0,
    "training.checkpointing": False,
    "training.recompute": "full",
    "data.seed": 0,
    "precision.dtype": "bf16",
}
"""MaxText's own, where the file says nothing."""


def translate(draft: Draft) -> None:
    """Fill the draft with what the file says and what MaxText does where it is silent."""
    config, params = draft.config, draft.params
    draft.put_all(FIXED, SOURCE)
    steps = config.get("training_steps", required=True)
    draft.put("training.steps", steps.value if steps else 1, steps.path if steps else ("config", "training_steps"))
    if (checkpointing := config.get("enable_checkpointing")) is not None:
        draft.put("training.checkpointing", checkpointing.value, checkpointing.path)
    _batch(draft, _mesh(draft))
    _schedule(draft, steps.value if steps else 1)
    for name, dotted in (
        ("max_target_length", "training.sequence_length"),
        ("learning_rate", "training.learning_rate"),
        ("adam_b1", "training.adam_beta1"),
        ("adam_b2", "training.adam_beta2"),
        ("adam_eps", "training.adam_epsilon"),
        ("adam_weight_decay", "training.weight_decay"),
        ("init_weights_seed", "training.seed"),
        ("data_shuffle_seed", "data.seed"),
    ):
        draft.take(name, dotted, required=name == "max_target_length")
    if clip := params.get("gradient_clipping_threshold"):
        draft.put("training.clip_grad_norm", clip.value or None, clip.path)  # 0 is off
    if remat := params.get("remat_policy"):
        draft.put("training.recompute", RECOMPUTED.get(remat.value, "selective"), remat.path)
    _precision(draft)
    _check_values(draft)
    if attention := params.get("attention"):
        draft.put("kernels.use_flash_attn", "flash" in attention.value, attention.path)
    _source(draft)
    _environment(draft)
    _options(draft)


def _mesh(draft: Draft) -> int:
    """The two meshes as parallel sizes; returns how many GPUs hold one replica."""
    sizes = dict.fromkeys(AXES, 1)
    for net, whole in (("ici", draft.gpus_per_node), ("dcn", draft.nodes)):
        given = {axis: draft.params.get(f"{net}_{axis}_parallelism") for axis in AXES}
        values = {axis: stated.value if stated else None for axis, stated in given.items()}
        if values["fsdp"] is None and net == "ici":
            values["fsdp"] = -1
        if values["data"] is None and net == "dcn":
            values["data"] = -1
        resolved = resolved_axes({axis: 1 if value is None else value for axis, value in values.items()}, whole)
        for axis in AXES:
            sizes[axis] *= resolved[axis]
    tensor = math.prod(sizes[axis] for axis in ("tensor", "tensor_transpose", "tensor_sequence", "autoregressive"))
    for axis, size, dotted in (
        ("tensor", tensor, "parallelism.tensor_parallel_size"),
        ("pipeline", sizes["pipeline"], "parallelism.pipeline_parallel_size"),
        ("fsdp", sizes["fsdp"] * sizes["fsdp_transpose"], "parallelism.fsdp_size"),
    ):
        stated = draft.params.get(f"ici_{axis}_parallelism")
        draft.put(dotted, size, stated.path if stated else None, None if stated else SOURCE)
    context = sizes["sequence"] * sizes["context"]
    stated = draft.params.get("ici_sequence_parallelism") or draft.params.get("ici_context_parallelism")
    draft.put("parallelism.context_parallel_size", context, stated.path if stated else None, None if stated else SOURCE)
    return tensor * sizes["pipeline"] * context


def resolved_axes(values: dict[str, int], whole: int) -> dict[str, int]:
    """Axes with one -1 filled from the whole; what cannot be filled is 1 and SY208's to say."""
    fixed = math.prod(value for value in values.values() if value > 0)
    open_axes = [axis for axis, value in values.items() if value == -1]
    filled = {axis: max(1, value) for axis, value in values.items()}
    if len(open_axes) == 1 and fixed and whole % fixed == 0:
        filled[open_axes[0]] = whole // fixed
    return filled


def _batch(draft: Draft, replica: int) -> None:
    """per_device_batch_size x all GPUs is the global batch; a replica takes its own GPUs' share of it at once."""
    stated = draft.params.get("per_device_batch_size", required=True)
    accumulation = draft.params.value("gradient_accumulation_steps") or 1
    if stated is None:
        return
    micro = stated.value * replica
    if stated.value <= 0 or micro != int(micro) or accumulation < 1:
        draft.report.add(
            WRONG_VALUE,
            stated.path,
            f"per_device_batch_size is {stated.value:g} on replicas of {replica} GPU{'s' * (replica != 1)}",
            "choose a batch that is a whole number of sequences a replica",
            stated.value,
            "a positive number of sequences",
        )
        return
    draft.put("training.micro_batch_size", int(micro), stated.path)
    draft.put("training.global_batch_size", int(stated.value * draft.world_size * accumulation), stated.path)


def _schedule(draft: Draft, steps: int) -> None:
    """Warm-up and minimum are shares of the steps and of the rate."""
    params = draft.params
    rate = params.value("learning_rate") or LEARNING_RATE
    final = params.get("learning_rate_final_fraction") or params.get("cosine_learning_rate_final_fraction")
    warmup = params.get("warmup_steps_fraction")
    length = params.get("learning_rate_schedule_steps")
    total = length.value if length and length.value > 0 else steps
    share = warmup.value if warmup else 0.1
    draft.put(
        "training.min_learning_rate",
        float(f"{(final.value if final else 0.1) * float(rate):.10g}"),
        final.path if final else None,
        None if final else SOURCE,
    )
    draft.put("training.warmup_steps", int(share * total), warmup.path if warmup else None, None if warmup else SOURCE)
    if length and length.value > 0:
        draft.put("training.decay_steps", length.value, length.path)


def _one_of(draft: Draft, name: str, words: Collection[str]) -> Stated | None:
    """A parameter that is one of a few words; another is a problem."""
    stated = draft.params.get(name)
    if stated is None or stated.value in words:
        return stated
    draft.report.add(
        WRONG_VALUE,
        stated.path,
        f"{name} is {shown(stated.value)}",
        "write one of them",
        stated.value,
        f"one of {', '.join(repr(word) for word in words)}",
    )
    return None


def _precision(draft: Draft) -> None:
    for name, words, dotted in (("dtype", DTYPES, "precision.dtype"), ("quantization", QUANTIZATIONS, "precision.fp8")):
        if stated := _one_of(draft, name, words):
            draft.put(dotted, words[stated.value], stated.path)
    if draft.content["precision"].get("dtype") == "fp16":
        draft.put("precision.loss_scale", "dynamic", source=SOURCE)


ALLOWED = {
    "weight_dtype": ("bfloat16", "float32", "float16"),
    "hardware": ("gpu", "gpu_multiprocess"),
    "kv_quant_dtype": ("int8", "int4"),
    "opt_type": ("adamw", "adam_pax"),
    "dataset_type": ("synthetic", "hf", "grain", "tfds", "c4_mlperf"),
    "tokenizer_type": ("sentencepiece", "huggingface", "tiktoken"),
}
"""What MaxText's loader takes, as far as a plan can use it."""


def _check_values(draft: Draft) -> None:
    for name, words in ALLOWED.items():
        _one_of(draft, name, words)
    share = draft.params.get("warmup_steps_fraction")
    if share is not None and not 0 <= share.value <= 1:
        draft.report.add(
            WRONG_VALUE, share.path, f"{share.path[-1]} is {share.value:g}", "write a share", share.value, "0 to 1"
        )


def _source(draft: Draft) -> None:
    kind = draft.params.get("dataset_type")
    mock = draft.config.get("mock_data")
    synthetic = kind.value == "synthetic" if kind else mock is None or bool(mock.value)
    where = kind.path if kind else mock.path if mock else None
    draft.put("data.source", "uniform" if synthetic else "tokens", where, None if where else SOURCE)
    if synthetic:
        return
    for name, dotted in (
        ("hf_train_files", "data.path"),
        ("grain_train_files", "data.path"),
        ("dataset_path", "data.path"),
        ("hf_path", "data.dataset"),
    ):
        if (found := draft.params.get(name)) and found.value:
            draft.put(dotted, found.value, found.path)
    tokenizer = draft.params.get("tokenizer_path") or draft.params.get("tokenizer_model")
    if tokenizer and tokenizer.value:
        draft.put("data.tokenizer", tokenizer.value, tokenizer.path)


def _environment(draft: Draft) -> None:
    """The file's lower-case keys as the variables the image reads, then its own variables, then XLA's flags."""
    config = draft.config
    env: dict[str, str] = {}
    for name, key in JAX_CONFIG.items():
        if not key.reads.isupper() or key.reads == "XLA_FLAGS" or name not in config:
            continue
        if (found := config.get(name)) is not None:
            env[key.reads] = f"{found.value:g}" if isinstance(found.value, float) else str(found.value)
            draft.state_variable(key.reads, found)
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
                draft.report.add(
                    PLACEHOLDER if left_open(raw) else WRONG_VALUE,
                    path,
                    f"xla_flags.{shown(name)[1:-1]} is {shown(raw)}",
                    "write a value, or park it",
                    raw,
                    "a value without spaces",
                )
                continue
            text = section.filled(str(raw), path)
            flags[name] = text.lower() if text.lower() in ("true", "false") else text
    return flags


NOT_MAXTEXTS = ("tokenizer_model", "model_size", "result_dict", "xla_flags")
"""Parameters of the file that MaxText has no key for."""


def _options(draft: Draft) -> None:
    """What MaxText is given under its own names, as the file has it; `--set` on the experiment beats it."""
    options: dict[str, object] = {}
    overridden = {name for name, key in JAX_MODEL.items() if key.default == "the model's"}
    for name in draft.params.names():
        key = JAX_MODEL.get(name)
        if name in NOT_MAXTEXTS or name in overridden or (key is not None and key.reads == NOTHING):
            continue
        if key is None and name in DECIDED:
            continue
        if key is None:
            value = _passed_on(draft, name)
            if value is not None:
                options[name] = value
        elif (found := draft.params.get(name)) is not None and not found.assumed:
            options[name] = found.value
    draft.platform["options"] = options


def _passed_on(draft: Draft, name: str) -> object:
    """A value of a key we do not know, typed as YAML would; None and a problem where nothing can be passed on."""
    raw, path = draft.params.values[name], (*draft.params.path, name)
    if raw is None or isinstance(raw, dict) or left_open(raw):
        code = PLACEHOLDER if left_open(raw) else WRONG_VALUE
        draft.report.add(
            code, path, f"{shown(name)[1:-1]} is {shown(raw)}", "write a value, or park it", raw, "a value"
        )
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


NEIGHBOURS = frozenset(
    {
        "base_moe_mlp_dim",
        "eval_per_device_batch_size",
        "local_rope_max_timescale",
        "per_device_batch_size_increment",
        "per_device_batch_size_start",
        "rope_min_timescale",
        "v_head_dim",
    }
)
"""Keys of MaxText that look like a misspelling of another."""


DECIDED = {
    "steps": "config.training_steps",
    "enable_checkpointing": "config.enable_checkpointing",
    "model_name": "the model's key",
    "run_name": "the plan",
    "base_config": "the plan",
    "base_output_directory": "config.log_dir",
}
"""Keys of MaxText that something else of the file, or the plan, says."""


def unknown(params: Section) -> None:
    """A key MaxText may know and we do not is passed on and said; one that is all but a known key is an error."""
    for name in params.first_unknown():
        if name in DECIDED:
            params.report.add(
                CONTRADICTED,
                (*params.path, name),
                f"{name} is {shown(params.values[name])}, and {DECIDED[name]} decides it",
                f"remove it, and change {DECIDED[name]}",
                params.values[name],
            )
            continue
        near = [] if name in NEIGHBOURS else difflib.get_close_matches(name, sorted(params.keys), n=1, cutoff=0.85)
        path = (*params.path, name)
        params.report.add(
            UNKNOWN_KEY,
            path,
            f"{shown(name)[1:-1]} is not a key we know of MaxText",
            f"write {near[0]}, or park it as _{name}"
            if near
            else "look it up: MaxText stops at a key it does not know",
            params.values[name],
            f"{near[0]!r}, the nearest known key" if near else None,
            severity="error" if near else "warning",
        )
