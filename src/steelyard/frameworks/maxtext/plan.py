"""MaxText: a YAML file over its base.yml and the preset of model_name, one process per node."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from steelyard import accounting
from steelyard.experiment import Experiment, Kernels, RopeScaling
from steelyard.experiment.case import Case
from steelyard.experiment.presets import PRESETS
from steelyard.experiment.resolve import Resolved
from steelyard.experiment.sources import DEFAULT, Origin, Source
from steelyard.frameworks.maxtext.facts import FACTS, LLAMA_LAYER
from steelyard.frameworks.planner import Command, Node, Planner, Refusal, as_yaml, option_refusals, refuse, unable

SOURCE = Source(Origin.FRAMEWORK, "maxtext")
"""Source of a value that no file sets."""

CONFIG_FILE = "maxtext.yml"
ROOT = "/workspace/maxtext"
PORT = 1234
NAMED_MODELS = ("llama3.1-8b", "llama3.1-70b", "llama3.1-405b")
"""Presets that MaxText has under the same name."""

_LLAMA_31 = RopeScaling(**PRESETS["llama3.1-8b"]["rope_scaling"])
"""MaxText's rope scaling for its llama3.1 models, and for other models with rope_type llama3.1."""

_HUGGING_FACE = ("HuggingFaceTokenizer", "HFTokenizer")

_POLICIES = {"full": "full", "selective": "minimal_with_context", "none": "none"}
_ATTENTION = {None: None, True: "cudnn_flash_te", False: "dot_product"}
"""None: MaxText's default."""

DTYPES = {"bf16": "bfloat16", "fp32": "float32", "fp16": "float16"}


_REASON = ", which MaxText does not support"
_OVERLAPS = dict.fromkeys(("parallelism.overlap_grad_reduce", "parallelism.overlap_param_gather"), (False,))
_SWITCHES: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys((*FACTS.always, "parallelism.sequence_parallel"), (False,)),
    **{f"kernels.{key}": (None,) for key in Kernels.model_fields if key != "use_flash_attn"},
}
"""Fixed values of keys that it has no setting for."""


class MaxText(Planner):
    def state_bytes(self, case: Case) -> accounting.StateBytes:
        # Adam's moments have the format of the weights, without a master weight.
        width = 2 if case.resolved.platform.options.get("weight_dtype") == "bfloat16" else 4
        return accounting.StateBytes(width, width, 2 * width)

    def decides(self, resolved: Resolved) -> Mapping[str, Any]:
        experiment = resolved.experiment
        decided: dict[str, Any] = {
            # Fan-in initialization; the first loss depends on the scale of the output layer.
            "training.init_method_std": round(experiment.model.hidden_size**-0.5, 12),
            "parallelism.distributed_optimizer": False,  # fsdp_size shards everything
        }
        if experiment.data.source == "uniform":  # one batch is drawn and used at every step
            decided["data.samples"] = experiment.training.global_batch_size
        return decided

    def refusals(self, case: Case) -> Iterator[Refusal]:
        experiment = case.resolved.experiment
        is_experiment_file = case.reading.family == "steelyard"
        yield from unable(experiment, _REASON, {"model.architecture": ("llama",)})
        if experiment.model.rope_scaling not in (None, _LLAMA_31):
            yield refuse("model.rope_scaling", "not Llama 3.1's", _REASON, None)
        yield from unable(experiment, _REASON, {"model.qkv_bias": (False,)})
        if experiment.training.recompute == "none":
            reason = ", but MaxText recomputes everything with remat_policy none"
            expected = "full, or selective (remat_policy minimal_with_context, the minimum)"
            yield refuse("training.recompute", "none", reason, "selective", expected=expected)
        yield from unable(experiment, _REASON, {"data.source": ("uniform", "tokens"), "training.schedule": ("cosine",)})
        if is_experiment_file:
            yield from unable(experiment, _REASON, {"precision.fp8": ("hybrid", None)})
        yield from unable(experiment, _REASON, _OVERLAPS)
        if experiment.data.source == "tokens":
            yield from _data_refusals(experiment)
        yield from unable(experiment, _REASON, _SWITCHES)
        if is_experiment_file:
            meshless = list(_mesh_refusals(case))
            yield from meshless
            if accounting.holds(experiment, case.placement.world_size) and not meshless:
                yield from option_refusals(case.resolved.platform.options, set(computed(case)), "MaxText")

    def variables(self, case: Case, node: Node) -> dict[str, str]:
        cache, nodes, rank = case.resolved.platform.cache_dir, str(node.nodes), str(node.rank)
        env = {
            "NNODES": nodes,
            "NODE_RANK": rank,
            "JAX_COORDINATOR_IP": node.head,
            "JAX_COORDINATOR_PORT": str(node.port or PORT),
        }
        # On CPUs, MaxText uses other variables and port 1234; the number of devices is set here.
        on_cpu = {
            "JAX_PLATFORMS": "cpu",
            "JAX_NUM_CPU_DEVICES": str(case.placement.gpus_per_node),
            "JAX_COORDINATOR_ADDRESS": node.head,
            "JAX_PROCESS_COUNT": nodes,
            "PROCESSES_IN_JOB": nodes,
            "JOB_INDEX": "0",
            "JOB_COMPLETION_INDEX": rank,
        }
        return env | (on_cpu if case.placement.device == "cpu" else {}) | ({"HF_HOME": cache} if cache else {})

    def command(self, case: Case, node: Node) -> Command:
        platform = case.resolved.platform
        argv = [
            # A module name works in every source layout of a release.
            *("python3", "-m", "MaxText.train" if _old(case) else "maxtext.trainers.pre_train.train"),
            f"{node.run_dir}/{CONFIG_FILE}",
            f"base_output_directory={node.run_dir}/output",
            "enable_goodput_recording=false",
            "monitor_goodput=false",
        ]
        workdir = platform.root or (ROOT if platform.container else None)
        return Command(argv, self.variables(case, node), {CONFIG_FILE: as_yaml(settings(case))}, workdir)


