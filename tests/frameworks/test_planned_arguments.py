"""What a planned framework is told: every parameter of the experiment, and nothing left to its own defaults."""

import functools
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest
from ruamel.yaml import YAML

from steelyard.configs.choose import Asked, readings
from steelyard.configs.files import read_config
from steelyard.experiment import packaged, parse_settings, resolve
from steelyard.experiment.case import Case, place
from steelyard.frameworks.megatron_deepspeed import plan as megatron_deepspeed
from steelyard.frameworks.nemo import plan as nemo
from steelyard.frameworks.planner import Command, Node, Planner, complete
from steelyard.frameworks.primus import plan as primus
from steelyard.frameworks.registry import facts
from steelyard.hardware.machine import Machine

TABLE = "apples-to-apples"
GPT = "gpt3_6.7b_megatron_deepspeed"
NODE = Node(rank=0, nodes=1, head="localhost", port=None, run_dir="/run/steelyard")


def case_of(name: str, platform: str, *settings: str) -> Case:
    given = parse_settings(settings)
    reading = readings(read_config(packaged.path(name)), Asked(platform=platform, settings=given))[0]
    resolved = resolve(reading, given)
    return Case(resolved, place(resolved.platform, Machine((), cpu_count=2)))


def value_of(case: Case, dotted: str) -> Any:
    group, key = dotted.split(".")
    return getattr(getattr(case.resolved.experiment, group), key)


def keys_of(name: str) -> list[str]:
    """Every parameter a packaged file states: its sections, and what a platform adds to them."""
    content = read_config(packaged.path(name)).content
    groups = ("training", "data", "parallelism", "precision", "kernels")
    stated = {f"{group}.{key}" for group in groups for key in content[group]}
    for platform in content["platforms"].values():
        for group, keys in platform.get("overrides", {}).items():
            stated |= {f"{group}.{key}" for key in keys}
    return sorted(stated)


def told(framework: Planner, case: Case) -> Command:
    assert list(framework.refusals(case)) == []
    return framework.command(case, NODE)


def refused(framework: Planner, case: Case) -> dict[str, str]:
    return {refusal.key: refusal.fix for refusal in framework.refusals(case)}


# Primus


def primus_plan(case: Case) -> dict[str, Any]:
    """The overrides as PyYAML would read them (YAML 1.1), and the variables."""
    command = told(primus.PLANNER, case)
    reader = YAML(typ="safe", pure=True)
    reader.version = (1, 1)  # type: ignore[assignment]
    trainer = reader.load(command.files["primus.yaml"])["modules"]["pre_trainer"]
    return {**trainer["overrides"], **command.env, "model": trainer["model"]}


PRIMUS_DERIVES = {"training.gradient_accumulation_steps", "parallelism.data_parallel_size"}
PRIMUS_HAS_NOT = {"data.dataset", "data.samples"}


def expected_of_primus(case: Case, dotted: str) -> dict[str, Any]:
    value = value_of(case, dotted)
    path = case.resolved.experiment.data.path
    translated: dict[str, dict[str, Any]] = {
        "training.recompute": {"recompute_granularity": None, "recompute_method": None},
        "training.checkpointing": {"save": None, "disable_last_saving": True},
        "training.tracking": {"disable_tensorboard": True},
        "training.decay_steps": {"lr_decay_iters": case.resolved.experiment.training.steps},
        "precision.dtype": {"bf16": True, "fp16": False},
        "precision.grad_reduce_in_fp32": {"grad_reduce_in_bf16": True, "accumulate_allreduce_grads_in_fp32": False},
        "kernels.bias_activation_fusion": {"bias_swiglu_fusion": True, "bias_gelu_fusion": False},
        "kernels.persist_layer_norm": {"no_persist_layer_norm": False},
        "kernels.cross_entropy_loss_fusion": {"cross_entropy_loss_fusion": True, "cross_entropy_fusion_impl": "te"},
        "kernels.use_flash_attn": {"use_flash_attn": True, "attention_backend": "auto"},
        "data.source": {"mock_data": False, "train_data_path": path},
        "data.split": {"split": None, "train_data_path": path, "valid_data_path": None, "test_data_path": None},
        "data.tokenizer_type": {"tokenizer_type": "HuggingFaceTokenizer"},
    }
    spelling = facts("primus").spelling(dotted)
    assert spelling is not None
    return translated.get(dotted) or dict.fromkeys(spelling.split(", "), value)


