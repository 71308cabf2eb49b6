"""NeMo 2: a planned script that sets every field of a Llama 3.1 recipe, under torchrun."""

import keyword
from collections.abc import Iterator, Mapping
from typing import Any

from steelyard.experiment import Experiment
from steelyard.experiment.case import Case
from steelyard.experiment.problems import spelt
from steelyard.frameworks.megatron_family.plan import (
    MegatronKin,
    attention_backend,
    attention_env,
    attention_refusals,
    family_refusals,
    seed_refusals,
    torchrun,
    turbo_refusals,
    vendor_refusals,
)
from steelyard.frameworks.nemo.facts import FACTS
from steelyard.frameworks.options import option_refusals, without_options
from steelyard.frameworks.planner import Command, Node, Refusal

SCRIPT = "nemo_recipe.py"

RECIPES = {"llama3.1-8b": "llama31_8b", "llama3.1-70b": "llama31_70b", "llama3.1-405b": "llama31_405b"}

SCHEDULERS = {
    "cosine": "CosineAnnealingScheduler",
    "linear": "WarmupAnnealingScheduler",
    "constant": "WarmupPolicyScheduler",
}

PRECISIONS = {"bf16": "bf16-mixed", "fp16": "16-mixed", "fp32": "32"}

DTYPES = {"bf16": "torch.bfloat16", "fp16": "torch.float16", "fp32": "torch.float32"}

HUGGING_FACE = (None, "HFTokenizer", "HuggingFaceTokenizer")


class NeMo(MegatronKin):
    def refusals(self, case: Case) -> Iterator[Refusal]:
        experiment = case.resolved.experiment
        yield from vendor_refusals(case, "nvidia", "NeMo")
        for refusal in family_refusals(experiment, FACTS.name):
            if refusal.key not in ("data.source", "data.samples"):  # its mock data is another, and may repeat
                yield refusal
        yield from attention_refusals(experiment.kernels)
        yield from seed_refusals(experiment, "NeMo")
        if experiment.model.preset not in RECIPES:
            yield _refusal("model.preset", experiment.model.preset, tuple(RECIPES), "NeMo has no recipe here for it")
        yield from _training_refusals(experiment)
        yield from _data_refusals(experiment)
        yield from turbo_refusals(experiment.kernels)
        if experiment.model.preset in RECIPES:
            stated = {path for path, _ in fields(without_options(case))}
            under = {name for name in case.resolved.platform.options if name.startswith(("data.", "trainer.plugins."))}
            yield from option_refusals(case.resolved.platform.options, stated | under, "NeMo")
        for name in case.resolved.platform.options:
            if not _is_a_path(name):
                yield Refusal(
                    "platform.options",
                    name,
                    f"platform.options has {name!r}, which is no path into a recipe",
                    "dotted names such as trainer.strategy.ckpt_async_save",
                    f"take {name!r} out of the platform's options",
                )

    def variables(self, case: Case, node: Node) -> dict[str, str]:
        platform = case.resolved.platform
        env = {
            "NEMO_LOG_MEMORY_USAGE": "1",
            "CUDA_DEVICE_MAX_CONNECTIONS": "1",  # overlap and sequence parallelism rely on it
            **attention_env(case.resolved.experiment),
        }
        if platform.cache_dir:
            env["HF_HOME"] = platform.cache_dir
        return env

    def command(self, case: Case, node: Node) -> Command:
        argv = [*torchrun(case, node), f"{node.run_dir}/{SCRIPT}"]
        files = {SCRIPT: script(case, node)}
        return Command(argv, self.variables(case, node), files, case.resolved.platform.root)


def script(case: Case, node: Node) -> str:
    """The recipe as a person would write it; every value enters as a Python literal."""
    experiment = case.resolved.experiment
    seed = experiment.training.seed
    recipe = RECIPES[experiment.model.preset or ""]
    arguments = {
        "dir": repr(f"{node.run_dir}/output"),
        "name": repr(experiment.name),
        "num_nodes": repr(node.nodes),
        "num_gpus_per_node": repr(case.placement.gpus_per_node),
    }
    lines = [
        '"""Written by Steelyard: a NeMo recipe with every field of the experiment set."""',
        "",
        "import functools",
        "",
        "import lightning.pytorch as pl",
        "import nemo_run as run",
        "import torch",
        "from megatron.core.transformer.enums import AttnBackend",
        "from nemo import lightning as nl",
        "from nemo.collections import llm",
        "from nemo.collections.common.tokenizers.huggingface.auto_tokenizer import AutoTokenizer",
        "from nemo.lightning import _strategy_lib",
        "",
        "",
        "def pretraining():",
        f"    recipe = {_call(f'llm.{recipe}.pretrain_recipe', arguments)}",
        *(f"    recipe.{path} = {value}" for path, value in fields(case)),
        "    return recipe",
        "",
        "",
        'if __name__ == "__main__":',
        f"    pl.seed_everything({seed!r}, workers=True)",
        "    # Lightning's seed does not reach the weights: NeMo seeds Megatron with 1234 and has no field for it.",
        f"    _strategy_lib.init_parallel_ranks = functools.partial(_strategy_lib.init_parallel_ranks, seed={seed!r})",
        "    run.run(pretraining(), direct=True)",
    ]
    return "\n".join(lines) + "\n"


