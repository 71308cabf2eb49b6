"""What a log states beside the keys of an experiment: experts, dropout, masks, optimizers, seeds and rates."""

import gzip
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard import records
from steelyard.comparison.contract import contract
from steelyard.comparison.curve import loss_curves
from steelyard.comparison.diagnoses.silent_default import LeftOpen, unstated_differences
from steelyard.comparison.side import side
from steelyard.comparison.tiers import Pair
from steelyard.experiment.keys import KEYS, STATED
from steelyard.frameworks.logs import settings
from steelyard.hardware.catalog import CPU
from steelyard.reasons import Reason
from steelyard.verdict import read_subject
from steelyard.verdict.figures import NO_PEAK_FOR_PRECISION

REAL = Path(__file__).parents[1] / "frameworks/logs/real/megatron_clean_int1.log.gz"
STEPS = 120
BOTH = ("--for", "throughput,convergence")
Make = Callable[..., None]


def dump() -> list[str]:
    """The arguments of a real run."""
    lines = gzip.decompress(REAL.read_bytes()).decode().splitlines()
    return lines[: next(at for at, line in enumerate(lines) if "end of arguments" in line) + 1]


def told(lines: Sequence[str], arguments: dict[str, str]) -> list[str]:
    """The same, with other values."""
    left = dict(arguments)
    changed = []
    for line in lines:
        found = re.match(r"^  ([a-z_0-9]+) \.{2,} ", line)
        changed.append(line[: found.end()] + left.pop(found[1]) if found and found[1] in left else line)
    assert not left, "every argument is in the dump"
    return changed


@pytest.fixture
def make(cli: Any, tmp_path: Path) -> Make:
    """runs/NAME: a run of each seed, by a Megatron whose dump says these things."""

    def call(
        name: str,
        seeds: Sequence[int] = (1, 2, 3),
        faster: float = 1.0,
        rate: float = 3e-4,
        consumed: int = 16,
        **said: str,
    ) -> None:
        for seed in seeds:
            chance = np.random.default_rng(seed)
            loss = 10.575 * (1 + np.arange(1, STEPS + 1) / 8) ** -0.28 * np.exp(chance.normal(0, 0.001, STEPS))
            loss[0] = 10.575
            own = np.random.default_rng([seed, *map(ord, name)])
            seconds = 400 / faster * (1 + 0.005 * own.normal()) * np.exp(own.normal(0, 0.01, STEPS))
            arguments = {"seed": str(seed), "train_iters": str(STEPS), "mock_data": "False", "data_path": "['/d/c4']"}
            lines = told(dump(), {**arguments, "log_interval": "1", "global_batch_size": "16", **said})
            lines += [
                f" iteration {at + 1:8d}/{STEPS:8d} | consumed samples: {(at + 1) * consumed:12d} | elapsed time per"
                f" iteration (ms): {seconds[at]:.1f} | learning rate: {rate:.6E} | global batch size:    16 | lm loss:"
                f" {loss[at]:.6E} | loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations:   0 |"
                " number of nan iterations:   0 |"
                for at in range(STEPS)
            ]
            log = tmp_path / f"{name}-{seed}.log"
            log.write_text("\n".join([*lines, "[after training is done]"]) + "\n")
            place = ("--out", f"runs/{name}", "--name", f"s{seed}", "--gpu", "h200", "--gpus", "1")
            known = ("data.path=/d/c4", "data.dataset=c4", "data.samples=null")
            done = cli("ingest", log, *place, *(word for one in known for word in ("--set", one)))
            assert done.status == 0, done.err

    return call


def test_all_that_a_log_states_is_governed() -> None:
    keys = {value for name, value in vars(settings).items() if name.isupper() and isinstance(value, str)}
    of_the_platform = {
        settings.WORLD_SIZE,
        settings.GPU_NAME,
        settings.GPU_GIB,
        settings.LOG_INTERVAL,
        settings.VERSION,
        settings.ARGUMENTS,
    }
    assert keys - of_the_platform - {settings.NONE, CPU} <= settings.SHAPING
    stated = {dotted.partition(".")[2] for dotted in STATED}
    assert stated == settings.SHAPING - {settings.RAMP_UP}  # the tokens of every step tell of that


