"""Two real dumps that differ in one argument: a rule governs the difference, or the comparison names it."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import steelyard

REAL = Path(__file__).parents[1] / "frameworks/logs/real/megatron_clean_int1.log.gz"
BASES: dict[str, dict[str, str]] = {
    "dense": {},
    "fp8": {"fp8": "hybrid"},
    "experts": {"num_experts": "8", "moe_router_topk": "2"},
    "saving": {"save": "/checkpoints"},
}
GOVERNED = {
    "adam_beta1": "0.95",
    "adam_beta2": "0.999",
    "adam_eps": "1e-05",
    "add_bias_linear": "True",
    "add_qkv_bias": "True",
    "apply_query_key_layer_scaling": "True",
    "apply_residual_connection_post_layernorm": "True",
    "attention_dropout": "0.1",
    "attention_output_gate": "True",
    "attention_softmax_in_fp32": "True",
    "calculate_per_token_loss": "True",
    "clip_grad": "0.5",
    "cpu_offloading_num_layers": "4",
    "data_parallel_random_init": "True",
    "dataloader_type": "cyclic",
    "decoupled_lr": "0.001",
    "decoupled_min_lr": "0.0001",
    "embedding_init_method_std": "0.01",
    "end_weight_decay": "0.2",
    "eod_mask_loss": "True",
    "exp_avg_dtype": "torch.bfloat16",
    "experimental_attention_variant": "dsa",
    "ffn_hidden_size": "4096",
    "fim_data": "True",
    "fine_grained_activation_offloading": "True",
    "finetune": "True",
    "fp32_residual_connection": "True",
    "freeze_all_layers": "True",
    "hidden_dropout": "0.1",
    "init_method_std": "0.01",
    "init_method_xavier_uniform": "True",
    "load": "/checkpoints/7b",
    "lr": "0.001",
    "lr_decay_style": "linear",
    "lr_warmup_fraction": "0.01",
    "lr_warmup_iters": "3",
    "main_params_dtype": "torch.bfloat16",
    "micro_batch_size": "2",
    "min_lr": "1e-06",
    "mtp_num_layers": "1",
    "multi_latent_attention": "True",
    "num_layers": "24",
    "optimizer": "sgd",
    "optimizer_cpu_offload": "True",
    "overlap_grad_reduce": "True",
    "overlap_param_gather": "True",
    "pretrained_checkpoint": "/checkpoints/7b",
    "qk_layernorm": "True",
    "recompute_granularity": "selective",
    "reset_attention_mask": "True",
    "reset_position_ids": "True",
    "rotary_base": "10000",
    "rotary_interleaved": "True",
    "rotary_percent": "0.5",
    "rotary_seq_len_interpolation_factor": "2",
    "sequence_parallel": "True",
    "sft": "True",
    "squared_relu": "True",
    "tp_comm_overlap": "True",
    "use_distributed_optimizer": "True",
    "use_mup": "True",
    "use_precision_aware_optimizer": "True",
    "use_rope_scaling": "True",
    "virtual_pipeline_model_parallel_size": "2",
    "weight_decay": "0.3",
    "weight_decay_incr_style": "linear",
    "window_size": "(127, 0)",
}
ONLY_WITH = {
    "fp8": {"fp8_recipe": "blockwise", "fp8_param_gather": "True", "first_last_layers_bf16": "True"},
    "experts": {
        "expert_model_parallel_size": "8",
        "moe_aux_loss_coeff": "0.01",
        "moe_router_load_balancing_type": "sinkhorn",
        "moe_token_dispatcher_type": "alltoall",
        "moe_z_loss_coeff": "0.001",
        "moe_router_topk": "4",
    },
    "saving": {"save_interval": "10"},
}
NAMED = {
    "attention_backend": "AttnBackend.flash",
    "bias_swiglu_fusion": "True",
    "clone_scatter_output_in_embedding": "False",
    "cross_entropy_loss_fusion": "True",
    "cuda_graph_impl": "local",
    "ddp_average_in_collective": "True",
    "ddp_bucket_size": "40000000",
    "deterministic_mode": "True",
    "fp8_margin": "1",
    "layernorm_zero_centered_gamma": "True",
    "lr_warmup_init": "1e-05",
    "moe_router_score_function": "sigmoid",
    "num_workers": "8",
}
FREE = {
    "distributed_timeout_minutes": "60",
    "log_interval": "10",
    "tensorboard_log_interval": "5",
    "wandb_exp_name": "second",
    "data_cache_path": "/tmp/cache",
    "rank": "3",
}


def log(changes: dict[str, str]) -> str:
    """The start of a real log with other values of some arguments, and two steps."""
    lines, left = [], {**changes}
    for line in gzip.decompress(REAL.read_bytes()).decode().splitlines():
        argument = re.match(r"^  ([a-z_0-9]+) \.{2,} ", line)
        lines.append(line[: argument.end()] + left.pop(argument[1]) if argument and argument[1] in left else line)
        if line.startswith(" [") and "iteration        2/" in line:
            break
    assert not left, f"not in the dump: {left}"
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each base, by name."""
    place = tmp_path_factory.mktemp("bases")
    runs = {}
    for name, changes in BASES.items():
        (place / f"{name}.log").write_text(log(changes))
        runs[name] = steelyard.ingest(place / f"{name}.log", out=place, name=name, gpu="h200", gpus=1).directory
    return runs


