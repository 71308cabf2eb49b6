"""NeMo 2: a planned script that sets every field of a Llama 3.1 recipe, with torchrun."""

import keyword
from collections.abc import Iterator, Mapping
from typing import Any

from steelyard.experiment import Experiment, RopeScaling
from steelyard.experiment.case import Case
from steelyard.frameworks.megatron_family import plan as family
from steelyard.frameworks.megatron_family.facts import FUSIONS
from steelyard.frameworks.nemo.facts import FACTS
from steelyard.frameworks.planner import (
    Command,
    Node,
    Planner,
    Refusal,
    option_refusals,
    refuse,
    unable,
    without_options,
)

SCRIPT = "nemo_recipe.py"

RECIPES = {"llama3.1-8b": "llama31_8b", "llama3.1-70b": "llama31_70b", "llama3.1-405b": "llama31_405b"}

SCHEDULERS = {
    "cosine": "CosineAnnealingScheduler",
    "linear": "WarmupAnnealingScheduler",
    "constant": "WarmupPolicyScheduler",
}

PRECISIONS = {"bf16": "bf16-mixed", "fp16": "16-mixed", "fp32": "32"}


class Code(str):
    """Python source, inserted unchanged; other values are inserted as literals."""

    __slots__ = ()
    __repr__ = str.__str__


DTYPES = {"bf16": Code("torch.bfloat16"), "fp16": Code("torch.float16"), "fp32": Code("torch.float32")}

HUGGING_FACE = (None, "HFTokenizer", "HuggingFaceTokenizer")


class NeMo(Planner):
    def refusals(self, case: Case) -> Iterator[Refusal]:
        experiment, options = case.resolved.experiment, case.resolved.platform.options
        yield from family.vendor_refusals(case, "nvidia", "NeMo")
        for refusal in family.family_refusals(experiment, FACTS.name):
            if refusal.key not in ("data.source", "data.samples"):  # its mock data is uniform, and may repeat
                yield refusal
        yield from family.attention_refusals(experiment.kernels)
        yield from family.seed_refusals(experiment, "NeMo")
        preset = experiment.model.preset
        if preset not in RECIPES:
            yield refuse("model.preset", preset, ", for which no NeMo recipe is planned", *RECIPES)
        decay, shards = experiment.training.decay_steps, experiment.parallelism.fsdp_size
        if decay not in (None, experiment.training.steps):
            yield refuse("training.decay_steps", decay, ", but NeMo decays over training.steps", None)
        if shards > 1:
            yield refuse("parallelism.fsdp_size", shards, ", but the recipe does not shard weights", 1)
        yield from _data_refusals(experiment)
        yield from family.turbo_refusals(experiment.kernels)
        layers = {"kernels.transformer_impl": (None, "transformer_engine")}
        yield from unable(experiment, ", but NeMo's recipes use Transformer Engine", layers)
        if preset in RECIPES:
            under = {name for name in options if name.startswith(("data.", "trainer.plugins."))}
            yield from option_refusals(options, {*fields(without_options(case)), *under}, "NeMo")
        for name in options:
            if not _is_a_path(name):
                message = f"platform.options has {name!r}, which is not a path into a recipe"
                expected = "dotted names such as trainer.strategy.ckpt_async_save"
                yield Refusal(
                    "platform.options", name, message, expected, f"remove {name!r} from the platform's options"
                )

    def variables(self, case: Case, node: Node) -> dict[str, str]:
        cache = case.resolved.platform.cache_dir
        return {
            "NEMO_LOG_MEMORY_USAGE": "1",
            "CUDA_DEVICE_MAX_CONNECTIONS": "1",  # needed for overlap and sequence parallelism
            **family.attention_env(case.resolved.experiment),
            **({"HF_HOME": cache} if cache else {}),
        }

    def command(self, case: Case, node: Node) -> Command:
        argv = [*family.torchrun(case, node), f"{node.run_dir}/{SCRIPT}"]
        files = {SCRIPT: script(case, node)}
        return Command(argv, self.variables(case, node), files, case.resolved.platform.root)