def settings(case: Case) -> dict[str, Any]:
    """MaxText's keys, typed.

    Values of a JSON config under MaxText's names are passed on unchanged, unless `--set` changed the experiment's key.
    Everything else is computed from the experiment. On CPUs, device settings are always computed.
    """
    options, sources = dict(case.resolved.platform.options), case.resolved.sources
    on_cpu = case.placement.device == "cpu"
    kept: dict[str, Any] = {}
    for name, (value, owners) in computed(case).items():
        changed = any(_is_chosen(case, owner) for owner in owners) or (on_cpu and _OF_THE_DEVICES.fullmatch(name))
        if name in options and not changed:
            kept[name] = options.pop(name)
            continue
        options.pop(name, None)
        unset = name not in ALWAYS and owners and all(sources.get(owner) == SOURCE for owner in owners)
        if value is not None and not unset:
            kept[name] = value
    return {**kept, **options}


_AXIS = r"(ici|dcn)_\w+_parallelism"
_OF_THE_DEVICES = re.compile(f"hardware|{_AXIS}")

ALWAYS = ("steps", "enable_checkpointing", "dtype", "remat_policy", "dataset_type")
"""Always stated, even with MaxText's default, since readers look for them."""

Computed = dict[str, tuple[Any, tuple[str, ...]]]
"""By MaxText's name: the value (None for none), and the experiment's keys that determine it."""

_BATCH = ("training.micro_batch_size", "training.global_batch_size")
_SIZES = tuple(
    f"parallelism.{name}_size" for name in ("tensor_parallel", "pipeline_parallel", "context_parallel", "fsdp")
)