def fields(case: Case) -> Iterator[tuple[str, str]]:
    """Paths into the recipe and the source text of their values, the platform's own options last."""
    experiment = case.resolved.experiment
    yield from _trainer(case)
    yield from _strategy(experiment)
    yield from _optimizer(experiment)
    yield from _model(experiment)
    yield "data", _data(case)
    for name, value in case.resolved.platform.options.items():
        if _is_a_path(name):
            yield name, repr(value)


def _trainer(case: Case) -> Iterator[tuple[str, str]]:
    training, precision = case.resolved.experiment.training, case.resolved.experiment.precision
    yield "trainer.num_nodes", repr(case.placement.nodes)
    yield "trainer.devices", repr(case.placement.gpus_per_node)
    yield "trainer.max_steps", repr(training.steps)
    yield "trainer.accumulate_grad_batches", "1"  # Megatron's strategy accumulates by itself
    yield "trainer.val_check_interval", repr(training.steps)
    for name in ("limit_val_batches", "limit_test_batches", "num_sanity_val_steps"):
        yield f"trainer.{name}", "0"
    yield "trainer.log_every_n_steps", "1"
    yield "trainer.enable_checkpointing", repr(training.checkpointing)
    if not training.checkpointing:
        yield "log.ckpt", "None"
    yield "resume", "None"
    if not training.tracking:
        yield "trainer.logger", "False"  # None would be Lightning's own TensorBoard
        yield "log.tensorboard", "None"
    plugin = {
        "precision": repr(PRECISIONS[precision.dtype]),
        "params_dtype": DTYPES[precision.dtype],
        "pipeline_dtype": DTYPES[precision.dtype],
        "autocast_enabled": "False",
        "grad_reduce_in_fp32": repr(precision.grad_reduce_in_fp32),
        "fp16_loss_scale": "None",  # dynamic, and fp16's alone
        "fp8": repr(precision.fp8),
        "fp8_recipe": repr("delayed"),
        "fp8_margin": "0",
        "fp8_amax_history_len": "1024",
        "fp8_amax_compute_algo": repr("max"),
        "fp8_param_gather": "False",
    }
    yield "trainer.plugins", _config("nl.MegatronMixedPrecision", plugin)


def _strategy(experiment: Experiment) -> Iterator[tuple[str, str]]:
    sizes, precision = experiment.parallelism, experiment.precision
    stated = {
        "tensor_model_parallel_size": repr(sizes.tensor_parallel_size),
        "pipeline_model_parallel_size": repr(sizes.pipeline_parallel_size),
        "virtual_pipeline_model_parallel_size": "None",
        "context_parallel_size": repr(sizes.context_parallel_size),
        "sequence_parallel": repr(sizes.sequence_parallel),
        "pipeline_dtype": DTYPES[precision.dtype],
        "ckpt_async_save": repr(experiment.training.checkpointing),
        "ddp.use_distributed_optimizer": repr(sizes.distributed_optimizer),
        "ddp.overlap_grad_reduce": repr(sizes.overlap_grad_reduce),
        "ddp.overlap_param_gather": repr(sizes.overlap_param_gather),
        "ddp.grad_reduce_in_fp32": repr(precision.grad_reduce_in_fp32),
    }
    for name, value in stated.items():
        yield f"trainer.strategy.{name}", value


def _optimizer(experiment: Experiment) -> Iterator[tuple[str, str]]:
    training, dtype = experiment.training, experiment.precision.dtype
    stated = {
        "lr": training.learning_rate,
        "weight_decay": training.weight_decay,
        "adam_beta1": training.adam_beta1,
        "adam_beta2": training.adam_beta2,
        "adam_eps": training.adam_epsilon,
        "clip_grad": training.clip_grad_norm or 0.0,  # 0 is off
        "use_distributed_optimizer": experiment.parallelism.distributed_optimizer,
        "bf16": dtype == "bf16",
        "fp16": dtype == "fp16",
    }
    for name, value in stated.items():
        yield f"optim.config.{name}", repr(value)
    schedule = {
        "max_steps": repr(training.steps),
        "warmup_steps": repr(training.warmup_steps),
        "min_lr": repr(training.min_learning_rate),
    }
    if training.schedule == "cosine":
        schedule["constant_steps"] = "0"
    yield "optim.lr_scheduler", _config(f"nl.lr_scheduler.{SCHEDULERS[training.schedule]}", schedule)