def script(case: Case, node: Node) -> str:
    """The recipe as a readable script; all values are Python literals."""
    experiment = case.resolved.experiment
    seed = experiment.training.seed
    recipe = RECIPES[experiment.model.preset or ""]
    arguments = {
        "dir": f"{node.run_dir}/output",
        "name": experiment.name,
        "num_nodes": node.nodes,
        "num_gpus_per_node": case.placement.gpus_per_node,
    }
    options = {name: value for name, value in case.resolved.platform.options.items() if _is_a_path(name)}
    stated = (*fields(case).items(), *options.items())
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
        *(f"    recipe.{path} = {value!r}" for path, value in stated),
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


def fields(case: Case) -> dict[str, Any]:
    """Values by path into the recipe, without the platform's options."""
    experiment = case.resolved.experiment
    return {
        **_trainer(case),
        **_strategy(experiment),
        **_optimizer(experiment),
        **_model(experiment),
        "data": _data(case),
    }


def _trainer(case: Case) -> dict[str, Any]:
    training, precision = case.resolved.experiment.training, case.resolved.experiment.precision
    plugin = {
        "precision": PRECISIONS[precision.dtype],
        "params_dtype": DTYPES[precision.dtype],
        "pipeline_dtype": DTYPES[precision.dtype],
        "autocast_enabled": False,
        "grad_reduce_in_fp32": precision.grad_reduce_in_fp32,
        "fp16_loss_scale": None,  # dynamic, only for fp16
        "fp8": precision.fp8,
        "fp8_recipe": precision.fp8_recipe,
        **family.DELAYED,
        "fp8_param_gather": False,
    }
    return {
        "trainer.num_nodes": case.placement.nodes,
        "trainer.devices": case.placement.gpus_per_node,
        "trainer.max_steps": training.steps,
        "trainer.accumulate_grad_batches": 1,  # Megatron's strategy accumulates itself
        "trainer.val_check_interval": training.steps,
        **{f"trainer.{name}": 0 for name in ("limit_val_batches", "limit_test_batches", "num_sanity_val_steps")},
        "trainer.log_every_n_steps": 1,
        "trainer.enable_checkpointing": training.checkpointing,
        **({} if training.checkpointing else {"log.ckpt": None}),
        "resume": None,
        # None would select Lightning's TensorBoard logger.
        **({} if training.tracking else {"trainer.logger": False, "log.tensorboard": None}),
        "trainer.plugins": _config("nl.MegatronMixedPrecision", plugin),
    }


def _strategy(experiment: Experiment) -> dict[str, Any]:
    precision, overlaps = experiment.precision, ("overlap_grad_reduce", "overlap_param_gather")
    return {
        **FACTS.stated(experiment, "parallelism", "tensor_parallel_size", "pipeline_parallel_size"),
        "trainer.strategy.virtual_pipeline_model_parallel_size": None,
        **FACTS.stated(experiment, "parallelism", "context_parallel_size", "sequence_parallel"),
        "trainer.strategy.pipeline_dtype": DTYPES[precision.dtype],
        "trainer.strategy.ckpt_async_save": experiment.training.checkpointing,
        **FACTS.stated(experiment, "parallelism", "distributed_optimizer", *overlaps),
        "trainer.strategy.ddp.grad_reduce_in_fp32": precision.grad_reduce_in_fp32,
    }