def test_a_campaign_over_seeds_of_a_framework_that_has_one_seed(cli: Any, make: Make) -> None:
    make("a")
    make("b", faster=1.3)
    done = cli("compare", "b", "a", *BOTH, "--json")
    assert done.document.get("error") is None
    assert done.document["throughput_speedup"]["words"] == "faster"
    assert done.document["convergence"]["status"] == "equivalent"
    assert done.status == 0
    apart = cli("compare", "runs/a/s1", "runs/b/s2", *BOTH, "--json").document
    order = next(one for one in apart["contract"] if one["key"] == "seed" and one["group"] == "data")
    assert (order["status"], order["governs"]) == ("different", {})  # as free as the weights' own seed
    assert apart["convergence"]["status"] != "not_comparable"


@pytest.mark.parametrize(
    ("said", "key", "throughput"),
    [
        ({"num_experts": "8"}, "model.num_experts", "not_comparable"),
        ({"mtp_num_layers": "1"}, "model.mtp_num_layers", "not_comparable"),
        ({"qk_layernorm": "True"}, "model.qk_layernorm", "not_comparable"),
        ({"hidden_dropout": "0.1"}, "training.hidden_dropout", "qualified"),
        ({"attention_dropout": "0.1"}, "training.attention_dropout", "qualified"),
        ({"optimizer": "sgd"}, "training.optimizer", "qualified"),
        ({"eod_mask_loss": "True"}, "data.eod_mask_loss", "comparable"),
        ({"padded_vocab_size": "129024"}, "model.padded_vocab_size", "comparable"),
        ({"lr_decay_style": "WSD"}, "training.schedule", "comparable"),
        ({"use_rope_scaling": "True"}, "model.rope_scaling", "comparable"),
    ],
)
def test_what_logs_state_and_differ_in(cli: Any, make: Make, said: dict[str, str], key: str, throughput: str) -> None:
    plain = {"hidden_dropout": "0.0", "attention_dropout": "0.0", "padded_vocab_size": "128256"}
    make("a", **{**plain, **said})
    make("b", **plain)
    done = cli("compare", "a", "b", *BOTH, "--json")
    found = done.document
    assert found["comparable"]["throughput"]["status"] == throughput
    assert found["comparable"]["convergence"]["status"] == "not_comparable"
    assert [key] in [one["keys"] for one in done.reasons("convergence", "setting_differs")]
    assert (found["convergence"]["first_failing_tier"], found["convergence"]["status"]) == (
        "contract",
        "not_comparable",
    )