def _model(experiment: Experiment) -> Iterator[tuple[str, str]]:
    model, training, kernels = experiment.model, experiment.training, experiment.kernels
    scaling = model.rope_scaling
    stated: dict[str, Any] = {
        "seq_length": training.sequence_length,
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "ffn_hidden_size": model.ffn_hidden_size,
        "num_attention_heads": model.num_attention_heads,
        "num_query_groups": model.num_key_value_heads,
        "kv_channels": model.head_dim,
        "layernorm_epsilon": model.norm_epsilon,
        "rotary_base": int(model.rope_theta or 10000),
        "scale_factor": scaling.factor if scaling else 1.0,  # it scales always, and by 1 not at all
        "low_freq_factor": scaling.low_freq_factor if scaling else 1.0,
        "high_freq_factor": scaling.high_freq_factor if scaling else 4.0,
        "old_context_len": scaling.original_max_position_embeddings if scaling else 8192,
        "share_embeddings_and_output_weights": model.tied_embeddings,
        "add_qkv_bias": model.qkv_bias,
        "make_vocab_size_divisible_by": 128,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "init_method_std": training.init_method_std,
        "recompute_granularity": None if training.recompute == "none" else training.recompute,
        "recompute_method": "uniform" if training.recompute == "full" else None,
        "recompute_num_layers": 1 if training.recompute == "full" else None,
        "fp32_residual_connection": experiment.precision.fp32_residual_connection,
    }
    for key in (
        "bias_activation_fusion",
        "bias_dropout_fusion",
        "masked_softmax_fusion",
        "persist_layer_norm",
        "apply_rope_fusion",
        "cross_entropy_loss_fusion",
    ):
        asked = getattr(kernels, key)
        stated[key] = FACTS.silent_defaults[f"kernels.{key}"] if asked is None else asked
    for name, value in stated.items():
        yield f"model.config.{name}", repr(value)
    backend = attention_backend(kernels, unset="flash" if kernels.use_flash_attn else "auto")
    yield "model.config.attention_backend", f"AttnBackend.{backend}"


def _data(case: Case) -> str:
    experiment, platform = case.resolved.experiment, case.resolved.platform
    data, training = experiment.data, experiment.training
    stated = {
        "seq_length": repr(training.sequence_length),
        "micro_batch_size": repr(training.micro_batch_size),
        "global_batch_size": repr(training.global_batch_size),
        "tokenizer": f"run.Config(AutoTokenizer, pretrained_model_name={data.tokenizer!r})",
        "num_train_samples": repr(data.samples or _samples_used(experiment)),
        "num_workers": "8",
    }
    if data.source == "uniform":
        return _config("llm.MockDataModule", stated)
    corpus = {
        "paths": repr([data.path]),
        **stated,
        "seed": repr(data.seed),
        "split": repr(data.split),
        "dataloader_type": repr("single"),
        "reset_position_ids": "False",
        "reset_attention_mask": "False",
        "eod_mask_loss": "False",
        "index_mapping_dir": repr(platform.cache_dir),
    }
    return _config("llm.PreTrainingDataModule", corpus)


def _samples_used(experiment: Experiment) -> int:
    return experiment.training.steps * experiment.training.global_batch_size


def _config(target: str, arguments: Mapping[str, str]) -> str:
    return _call("run.Config", arguments, first=target)


def _call(function: str, arguments: Mapping[str, str], first: str | None = None) -> str:
    given = [*([first] if first else []), *(f"{name}={value}" for name, value in arguments.items())]
    return "\n".join((f"{function}(", *(f"        {one}," for one in given), "    )"))


def _is_a_path(name: str) -> bool:
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split("."))


def _training_refusals(experiment: Experiment) -> Iterator[Refusal]:
    training, sizes = experiment.training, experiment.parallelism
    if training.decay_steps not in (None, training.steps):
        yield _refusal("training.decay_steps", training.decay_steps, (None,), "NeMo decays over training.steps")
    if sizes.fsdp_size > 1:
        yield _refusal("parallelism.fsdp_size", sizes.fsdp_size, (1,), "the recipe does not shard weights")


def _data_refusals(experiment: Experiment) -> Iterator[Refusal]:
    data, used = experiment.data, _samples_used(experiment)
    if data.source not in ("uniform", "tokens"):
        yield _refusal("data.source", data.source, ("uniform", "tokens"), "NeMo's mock data is uniform")
    if data.tokenizer is None:
        yield Refusal(
            "data.tokenizer",
            None,
            "data.tokenizer is missing, and NeMo takes GPT-2's where it is",
            "a Hugging Face name or path",
            "--set data.tokenizer=meta-llama/Llama-3.1-8B",
        )
    if data.tokenizer_type not in HUGGING_FACE:
        yield _refusal("data.tokenizer_type", data.tokenizer_type, HUGGING_FACE[1:], "the recipe takes Hugging Face's")
    if data.samples is not None and data.samples < used:
        yield _refusal("data.samples", data.samples, (None, used), f"the steps use {used} sequences, and NeMo stops")


def _refusal(key: str, value: Any, able: tuple[Any, ...], why: str) -> Refusal:
    words = [spelt(one) for one in able]
    return Refusal(key, value, f"{key} is {spelt(value)}, and {why}", " or ".join(words), f"--set {key}={words[0]}")


PLANNER = NeMo()