def computed(case: Case) -> Computed:
    """All keys of MaxText that the experiment determines."""
    experiment = case.resolved.experiment
    training = experiment.training
    layout = accounting.layout(training, experiment.parallelism, case.placement.world_size)
    per_device = training.micro_batch_size / accounting.model_parallel_size(experiment.parallelism)
    batch = (*_BATCH, *_SIZES)
    return {
        "base_config": ("base.yml", ()),
        "run_name": (experiment.name, ()),
        **{name: (value, ()) for name, value in _model(experiment).items()},
        "hardware": (case.placement.device, ()),
        **_named(experiment, "training", "steps", "checkpointing"),
        "per_device_batch_size": (int(per_device) if per_device == int(per_device) else per_device, batch),
        "gradient_accumulation_steps": (layout.gradient_accumulation_steps, batch),
        **_named(experiment, "training", "sequence_length"),
        **_rates(case),
        "dtype": (DTYPES[experiment.precision.dtype], ("precision.dtype",)),
        "quantization": ("fp8" if experiment.precision.fp8 else "", ("precision.fp8",)),
        "weight_dtype": ("float32", ()),
        "remat_policy": (_POLICIES[training.recompute], ("training.recompute",)),
        "attention": (_ATTENTION[experiment.kernels.use_flash_attn], ("kernels.use_flash_attn",)),
        "scan_layers": (True, ()),
        **_data(case),
        **_mesh(case),
        "param_scan_axis": (1, ()),
        "optimizer_memory_host_offload": (False, ()),
        "shardy": (False, ()),
        "enable_tensorboard": (training.tracking, ()),
    }


def _named(experiment: Experiment, group: str, *keys: str) -> Computed:
    """Values that MaxText takes unchanged."""
    stated = FACTS.stated(experiment, group, *keys).items()
    return {name: (value, (f"{group}.{key}",)) for key, (name, value) in zip(keys, stated, strict=True)}


def _rates(case: Case) -> Computed:
    experiment, training = case.resolved.experiment, case.resolved.experiment.training
    fraction = training.min_learning_rate / training.learning_rate
    final = "cosine_learning_rate_final_fraction" if _old(case) else "learning_rate_final_fraction"
    warmup = warmup_fraction(training.warmup_steps, training.decay_steps or training.steps)
    return {
        **_named(experiment, "training", "learning_rate"),
        final: (float(f"{fraction:.10g}"), ("training.min_learning_rate", "training.learning_rate")),
        "warmup_steps_fraction": (warmup, ("training.warmup_steps",)),
        **_named(experiment, "training", "decay_steps", "adam_beta1", "adam_beta2", "adam_epsilon", "weight_decay"),
        "gradient_clipping_threshold": (training.clip_grad_norm or 0.0, ("training.clip_grad_norm",)),
        **_named(experiment, "training", "seed"),
        **_named(experiment, "data", "seed"),
    }


def warmup_fraction(warmup: int, steps: int) -> float:
    """The smallest fraction of the steps that MaxText, which rounds down, converts into `warmup` steps."""
    fraction = warmup / steps
    while int(fraction * steps) < warmup:
        fraction = math.nextafter(fraction, math.inf)
    return fraction


def _model(experiment: Experiment) -> dict[str, Any]:
    """The name of a model that MaxText has, since its preset overrides the file; all dimensions of any other model."""
    model = experiment.model
    known = PRESETS.get(model.preset or "", {})
    dimensions = known.keys() - {"rope_scaling", "max_position_embeddings"}
    if model.preset in NAMED_MODELS and all(getattr(model, key) == known[key] for key in dimensions):
        return {"model_name": model.preset, **({} if model.rope_scaling else {"rope_use_scale": False})}
    heads = ("hidden_size", "num_attention_heads", "num_key_value_heads")
    return {
        "model_name": "default",
        **LLAMA_LAYER,
        **FACTS.stated(experiment, "model", *heads, "num_layers", "ffn_hidden_size", "head_dim"),
        "vocab_size": model.vocab_size,
        "enable_dropout": False,
        **FACTS.stated(experiment, "model", "tied_embeddings", "norm_epsilon"),
        "rope_max_timescale": int(model.rope_theta or 10000),
        "rope_type": "llama3.1" if model.rope_scaling else "default",
    }


def _data(case: Case) -> Computed:
    data, options = case.resolved.experiment.data, case.resolved.platform.options
    source = ("data.source", "data.path")
    if data.source == "uniform":
        return {
            "dataset_type": ("synthetic", source),
            **dict.fromkeys(("hf_path", "hf_train_files", "grain_train_files", "dataset_path"), (None, source)),
            "packing": (False, ()),
        }
    hugging_face = _is_chosen(case, "data.source") or options.get("dataset_type", "hf") == "hf"
    tokenizer: Computed = {"tokenizer_path": (data.tokenizer, ("data.tokenizer",))}
    if data.tokenizer_type in _HUGGING_FACE:
        tokenizer["tokenizer_type"] = ("huggingface", ("data.tokenizer_type",))
    return {
        "dataset_type": ("hf", source),
        **({"hf_path": ("parquet", source), "hf_train_files": (data.path, source)} if hugging_face else {}),
        **tokenizer,
        "packing": (True, ()),
        # Transformer Engine's attention needs the maximum number of documents per sequence.
        "max_segments_per_seq": (None if _old(case) else 32, ()),
    }