@pytest.mark.parametrize("dotted", keys_of(TABLE))
def test_primus_is_told_every_parameter_of_the_table(dotted: str) -> None:
    case = case_of(TABLE, "amd")
    if dotted in PRIMUS_DERIVES | PRIMUS_HAS_NOT:
        assert facts("primus").spelling(dotted) is None
        return
    plan = primus_plan(case)
    for name, value in expected_of_primus(case, dotted).items():
        if name.isupper():  # a variable that the table leaves open on this side
            assert plan.get(name) == value
        else:
            assert name in plan
            assert plan[name] == value
            assert type(plan[name]) is type(value)


@pytest.mark.parametrize("dotted", facts("primus").silent_defaults)
def test_primus_is_not_left_to_its_defaults(dotted: str) -> None:
    case = complete(case_of(TABLE, "amd"))
    plan = primus_plan(case)
    expected = expected_of_primus(case, dotted)
    assert expected == {name: plan[name] for name in expected}


def test_primus_states_what_its_example_would_change_unasked() -> None:
    plan = primus_plan(case_of(TABLE, "amd"))
    assert {
        "norm_epsilon": 1e-5,
        "eod_mask_loss": False,
        "finetune": False,
        "dataloader_type": "single",
        "max_position_embeddings": 131072,
        "use_rope_scaling": True,
        "rope_scaling_factor": 8.0,
        "num_query_groups": 8,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
    }.items() <= plan.items()


def test_primus_takes_its_variables_from_the_node_and_options_last() -> None:
    case = case_of(TABLE, "amd")
    case.resolved.platform.options["log_avg_reset_interval"] = 50
    case.resolved.platform.options["num_workers"] = 2
    command = primus.PLANNER.command(case, Node(1, 2, "10.0.0.1", 29500, "/run/steelyard"))
    assert command.argv == ["bash", "examples/run_pretrain.sh"]
    assert command.workdir == "/workspace/Primus"
    assert {
        "EXP": "/run/steelyard/primus.yaml",
        "NNODES": "2",
        "NODE_RANK": "1",
        "GPUS_PER_NODE": "8",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29500",
    }.items() <= command.env.items()
    plan = primus_plan(case)
    assert (plan["log_avg_reset_interval"], plan["num_workers"]) == (50, 2)


def test_primus_makes_data_of_the_models_own_vocabulary() -> None:
    plan = primus_plan(case_of(TABLE, "amd", "data.source=counting"))
    assert (plan["mock_data"], plan["train_data_path"]) == (True, None)
    assert (plan["tokenizer_type"], plan["vocab_size"] + 1) == ("NullTokenizer", 128256)


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("data.source=markov", "data.source"),
        ("data.split=90,5,5", "data.split"),
        ("data.seed=7", "data.seed"),
        ("training.seed=0", "training.seed"),
        ("model.rope_scaling.low_freq_factor=2.0", "model.rope_scaling.low_freq_factor"),
        ("parallelism.sequence_parallel=true", "parallelism.sequence_parallel"),
        ("kernels.enable_primus_turbo=false", "kernels.use_turbo_attention"),
        ("kernels.deterministic=true", "kernels.deterministic"),
    ],
)
def test_primus_refuses_what_it_would_do_otherwise(setting: str, key: str) -> None:
    assert key in refused(primus.PLANNER, case_of(TABLE, "amd", setting))


# NeMo


class Recorded:
    """Stands for NeMo's recipe: keeps what is assigned, and makes what is not."""

    def __init__(self, target: Any = None, **arguments: Any) -> None:
        self.target = target
        vars(self).update(arguments)

    def __getattr__(self, name: str) -> "Recorded":
        made = Recorded()
        setattr(self, name, made)
        return made