def _optimizer(experiment: Experiment) -> dict[str, Any]:
    training, dtype = experiment.training, experiment.precision.dtype
    keys = ("learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "clip_grad_norm")
    schedule = {
        "max_steps": training.steps,
        "warmup_steps": training.warmup_steps,
        "min_lr": training.min_learning_rate,
        **({"constant_steps": 0} if training.schedule == "cosine" else {}),
    }
    return {
        **FACTS.stated(experiment, "training", *keys),
        "optim.config.clip_grad": training.clip_grad_norm or 0.0,  # 0 is off
        "optim.config.use_distributed_optimizer": experiment.parallelism.distributed_optimizer,
        "optim.config.bf16": dtype == "bf16",
        "optim.config.fp16": dtype == "fp16",
        "optim.lr_scheduler": _config(f"nl.lr_scheduler.{SCHEDULERS[training.schedule]}", schedule),
    }


def _model(experiment: Experiment) -> dict[str, Any]:
    model, training, kernels = experiment.model, experiment.training, experiment.kernels
    sizes = ("num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    # NeMo always scales; a factor of 1 has no effect.
    scaling = model.rope_scaling or RopeScaling.model_validate({"factor": 1.0, **family.FIXED_ROPE_SCALING})
    config = {
        "rotary_base": int(model.rope_theta or 10000),
        "scale_factor": scaling.factor,
        "low_freq_factor": scaling.low_freq_factor,
        "high_freq_factor": scaling.high_freq_factor,
        "old_context_len": scaling.original_max_position_embeddings,
        "share_embeddings_and_output_weights": model.tied_embeddings,
        "add_qkv_bias": model.qkv_bias,
        "make_vocab_size_divisible_by": 128,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "init_method_std": training.init_method_std,
        **family.recomputation(experiment),
        "fp32_residual_connection": experiment.precision.fp32_residual_connection,
    }
    chosen, added = FACTS.chosen_kernels(kernels), kernels.gradient_accumulation_fusion
    backend = family.attention_backend(kernels, unset="flash" if kernels.use_flash_attn else "auto")
    return {
        "model.config.seq_length": training.sequence_length,
        **FACTS.stated(experiment, "model", *sizes, "norm_epsilon"),
        **{f"model.config.{name}": value for name, value in config.items()},
        **{f"model.config.{key}": chosen[key] for key in FUSIONS},
        **({"model.config.gradient_accumulation_fusion": added} if added is not None else {}),
        "model.config.attention_backend": Code(f"AttnBackend.{backend}"),
    }


def _data(case: Case) -> Code:
    experiment, data = case.resolved.experiment, case.resolved.experiment.data
    stated = {
        "seq_length": experiment.training.sequence_length,
        "micro_batch_size": experiment.training.micro_batch_size,
        "global_batch_size": experiment.training.global_batch_size,
        "tokenizer": Code(f"run.Config(AutoTokenizer, pretrained_model_name={data.tokenizer!r})"),
        "num_train_samples": data.samples or _samples_used(experiment),
        "num_workers": 8,
    }
    if data.source == "uniform":
        return _config("llm.MockDataModule", stated)
    corpus = {
        "paths": [data.path],
        **stated,
        "seed": data.seed,
        "split": data.split,
        "dataloader_type": "single",
        **dict.fromkeys(("reset_position_ids", "reset_attention_mask", "eod_mask_loss"), False),
        "index_mapping_dir": case.resolved.platform.cache_dir,
    }
    return _config("llm.PreTrainingDataModule", corpus)


def _samples_used(experiment: Experiment) -> int:
    return experiment.training.steps * experiment.training.global_batch_size


def _config(target: str, arguments: Mapping[str, Any]) -> Code:
    return Code(_call("run.Config", arguments, target))


def _call(function: str, arguments: Mapping[str, Any], *first: str) -> str:
    given = (*first, *(f"{name}={value!r}" for name, value in arguments.items()))
    return "\n".join((f"{function}(", *(f"        {argument}," for argument in given), "    )"))


def _is_a_path(name: str) -> bool:
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split("."))


def _data_refusals(experiment: Experiment) -> Iterator[Refusal]:
    data, used = experiment.data, _samples_used(experiment)
    if data.source not in ("uniform", "tokens"):
        yield refuse("data.source", data.source, ", but NeMo's mock data is uniform", "uniform", "tokens")
    if data.tokenizer is None:
        message = "data.tokenizer is missing, and NeMo would use GPT-2's"
        fix = "--set data.tokenizer=meta-llama/Llama-3.1-8B"
        yield Refusal("data.tokenizer", None, message, "a Hugging Face name or path", fix)
    if data.tokenizer_type not in HUGGING_FACE:
        reason = ", but the recipe supports only Hugging Face tokenizers"
        yield refuse("data.tokenizer_type", data.tokenizer_type, reason, *HUGGING_FACE[1:])
    if data.samples is not None and data.samples < used:
        reason = f", but the steps use {used} sequences, and NeMo stops at the end of the data"
        yield refuse("data.samples", data.samples, reason, None, used)


PLANNER = NeMo()