@pytest.fixture
def compared(cli: Callable[..., Any], bases: dict[str, Path], tmp_path: Path) -> Callable[..., Any]:
    def compare(base: str, name: str, value: str, *options: str) -> Any:
        (tmp_path / "a.log").write_text(log({**BASES[base], name: value}))
        done = cli("ingest", "a.log", "--name", "a", "--gpu", "h200", "--gpus", "1")
        assert done.status == 0, done.err
        return cli("compare", "a", bases[base], "--json", *options).document

    return compare


def governed(document: dict[str, Any]) -> list[str]:
    """Keys of the contract that differ and have an effect."""
    return [
        f"{clause['group']}.{clause['key']}"
        for clause in document["contract"]
        if clause["status"] == "different" and clause["governs"]
    ]


def named(document: dict[str, Any], metric: str = "throughput") -> list[tuple[str, list[str]]]:
    reasons = document["comparable"][metric]["reasons"]
    return [(reason["effect"], reason["keys"]) for reason in reasons if reason["code"] == "arguments_differ"]


KERNELS = {"gradient_accumulation_fusion": "True", "transformer_impl": "transformer_engine"}
"""Keys of an experiment that each platform may choose."""


def test_there_are_as_many_as_the_survey_had() -> None:
    pairs = [*GOVERNED, *(name for names in ONLY_WITH.values() for name in names), *NAMED, *KERNELS]
    assert len(pairs) == len(set(pairs))
    assert len(pairs) >= 71


@pytest.mark.parametrize(
    ("base", "name", "value"),
    [
        *(("dense", *pair) for pair in GOVERNED.items()),
        *((base, *pair) for base, pairs in ONLY_WITH.items() for pair in pairs.items()),
    ],
)
def test_a_rule_governs(compared: Callable[..., Any], base: str, name: str, value: str) -> None:
    document = compared(base, name, value)
    assert governed(document), name
    assert named(document) == []


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_free_and_listed(compared: Callable[..., Any], name: str) -> None:
    document = compared("dense", name, KERNELS[name])
    (clause,) = (clause for clause in document["contract"] if clause["key"] == name)
    assert (clause["status"], clause["governs"]) == ("different", {})
    assert named(document) == []


@pytest.mark.parametrize("name", NAMED)
def test_what_no_rule_governs_is_named(compared: Callable[..., Any], name: str) -> None:
    document = compared("dense", name, NAMED[name])
    for metric in ("throughput", "memory", "flops", "convergence"):
        assert named(document, metric) == [("caveat", [f"arguments.{name}"])], metric
    reason = next(
        each for each in document["comparable"]["throughput"]["reasons"] if each["code"] == "arguments_differ"
    )
    assert reason["target"] == {name: NAMED[name]}
    assert f"{name} ({NAMED[name]}, {reason['baseline'][name]})" in reason["message"]


def test_it_blocks_in_matched_mode(compared: Callable[..., Any]) -> None:
    document = compared("dense", "num_workers", "8", "--mode", "matched")
    assert named(document) == [("blocks", ["arguments.num_workers"])]
    assert document["comparable"]["throughput"]["status"] == "not_comparable"


@pytest.mark.parametrize("name", FREE)
def test_what_cannot_matter_is_free(compared: Callable[..., Any], name: str) -> None:
    document = compared("dense", name, FREE[name])
    assert (governed(document), named(document)) == ([], [])


def test_no_secret_is_kept(cli: Callable[..., Any], tmp_path: Path) -> None:
    secret = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3f"
    (tmp_path / "a.log").write_text(log({"spec": secret}))
    run = Path(cli("ingest", "a.log", "--json").document["run"])
    assert secret not in (run / "run.json").read_text()


@pytest.mark.parametrize(
    ("log_of", "change", "key"),
    [
        ("maxtext_clean", ("Config param scan_layers: True", "Config param scan_layers: False"), "scan_layers"),
        ("torchtitan", ("'enable': False", "'enable': True"), "compile.enable"),
    ],
)
def test_other_frameworks_print_arguments_too(
    cli: Callable[..., Any], tmp_path: Path, log_of: str, change: tuple[str, str], key: str
) -> None:
    config = "{'job': {'dump_folder': './out'}, 'compile': {'enable': False}, 'optimizer': {'lr': 0.0008}}"
    titan = [f"[titan] 2025-09-11 10:00:00,000 - root - INFO - Running with configs: {config}"]
    titan += [
        f"[titan] 2025-09-11 10:00:{step:02d},000 - root - INFO - step: {step:2d}  loss:  8.1000  grad_norm:  1.2000"
        f"  memory: 12.00GiB(15.00%)  tps: 7,034  tflops: 40.00  mfu: 4.00%"
        for step in range(1, 40)
    ]
    real = REAL.with_name(f"{log_of}.log.gz")
    text = gzip.decompress(real.read_bytes()).decode() if real.exists() else "\n".join(titan) + "\n"
    assert change[0] in text
    for name, content in (("a", text), ("b", text.replace(*change))):
        (tmp_path / f"{name}.log").write_text(content)
        assert cli("ingest", f"{name}.log", "--name", name).status == 0
    document = cli("compare", "a", "b", "--json").document
    assert named(document) == [("caveat", [f"arguments.{key}"])]