def _is_chosen(case: Case, key: str) -> bool:
    return case.resolved.sources.get(key, DEFAULT).is_chosen


def _old(case: Case) -> bool:
    """Whether the image is from 2025.

    MaxText added max_segments_per_seq in 2025-11, renamed schedule keys in 2026-01 and modules in 2026-02.
    """
    container = case.resolved.platform.container
    year = re.search(r"maxtext-v(\d+)", container.image if container else "")
    return year is not None and int(year[1]) < 26


def _mesh(case: Case) -> Computed:
    """The meshes: a replica stays within a node; weights are sharded within the node first, then over nodes.

    MaxText treats the CPUs of all nodes as one slice.
    """
    options = case.resolved.platform.options
    given = [name for name in options if re.fullmatch(_AXIS, name)]
    on_cpu = case.placement.device == "cpu"
    if given and not on_cpu and not any(_is_chosen(case, owner) for owner in _SIZES):
        return dict.fromkeys(given, (None, _SIZES))
    sizes, (inside_fsdp, over_fsdp) = case.resolved.experiment.parallelism, _sharding(case)
    slices = 1 if on_cpu else case.placement.nodes
    if on_cpu:
        inside_fsdp, over_fsdp = sizes.fsdp_size, 1
    left = case.placement.world_size // slices // accounting.model_parallel_size(sizes)
    axes = {
        "ici_tensor_parallelism": sizes.tensor_parallel_size,
        "ici_pipeline_parallelism": sizes.pipeline_parallel_size,
        "ici_context_parallelism": sizes.context_parallel_size,
        "ici_fsdp_parallelism": inside_fsdp,
        "ici_data_parallelism": left // inside_fsdp,
        "dcn_fsdp_parallelism": over_fsdp,
        "dcn_data_parallelism": slices // over_fsdp,
    }
    stale = {name: (None, _SIZES) for name in given if name not in axes}
    return {**stale, **{name: (value, _SIZES) for name, value in axes.items()}}


def _sharding(case: Case) -> tuple[int, int]:
    """Ranks per node and number of nodes over which weights are sharded."""
    sizes = case.resolved.experiment.parallelism
    left = max(1, case.placement.gpus_per_node // accounting.model_parallel_size(sizes))
    inside = math.gcd(left, sizes.fsdp_size)
    return inside, sizes.fsdp_size // inside


def _data_refusals(experiment: Experiment) -> Iterator[Refusal]:
    data, training = experiment.data, experiment.training
    yield from unable(experiment, _REASON, {"data.split": ("100,0,0",)})
    if data.tokenizer_type not in (None, *_HUGGING_FACE):
        yield refuse("data.tokenizer_type", data.tokenizer_type, _REASON, _HUGGING_FACE[0], None)
    if data.samples is not None and data.samples < training.steps * training.global_batch_size:
        yield refuse("data.samples", data.samples, _REASON, None)


def _mesh_refusals(case: Case) -> Iterator[Refusal]:
    sizes, gpus, nodes = case.resolved.experiment.parallelism, case.placement.gpus_per_node, case.placement.nodes
    replica = accounting.model_parallel_size(sizes)
    if gpus % replica:
        key, value = "parallelism.tensor_parallel_size", sizes.tensor_parallel_size
        message = f"a replica needs {replica} GPUs on one node, but a node has {gpus}"
        yield Refusal(
            key, value, message, f"tensor x pipeline x context parallel that divides {gpus}", f"--set {key}=1"
        )
    elif nodes % _sharding(case)[1]:
        reason, most = f", which does not fit a mesh of {nodes} nodes", gpus // replica * nodes
        expected = "ranks per node times a divisor of the number of nodes"
        yield refuse("parallelism.fsdp_size", sizes.fsdp_size, reason, most, expected=expected)


PLANNER = MaxText()