class Named:
    """Stands for a module: every attribute is its own dotted name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> "Named":
        return Named(f"{self.name}.{name}")

    def __call__(self, **arguments: Any) -> Recorded:
        return Recorded(self.name, **arguments)

    def __eq__(self, other: object) -> bool:
        return other == self.name

    __hash__ = None  # type: ignore[assignment]


def run_script(text: str, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Execute a planned recipe where NeMo's modules are stand-ins; what it would train."""
    ran: list[Recorded] = []

    def module(name: str, **members: Any) -> None:
        made = ModuleType(name)
        vars(made).update(members)
        monkeypatch.setitem(sys.modules, name, made)

    seeded: list[int] = []
    strategy = ModuleType("nemo.lightning._strategy_lib")
    vars(strategy)["init_parallel_ranks"] = lambda *_, seed=1234: seed
    tokenizers = "nemo.collections.common.tokenizers"
    for name in ("nemo.collections.common", tokenizers, f"{tokenizers}.huggingface", "megatron", "megatron.core"):
        module(name)
    module("lightning")
    module("lightning.pytorch", seed_everything=lambda seed, workers: seeded.append(seed))
    sys.modules["lightning"].pytorch = sys.modules["lightning.pytorch"]  # type: ignore[attr-defined]
    module("nemo_run", Config=Recorded, run=lambda recipe, direct: ran.append(recipe) if direct else None)
    module("torch", bfloat16="torch.bfloat16", float16="torch.float16", float32="torch.float32")
    module("megatron.core.transformer")
    module("megatron.core.transformer.enums", AttnBackend=Named("AttnBackend"))
    module("nemo", lightning=Named("nl"))
    module("nemo.collections", llm=Named("llm"))
    module(f"{tokenizers}.huggingface.auto_tokenizer", AutoTokenizer=Named("AutoTokenizer"))
    module("nemo.lightning", _strategy_lib=strategy)
    exec(compile(text, "nemo_recipe.py", "exec"), {"__name__": "__main__"})
    (recipe,) = ran
    recipe.seeds = (seeded, vars(strategy)["init_parallel_ranks"]())
    assert isinstance(vars(strategy)["init_parallel_ranks"], functools.partial)
    return recipe


def at(recipe: Recorded, path: str) -> Any:
    return functools.reduce(getattr, path.split("."), recipe)


def nemo_plan(case: Case, monkeypatch: pytest.MonkeyPatch) -> tuple[Recorded, Mapping[str, str]]:
    command = told(nemo.PLANNER, case)
    assert command.argv[-1] == "/run/steelyard/nemo_recipe.py"
    return run_script(command.files["nemo_recipe.py"], monkeypatch), command.env


NEMO_DERIVES = {"training.gradient_accumulation_steps", "parallelism.data_parallel_size"}
NEMO_HAS_NOT = {"data.dataset", "kernels.enable_primus_turbo", "kernels.use_turbo_attention"}


def expected_of_nemo(case: Case, dotted: str) -> dict[str, Any]:
    value = value_of(case, dotted)
    translated: dict[str, dict[str, Any]] = {
        "training.seed": {"seeds": ([value], value)},
        "training.schedule": {"optim.lr_scheduler.target": "nl.lr_scheduler.CosineAnnealingScheduler"},
        "training.recompute": {"model.config.recompute_granularity": None},
        "training.checkpointing": {"trainer.enable_checkpointing": False, "log.ckpt": None, "resume": None},
        "training.tracking": {"trainer.logger": False, "log.tensorboard": None},
        "precision.dtype": {
            "trainer.plugins.precision": "bf16-mixed",
            "trainer.plugins.params_dtype": "torch.bfloat16",
        },
        "precision.grad_reduce_in_fp32": {
            "trainer.plugins.grad_reduce_in_fp32": value,
            "trainer.strategy.ddp.grad_reduce_in_fp32": value,
        },
        "parallelism.distributed_optimizer": {
            "trainer.strategy.ddp.use_distributed_optimizer": value,
            "optim.config.use_distributed_optimizer": value,
        },
        # Both variables are 1, and any narrower backend stops at them.
        "kernels.use_flash_attn": {"model.config.attention_backend": "AttnBackend.auto"},
        "data.source": {"data.target": "llm.PreTrainingDataModule"},
        "data.path": {"data.paths": [value]},
        "data.tokenizer": {"data.tokenizer.pretrained_model_name": value},
        "data.tokenizer_type": {"data.tokenizer.target": "AutoTokenizer"},
    }
    spelling = facts("nemo").spelling(dotted)
    assert spelling is not None
    return translated.get(dotted) or dict.fromkeys(spelling.split(", "), value)