EXPERTS = {"num_experts": "8", "moe_router_topk": "2"}
FULL = {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": "1"}
SELECTIVE = {"recompute_granularity": "selective", "recompute_modules": "['core_attn']"}
AWARE = {"use_precision_aware_optimizer": "True"}
BLOCKED = ("not_comparable", "not_comparable", "not_comparable")


@pytest.mark.parametrize(
    ("common", "said", "told", "found"),
    [
        ({}, {"window_size": "(127, 0)"}, "model.attention_window differs: 128 on", BLOCKED),
        ({}, {"multi_latent_attention": "True"}, "model.multi_latent_attention differs: true on", BLOCKED),
        ({}, {"hybrid_layer_pattern": "M-M*"}, "model.hybrid_layer_pattern differs: M-M* on", BLOCKED),
        ({}, {"hybrid_override_pattern": "M-M*"}, "model.hybrid_layer_pattern differs: M-M* on", BLOCKED),
        (
            {},
            {"experimental_attention_variant": "dsa"},
            "model.experimental_attention_variant differs: dsa on",
            BLOCKED,
        ),
        (
            EXPERTS,
            {"moe_shared_expert_intermediate_size": "512"},
            "model.moe_shared_expert_intermediate_size differs: 512 on",
            BLOCKED,
        ),
        (EXPERTS, {"moe_expert_capacity_factor": "1.0"}, "model.moe_expert_capacity_factor differs: 1.0 on", BLOCKED),
        (EXPERTS, {"moe_layer_freq": "[0, 1]"}, "model.moe_layer_freq differs: [0, 1] on", BLOCKED),
        (
            EXPERTS,
            {"moe_router_force_load_balancing": "True"},
            "model.moe_router_force_load_balancing differs: true on",
            BLOCKED,
        ),
        ({}, {"reset_attention_mask": "True"}, "data.reset_attention_mask differs: true on", BLOCKED),
        (
            {},
            {"reset_position_ids": "True"},
            "data.reset_position_ids differs: true on",
            ("comparable", "comparable", "not_comparable"),
        ),
        (
            {},
            {"fp4": "e2m1"},
            "precision.dtype differs: fp4 on",
            ("not_comparable", "not_comparable", "qualified"),
        ),
        (
            FULL,
            {"recompute_method": "block"},
            "training.recompute_extent differs: block 1 on",
            ("not_comparable", "not_comparable", "qualified"),
        ),
        (
            SELECTIVE,
            {"recompute_modules": "['core_attn', 'mlp']"},
            "training.recompute_extent differs: core_attn, mlp on",
            ("not_comparable", "not_comparable", "qualified"),
        ),
        (
            {},
            {"optimizer_cpu_offload": "True"},
            "training.optimizer_cpu_offload differs: 1.0 on",
            ("qualified", "not_comparable", "comparable"),
        ),
        (
            {},
            AWARE,
            "training.use_precision_aware_optimizer differs: true on",
            ("qualified", "not_comparable", "qualified"),
        ),
        (
            AWARE,
            {"exp_avg_dtype": "torch.bfloat16"},
            "precision.exp_avg_dtype differs: bf16 on",
            ("qualified", "not_comparable", "qualified"),
        ),
    ],
)
def test_what_changes_the_job_and_stands_in_the_dump_alone(
    cli: Any, make: Make, common: dict[str, str], said: dict[str, str], told: str, found: tuple[str, ...]
) -> None:
    make("a", faster=1.3, **{**common, **said})
    make("b", **common)
    asked = ("throughput", "memory", "convergence")
    done = cli("compare", "a", "b", "--for", ",".join(asked), "--json")
    rulings = done.document["comparable"]
    statuses = (rulings[one]["status"] for one in asked)
    assert tuple("comparable" if status == "unknown" else status for status in statuses) == found  # of no memory
    refused = next(one for one, status in zip(asked, found, strict=True) if status != "comparable")
    assert any(told in one["message"] for one in done.reasons(refused, "setting_differs"))


@pytest.mark.parametrize(
    ("said", "status"),
    [({}, "comparable"), ({"window_size": "(127, 0)"}, "unknown"), (FULL, "not_comparable")],
)
def test_a_version_that_knows_no_such_setting_does_what_others_do_unless_told(
    cli: Any, make: Make, monkeypatch: pytest.MonkeyPatch, said: dict[str, str], status: str
) -> None:
    make("new", **said)
    of_today = dump()
    later = ("window", "fp4 ", "multi_latent", "hybrid", "experimental", "optimizer_", "exp_avg", "main_", "use_prec")
    older = [line for line in of_today if not line.startswith(tuple(f"  {name}" for name in (*later, "recompute_m")))]
    assert len(of_today) - len(older) > 12
    monkeypatch.setattr(f"{__name__}.dump", lambda: older)
    make("old")
    found = cli("compare", "new", "old", "--json").document["comparable"]["throughput"]
    assert found["status"] == status


def test_a_format_or_a_shape_we_have_no_figures_for_is_over_no_peak(make: Make, tmp_path: Path) -> None:
    for name, said in (("a", {}), ("b", {"fp4": "e2m1"}), ("c", {"multi_latent_attention": "True"})):
        make(name, seeds=(1,), **said)
    known, narrow, latent = (read_subject(records.load(tmp_path / f"runs/{name}/s1")).figures for name in "abc")
    assert known.mfu.value is not None
    assert narrow.tflops_per_gpu.value is not None
    assert narrow.mfu.value is None
    assert narrow.mfu.reason == Reason(NO_PEAK_FOR_PRECISION, {"gpu": "h200", "precision": "fp4"})
    assert (latent.tflops_per_gpu.value, latent.mfu.value) == (None, None)


@pytest.mark.parametrize(
    ("faster", "said", "status"), [(40, "None", "fail"), (40, "e2m1", "unknown"), (1, "e2m1", "pass")]
)
def test_a_narrower_format_may_be_above_the_peaks_we_have(
    cli: Any, make: Make, faster: float, said: str, status: str
) -> None:
    make("a", seeds=(1,), faster=faster, fp4=said)
    findings = cli("check", "runs/a/s1", "--json").document["findings"]
    assert next(one["status"] for one in findings if one["check"] == "peak_flops") == status


def test_routers_of_equal_experts_that_differ(cli: Any, make: Make) -> None:
    make("a", num_experts="8", moe_router_topk="2")
    make("b", num_experts="8", moe_router_topk="1")
    found = cli("compare", "a", "b", "--json")
    assert found.status == 4
    differ = [(*one["keys"], one["target"], one["baseline"]) for one in found.reasons("throughput", "setting_differs")]
    assert ("model.moe_router_topk", 2, 1) in differ


def test_experts_against_a_log_that_says_nothing_of_them_are_not_known(cli: Any, make: Make, tmp_path: Path) -> None:
    make("a", seeds=(1,), num_experts="8")
    make("b", seeds=(2,))
    silent = tmp_path / "runs/b/s2/run.json"
    silent.write_text(re.sub(r'"num_experts": \{[^}]*\},?', "", silent.read_text()))
    done = cli("compare", "runs/a/s1", "runs/b/s2", "--json")
    assert done.document["comparable"]["throughput"]["status"] == "unknown"
    unknown = next(one for one in done.reasons("throughput", "settings_unknown") if one["side"] == "baseline")
    assert (unknown["effect"], unknown["keys"]) == ("unknown", ["model.num_experts", "model.moe_router_topk"])
    assert unknown["message"] == "model.{num_experts, moe_router_topk} are not recorded for s2"


def test_a_schedule_that_ends_with_the_run_said_or_not(cli: Any, make: Make) -> None:
    make("a", lr_decay_iters=str(STEPS))
    make("b", lr_decay_iters="None")
    assert cli("compare", "a", "b", "--for", "convergence", "--json").document["convergence"]["status"] == "equivalent"


def test_rates_that_were_recorded_belie_what_is_declared(cli: Any, make: Make) -> None:
    make("a", rate=3e-4)
    make("b", rate=1.5e-4)
    found = cli("compare", "a", "b", "--for", "convergence", "--json")
    assert found.status == 4
    (apart,) = found.reasons("convergence", "learning_rates_differ")
    assert (apart["effect"], apart["target"], apart["baseline"]) == ("blocks", 3e-4, 1.5e-4)
    assert "at step 1 and 119 more" in apart["message"]


def test_samples_that_do_not_grow_by_the_batch_refuse_a_side_by_its_own_figures(cli: Any, make: Make) -> None:
    make("a", faster=2.0, consumed=8)
    make("b")
    words = "consumed samples grow by 8 per step, but the logged batch size is 16"
    judged = cli("check", "runs/a/s1", "--json")
    finding = next(one for one in judged.document["findings"] if one["check"] == "batch_identity")
    assert (judged.status, finding["code"], finding["message"]) == (1, "samples_differ", words)
    line = Path("runs/a/s1", finding["evidence"]["file"]).read_text().splitlines()[finding["evidence"]["line"] - 1]
    assert "consumed samples:           48 |" in line
    found = cli("compare", "a", "b", "--json")
    assert (found.status, found.document["throughput_speedup"]) == (4, None)
    failed = [one["message"] for one in found.reasons("throughput", "figures_contradict")]
    assert f"figures of a (s1) contradict each other (throughput_identity): {words}" in failed
    # the axis of tokens is not what it says
    assert found.document["comparable"]["convergence"]["status"] == "not_comparable"
    (denied,) = found.reasons("convergence", "samples_contradict")
    assert (denied["effect"], denied["side"]) == ("blocks", "target")


def test_a_batch_of_the_dump_that_no_step_has_is_told(cli: Any, make: Make) -> None:
    make("a", seeds=(1,), global_batch_size="32")
    make("b", seeds=(1,), global_batch_size="32", rampup_batch_size="['16', '16', '40000']")
    findings = {
        name: next(one for one in cli("check", f"runs/{name}/s1", "--json").document["findings"] if one["check"] == key)
        for name, key in (("a", "batch_identity"), ("b", "batch_identity"))
    }
    codes = (findings["a"]["code"], findings["b"]["code"])
    assert codes == ("batch_contradicts_settings", "step_tokens_match")


def test_what_a_log_states_is_no_default(cli: Any, make: Make) -> None:
    make("a", seeds=(1,), lr_decay_style="WSD")
    make("b", seeds=(1,))
    told = [one["message"] for one in cli("compare", "a", "b", "--json").document["diagnoses"]]
    assert not any("training.schedule is linear" in message for message in told)
    assert any("training.schedule" in message and "WSD" in message for message in told)


def real(name: str) -> str:
    return gzip.decompress((REAL.parent / f"{name}.log.gz").read_bytes()).decode()


def test_what_maxtext_states(cli: Any, tmp_path: Path) -> None:
    def stated(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
        (tmp_path / "train.log").write_text(text)
        made = json.loads((Path(cli("ingest", "train.log", "--json").document["run"]) / "run.json").read_text())
        return {key: one["value"] for key, one in made["ingested"]["said"].items()}, made["experiment"]

    dense, experiment = stated(real("maxtext_clean"))
    assert (dense["num_experts"], dense["hidden_dropout"], dense["optimizer"]) == (0, 0.0, "adam")
    assert experiment["precision"]["fp8"] is None
    assert "max_position_embeddings" not in experiment["model"]
    text = real("maxtext_moe")
    moe, _ = stated(text)
    assert (moe["num_experts"], moe["moe_router_topk"], moe["moe_ffn_hidden_size"]) == (4, 2, 384)
    off = text.replace("dropout_rate: 0.0", "dropout_rate: 0.1").replace(
        "enable_dropout: True", "enable_dropout: False"
    )
    assert stated(off)[0]["hidden_dropout"] == 0.0
    assert (moe["moe_shared_expert_intermediate_size"], moe["moe_expert_capacity_factor"]) == (0, 1.5)
    usual = {"attention_window": 0, "multi_latent_attention": False, "optimizer_cpu_offload": 0.0, "packing": True}
    formats = dict.fromkeys(("main_params_dtype", "exp_avg_dtype", "main_grads_dtype"), "fp32")
    assert {**usual, **formats}.items() <= dense.items()
    other = real("maxtext_clean")
    for was, now in (
        ("attention_type: global", "attention_type: local_sliding"),
        ("sliding_window_size: 0", "sliding_window_size: 64"),
        ("weight_dtype: float32", "weight_dtype: bfloat16"),
        ("mu_dtype: float32", "mu_dtype: bfloat16"),
        ("optimizer_memory_host_offload: False", "optimizer_memory_host_offload: True"),
        ("packing: True", "packing: False"),
    ):
        assert was in other
        other = other.replace(f"Config param {was}", f"Config param {now}")
    changed, experiment = stated(other)
    assert {
        "attention_window": 64,
        "main_params_dtype": "bf16",
        "exp_avg_dtype": "bf16",
        "optimizer_cpu_offload": 1.0,
        "packing": False,
    }.items() <= changed.items()
    assert experiment["model"]["attention_window"] == 64
    fp8 = text.replace(
        "Config param quantization: QuantizationType.NONE", "Config param quantization: QuantizationType.FP8"
    )
    assert fp8 != text
    assert stated(fp8)[1]["precision"]["fp8"] == "e4m3"


def test_tokens_that_are_not_trained_on_are_said_beside_the_ratio(cli: Any, tmp_path: Path) -> None:
    text = real("maxtext_clean")
    for name, weights in (("all", 1024), ("most", 1010), ("half", 512)):
        (tmp_path / f"{name}.log").write_text(text.replace("total_weights: 1024", f"total_weights: {weights}"))
        assert cli("ingest", f"{name}.log", "--name", name).status == 0
    findings = cli("check", "half", "--json").document["findings"]
    assert next(one["message"] for one in findings if one["check"] == "batch_identity") == (
        "every step has 1,024 tokens (global batch x sequence length); 50% of them count in the loss"
    )
    differ = cli("compare", "half", "all", "--json").reasons("throughput", "setting_differs")
    assert ("caveat", ["data.trained_share"], 0.5, 1.0) in [
        (one["effect"], one["keys"], one["target"], one["baseline"]) for one in differ
    ]
    assert "trained_share" not in str(cli("compare", "most", "all", "--json").document["comparable"])


def test_what_torchtitan_states_is_in_force_whatever_its_config_asked(cli: Any, tmp_path: Path) -> None:
    prefix = "[rank0]:[titan] 2026-01-20 10:00:{at:02d},074 - root - INFO - "
    figures = "loss: 8.2146  grad_norm:  1.2000  memory: 52.53GiB(66.33%)  tps: 7,034  tflops: 407.30  mfu: N/A"
    said = ("Float8 tensorwise scaled training active", "Applied full activation checkpointing to the model")
    lines = [prefix.format(at=0) + one for one in said]
    lines += [f"{prefix.format(at=at)}step: {at:2d}  {figures}" for at in range(1, 12)]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    cli("init", "tiny-llama")
    run = Path(cli("ingest", "train.log", "--config", "tiny-llama.yaml", "--json").document["run"])
    experiment = json.loads((run / "run.json").read_text())["experiment"]
    assert (experiment["precision"]["fp8"], experiment["training"]["recompute"]) == ("hybrid", "full")
    differing = [event.message for event in records.events(run) if event.kind == "config_differs"]
    assert len(differing) == 1
    assert differing[0].startswith("training.recompute is none in the config")


def test_a_foreign_log_that_does_not_state_its_dropout_is_no_plan_of_ours(
    make: Make, recorded: Any, tmp_path: Path
) -> None:
    make("a", seeds=(1,))
    silent = tmp_path / "runs/a/s1/run.json"
    silent.write_text(re.sub(r'"hidden_dropout": \{[^}]*\},?', "", silent.read_text()))
    subjects = [read_subject(records.load(path)) for path in (tmp_path / "runs/a/s1", recorded("baseline").directory)]
    sides = side("target", (subjects[0],)), side("baseline", (subjects[1],))
    dropout = LeftOpen("training.hidden_dropout", (0.1, 0.0), ("megatron", "native"))
    assert unstated_differences(Pair(*sides, contract(*sides))) == [dropout]


def test_numbers_are_one_but_for_their_last_digits(cli: Any, recorded: Any) -> None:
    recorded("again").set("experiment/training/min_learning_rate", 3e-5)
    recorded("baseline").set("experiment/training/min_learning_rate", 3e-4 * 0.1)
    found = cli("compare", "again", "baseline", "--json").document["contract"]
    assert next(one["status"] for one in found if one["key"] == "min_learning_rate") == "equal"


def test_seeds_of_a_framework_that_has_one_are_free_against_any(cli: Any, make: Make, recorded: Any) -> None:
    for seed in (1, 2):
        make(f"a{seed}", seeds=(seed,))
        found = cli("compare", f"runs/a{seed}/s{seed}", recorded("baseline", f"b{seed}"), "--json").document["contract"]
        order = next(one for one in found if (one["group"], one["key"]) == ("data", "seed"))
        assert order["status"] == "equal" or not order["governs"]


def rates_of(run: Any, rate: Callable[[int], float]) -> Any:
    return run.edit_steps(lambda step: {**step, "learning_rate": rate(step["step"])})


def warm(step: int) -> float:
    return 3e-4 * min(1.0, step / 20)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_every_run_of_a_side_is_held_to_its_recorded_rates(cli: Any, recorded: Any, order: tuple[int, ...]) -> None:
    for at in range(3):
        rates_of(recorded("again", f"t{at}").slower(1 + at / 1000), lambda step, at=at: warm(step) * (10 if at else 1))
        rates_of(recorded("baseline", f"b{at}").slower(1 + at / 1000), warm)
    names = ",".join(f"t{at}" for at in order)
    done = cli("compare", names, "b0,b1,b2", "--for", "convergence", "--json")
    assert done.status == 4
    assert done.reasons("convergence", "learning_rates_differ")


@pytest.mark.parametrize(
    "printed",
    [lambda step: warm(step + 1), lambda step: round(warm(step), 4), lambda step: 0.99 * warm(step)],
    ids=["a step later", "four decimals", "three digits"],
)
def test_how_rates_are_printed_is_no_other_schedule(cli: Any, recorded: Any, printed: Callable[[int], float]) -> None:
    rates_of(recorded("again"), printed)
    rates_of(recorded("baseline"), warm)
    assert not cli("compare", "again", "baseline", "--json").reasons("convergence", "learning_rates_differ")


def test_rates_stand_still_where_steps_are_skipped(cli: Any, recorded: Any) -> None:
    rates_of(recorded("again"), lambda step: warm(max(step - 15, 0))).edit_steps(
        lambda step: {**step, "skipped": int(step["step"] <= 15)}
    )
    rates_of(recorded("baseline"), warm)
    assert not cli("compare", "again", "baseline", "--json").reasons("convergence", "learning_rates_differ")


def test_memory_that_was_read_before_the_first_step_is_no_peak(cli: Any, recorded: Any) -> None:
    for name in ("again", "baseline"):
        recorded(name).without_telemetry().edit_steps(lambda step: {**step, "memory_kind": "xla_in_use"})
    done = cli("compare", "again", "baseline", "--for", "memory", "--json")
    assert (done.status, done.document["memory_usage_efficiency"]) == (5, None)


def test_torchtitan_prints_the_loss_of_a_step_and_no_mean(recorded: Any) -> None:
    run = (
        recorded("again")
        .set("framework", "torchtitan")
        .edit_steps(lambda step: {**step, "steps_covered": 10} if step["step"] % 10 == 0 else None)
    )
    curve = loss_curves([[read_subject(records.load(run.directory))]])[0][0]
    assert set(curve.covered) == {1}
    assert curve.seen[0] / 16384 == curve.step[0] == 10


def test_a_run_of_ours_is_compared_with_a_log_of_unknown_architecture(cli: Any, tmp_path: Path) -> None:
    """An architecture implies its position encoding; a log without one has its framework's default."""
    runs = Path(__file__).parents[1] / "fixtures" / "version_0_1"
    log = tmp_path / "train.log"
    log.write_text(gzip.decompress(REAL.read_bytes()).decode().partition("end of arguments ---------------------")[2])
    assert cli("ingest", log, "--framework", "megatron", "--name", "plain").status == 0
    target, baseline = (read_subject(records.load(run)) for run in (runs / "native", "runs/plain"))
    sides = side("target", (target,)), side("baseline", (baseline,))
    assert baseline.value("model.architecture") is None
    encodings = [
        open_ for open_ in unstated_differences(Pair(*sides, contract(*sides), None)) if "position" in open_.key
    ]
    assert [(open_.values, open_.frameworks) for open_ in encodings] == [
        (("rotary", "learned"), ("native", "megatron")),
    ]
    assert cli("compare", runs / "native", "runs/plain", "--json").status == 4  # too few steps


def test_a_key_of_an_experiment_is_not_also_a_key_of_logs_alone() -> None:
    assert not KEYS.keys() & STATED.keys()