@pytest.mark.parametrize("dotted", keys_of(TABLE))
def test_nemo_is_told_every_parameter_of_the_table(dotted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(TABLE, "nvidia")
    if dotted in NEMO_DERIVES | NEMO_HAS_NOT:
        assert facts("nemo").spelling(dotted) is None
        return
    recipe, env = nemo_plan(case, monkeypatch)
    for path, value in expected_of_nemo(case, dotted).items():
        if path.isupper():
            assert env[path] == str(value)
        else:
            assert at(recipe, path) == value


@pytest.mark.parametrize("dotted", facts("nemo").silent_defaults)
def test_nemo_is_not_left_to_its_defaults(dotted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(TABLE, "nvidia")
    recipe, _ = nemo_plan(case, monkeypatch)
    for path, value in expected_of_nemo(case, dotted).items():
        assert at(recipe, path) == value


def test_nemo_starts_from_the_presets_recipe_and_states_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, env = nemo_plan(case_of(TABLE, "nvidia"), monkeypatch)
    assert recipe.target == "llm.llama31_8b.pretrain_recipe"
    config = vars(recipe.model.config)
    assert {
        "num_layers": 32,
        "num_query_groups": 8,
        "layernorm_epsilon": 1e-5,
        "rotary_base": 500000,
        "scale_factor": 8.0,
        "hidden_dropout": 0.0,
        "seq_length": 2048,
    }.items() <= config.items()
    assert recipe.trainer.limit_val_batches == 0
    assert env["NEMO_LOG_MEMORY_USAGE"] == "1"


def test_nemo_without_rope_scaling_scales_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, _ = nemo_plan(case_of(TABLE, "nvidia", "model.rope_scaling=null"), monkeypatch)
    assert recipe.model.config.scale_factor == 1.0


def test_nemo_makes_uniform_data_with_the_models_own_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, _ = nemo_plan(case_of(TABLE, "nvidia", "data.source=uniform"), monkeypatch)
    assert recipe.data.target == "llm.MockDataModule"
    assert recipe.data.tokenizer.pretrained_model_name == "meta-llama/Llama-3.1-8B"


@pytest.mark.parametrize(
    ("settings", "backend"),
    [
        (("kernels.nvte_fused_attn=0",), "flash"),
        (("kernels.nvte_flash_attn=0",), "fused"),
        (("kernels.nvte_flash_attn=null", "kernels.nvte_fused_attn=null"), "flash"),
        (("kernels.nvte_flash_attn=0", "kernels.nvte_fused_attn=0", "kernels.use_flash_attn=false"), "unfused"),
    ],
)
def test_nemos_attention_agrees_with_transformer_engines_variables(
    settings: tuple[str, ...], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, _ = nemo_plan(case_of(TABLE, "nvidia", *settings), monkeypatch)
    assert recipe.model.config.attention_backend == f"AttnBackend.{backend}"


def test_nothing_a_person_writes_becomes_code_of_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(TABLE, "nvidia")
    path = "'])\nraise SystemExit #\""
    data = case.resolved.experiment.data.model_copy(update={"path": path})
    experiment = case.resolved.experiment.model_copy(update={"data": data})
    case.resolved.platform.options["trainer.strategy.ckpt_parallel_load"] = path
    case.resolved.platform.options["x = 1; import os"] = 1
    changed = Case(type(case.resolved)(experiment, *_rest(case)), case.placement)
    assert refused(nemo.PLANNER, changed).keys() == {"platform.options"}
    recipe = run_script(nemo.script(changed, NODE), monkeypatch)
    assert recipe.data.paths == [path]
    assert recipe.trainer.strategy.ckpt_parallel_load == path


def _rest(case: Case) -> tuple[Any, ...]:
    resolved = case.resolved
    return resolved.platform, resolved.platform_name, resolved.sources, resolved.reading


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("data.source=counting", "data.source"),
        ("data.source=markov", "data.source"),
        ("data.tokenizer=null", "data.tokenizer"),
        ("data.tokenizer_type=GPT2BPETokenizer", "data.tokenizer_type"),
        ("data.samples=1000", "data.samples"),
        ("training.decay_steps=1000", "training.decay_steps"),
        ("training.seed=0", "training.seed"),
        ("parallelism.fsdp_size=8", "parallelism.fsdp_size"),
        ("kernels.enable_primus_turbo=true", "kernels.enable_primus_turbo"),
        ("kernels.use_flash_attn=false", "kernels.use_flash_attn"),
        ("model.preset=qwen2.5-7b", "model.preset"),
    ],
)
def test_nemo_refuses_what_it_would_do_otherwise(setting: str, key: str) -> None:
    assert key in refused(nemo.PLANNER, case_of(TABLE, "nvidia", setting))


# Megatron-DeepSpeed


def flags_of(command: Command) -> dict[str, str | None]:
    """The arguments of pretrain_gpt.py by flag; None for one without a value."""
    given = list(command.argv)[list(command.argv).index("pretrain_gpt.py") + 1 :]
    found: dict[str, str | None] = {}
    for at_, word in enumerate(given):
        if word.startswith("--"):
            value = given[at_ + 1] if at_ + 1 < len(given) else "--"
            assert word not in found
            found[word] = None if value.startswith("--") else value
    return found


DEEPSPEED_HAS_NOT = {"parallelism.data_parallel_size", "parallelism.overlap_param_gather"}


def expected_of_deepspeed(case: Case, dotted: str) -> dict[str, Any]:
    """Flags, and paths of ds_config.json."""
    value = value_of(case, dotted)
    translated: dict[str, dict[str, Any]] = {
        "training.recompute": {},
        "training.checkpointing": {},
        "training.tracking": {},
        "parallelism.sequence_parallel": {},
        "parallelism.distributed_optimizer": {"--zero-stage": "1", "zero_optimization.stage": 1},
        "precision.dtype": {"--fp16": None, "fp16.enabled": True, "bf16.enabled": False},
        "precision.loss_scale": {"fp16.loss_scale": 0},
        "precision.fp8": {"--transformer-impl": "local"},
        "precision.fp32_residual_connection": {},
        "precision.grad_reduce_in_fp32": {"communication_data_type": "fp16", "data_types.grad_accum_dtype": "fp16"},
        "kernels.bias_activation_fusion": {},
        "kernels.bias_dropout_fusion": {},
        "kernels.masked_softmax_fusion": {},
        "kernels.persist_layer_norm": {},
        "kernels.use_flash_attn": {"--use-flash-attn-v2": None},
        "data.source": {"--data-path": "corpus_text_document"},
        "data.tokenizer": {
            "--vocab-file": "examples_deepspeed/rebase/gpt2-vocab.json",
            "--merge-file": "examples_deepspeed/rebase/gpt2-merges.txt",
        },
    }
    spelling = facts("megatron-deepspeed").spelling(dotted)
    assert spelling is not None
    if dotted in translated:
        return translated[dotted]
    return {name: str(value) if name.startswith("--") else value for name in spelling.split(", ")}


def assert_deepspeed_is_told(case: Case, dotted: str) -> None:
    command = told(megatron_deepspeed.PLANNER, case)
    flags, config = flags_of(command), command.files["ds_config.json"]
    expected = expected_of_deepspeed(case, dotted)
    for name, value in expected.items():
        if name.startswith("--"):
            assert name in flags
            assert flags[name] == value
        else:
            assert functools.reduce(lambda here, part: here[part], name.split("."), config) == value
    if not expected:  # what it does by itself; the flag would turn it round
        spelling = facts("megatron-deepspeed").spelling(dotted)
        assert spelling not in flags


@pytest.mark.parametrize("platform", ["target", "baseline"])
@pytest.mark.parametrize("dotted", keys_of(GPT))
def test_deepspeed_is_told_every_parameter_of_the_experiment(dotted: str, platform: str) -> None:
    if dotted in DEEPSPEED_HAS_NOT:
        assert facts("megatron-deepspeed").spelling(dotted) is None
        return
    assert_deepspeed_is_told(case_of(GPT, platform), dotted)


@pytest.mark.parametrize("dotted", facts("megatron-deepspeed").silent_defaults)
def test_deepspeed_is_not_left_to_its_defaults(dotted: str) -> None:
    case = case_of(GPT, "target")
    if value_of(case, dotted) != facts("megatron-deepspeed").silent_defaults[dotted]:
        assert expected_of_deepspeed(case, dotted)
    assert_deepspeed_is_told(case, dotted)


def test_deepspeeds_file_agrees_with_the_arguments() -> None:
    command = told(megatron_deepspeed.PLANNER, case_of(GPT, "target"))
    config, flags = command.files["ds_config.json"], flags_of(command)
    replicas = 8 // int(flags["--ds-sequence-parallel-size"] or 0)
    micro, steps = config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]
    assert config["train_batch_size"] == micro * steps * replicas == int(flags["--global-batch-size"] or 0)
    assert config["gradient_clipping"] == float(flags["--clip-grad"] or 0)
    assert flags["--deepspeed_config"] == "/run/steelyard/ds_config.json"
    assert flags["--hidden-dropout"] == flags["--attention-dropout"] == "0.0"
    assert command.workdir == "/workspace/Megatron-DeepSpeed"


def test_deepspeed_without_clipping_is_told_so() -> None:
    command = told(megatron_deepspeed.PLANNER, case_of(GPT, "target", "training.clip_grad_norm=null"))
    assert command.files["ds_config.json"]["gradient_clipping"] == 0.0
    assert flags_of(command)["--clip-grad"] == "0.0"


@pytest.mark.parametrize(
    ("settings", "stage"),
    [
        ((), 1),
        (("parallelism.distributed_optimizer=false",), 0),
        (("parallelism.fsdp_size=8",), 3),
    ],
)
def test_what_is_sharded_is_a_stage_of_zero(settings: tuple[str, ...], stage: int) -> None:
    command = told(megatron_deepspeed.PLANNER, case_of(GPT, "target", *settings))
    assert command.files["ds_config.json"]["zero_optimization"]["stage"] == stage
    assert flags_of(command)["--zero-stage"] == str(stage)


def test_deepspeed_trains_a_llama_too() -> None:
    settings = ("model.preset=llama3.1-8b", "model.rope_scaling=null", "data.tokenizer_type=null")
    command = told(megatron_deepspeed.PLANNER, case_of(GPT, "target", *settings))
    assert {
        "--normalization": "rmsnorm",
        "--swiglu": None,
        "--disable-bias-linear": None,
        "--use-rotary-position-embeddings": None,
        "--rotary-position-embeddings-theta": "500000",
        "--num-key-value-heads": "8",
        "--untie-embeddings-and-output-weights": None,
        "--tokenizer-type": "HFTokenizer",
    }.items() <= flags_of(command).items()


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (("data.source=counting",), "data.source"),
        (("data.seed=7",), "data.seed"),
        (("parallelism.overlap_param_gather=true",), "parallelism.overlap_param_gather"),
        (("parallelism.tensor_parallel_size=2",), "parallelism.tensor_parallel_size"),
        (("parallelism.fsdp_size=4",), "parallelism.fsdp_size"),
        (
            ("parallelism.distributed_optimizer=false", "precision.grad_reduce_in_fp32=true"),
            "precision.grad_reduce_in_fp32",
        ),
        (("training.recompute=selective",), "training.recompute"),
        (("kernels.cross_entropy_loss_fusion=true",), "kernels.cross_entropy_loss_fusion"),
        (("kernels.nvte_flash_attn=1",), "kernels.nvte_flash_attn"),
        (("model.preset=llama3.1-8b",), "model.rope_scaling"),
    ],
)
def test_deepspeed_refuses_what_it_would_do_otherwise(settings: tuple[str, ...], key: str) -> None:
    assert key in refused(megatron_deepspeed.PLANNER, case_of(GPT, "target", *settings))


@pytest.mark.parametrize("framework", [primus.PLANNER, nemo.PLANNER, megatron_deepspeed.PLANNER])
def test_every_refusal_says_what_to_type(framework: Planner) -> None:
    platform = "target" if framework is megatron_deepspeed.PLANNER else "amd"
    name = GPT if platform == "target" else TABLE
    case = case_of(name, platform, "data.source=markov", "training.seed=0", "kernels.compile=true")
    fixes = refused(framework, case)
    assert {"data.source", "training.seed", "kernels.compile"} <= fixes.keys()
    for key, fix in ((key, fix) for key, fix in fixes.items() if key != "platform.gpu"):
        assert fix.startswith(f"--set {key.split('.')[0]}.")
