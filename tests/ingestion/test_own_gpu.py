"""A GPU of the user's own: its peak and memory by options or gpus.yaml, recorded and used by every later verb."""

import gzip
import json
import re
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import steelyard
from steelyard.errors import InputError
from steelyard.experiment import packaged

REAL = Path(__file__).parents[1] / "frameworks" / "logs" / "real" / "megatron_clean_int1.log.gz"
Cli = Callable[..., Any]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def log(tmp_path: Path, faster: float = 1.0) -> Path:
    """A real Megatron log, or the same with steps and timestamps that many times faster."""
    text = gzip.decompress(REAL.read_bytes()).decode()
    for label, factor in (
        ("elapsed time per iteration (ms)", 1 / faster),
        ("throughput per GPU (TFLOP/s/GPU)", faster),
    ):
        pattern = rf"({re.escape(label)}: )([0-9.]+)"
        text = re.sub(pattern, lambda found, factor=factor: f"{found[1]}{float(found[2]) * factor:.1f}", text)
    moments = re.findall(r"(?m)^ \[(\S+ \S+)\] iteration", text)
    began = datetime.fromisoformat(moments[0])
    for moment in moments:
        passed = (datetime.fromisoformat(moment) - began) / faster
        text = text.replace(moment, str(began + passed))
    path = tmp_path / "train.log"
    path.write_text(text)
    return path


def ingested(cli: Cli, *words: object) -> Path:
    done = cli("ingest", *words, "--json")
    assert done.status == 0, done.out
    return Path(done.document["run"])


def platform(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "run.json").read_text())["platform"]
    return found


def finding(cli: Cli, run: Path, check: str = "peak_flops", *words: str) -> dict[str, Any]:
    document = cli("check", run, *words, "--json").document
    return next(one for one in document["findings"] if one["check"] == check)


def test_a_stated_peak_and_memory_are_recorded_and_judge_the_run(cli: Cli, tmp_path: Path) -> None:
    run = ingested(cli, log(tmp_path), "--gpu-peak", "bf16=209,fp8=418", "--gpu-memory", "32")
    assert platform(run)["peaks_tflops"] == {"bf16": 209.0, "fp8": 418.0}
    assert (platform(run)["peaks_by"], platform(run)["memory_by"]) == ("--gpu-peak", "--gpu-memory")
    assert (platform(run)["memory_gib"], platform(run)["peak_tflops_per_gpu"]) == (32.0, 209.0)
    peak = finding(cli, run)
    assert (peak["code"], peak["status"], peak["expected"]) == ("within_peak", "pass", "<= 209.0")
    assert "--gpu-peak" in peak["message"]
    assert finding(cli, run, "memory_capacity")["expected"] == "<= 32.0"
    assert cli("check", run, "--json").document["figures"]["mfu"] == pytest.approx(peak["observed"] / 209)


def test_a_rate_above_the_stated_peak_and_memory_above_the_stated_size_fail(cli: Cli, tmp_path: Path) -> None:
    run = ingested(cli, log(tmp_path), "--gpu-peak", "bf16=80", "--gpu-memory", "16")
    assert (finding(cli, run)["code"], finding(cli, run)["status"]) == ("above_peak", "fail")
    assert finding(cli, run, "memory_capacity")["code"] == "above_capacity"


def test_the_options_may_be_repeated_and_the_api_takes_a_mapping(cli: Cli, tmp_path: Path) -> None:
    path = log(tmp_path)
    run = ingested(cli, path, "--gpu-peak", "bf16=209", "--gpu-peak", "FP8=418")
    assert platform(run)["peaks_tflops"] == {"bf16": 209.0, "fp8": 418.0}
    made = steelyard.ingest(path, gpu="RTX 6000 Ada", gpu_peak={"bf16": 364.25}, gpu_memory=47.4)
    assert made.manifest.platform.peaks_tflops == {"bf16": 364.25}
    assert steelyard.check(made).status == "pass"


@pytest.mark.parametrize(
    ("options", "key", "next_step"),
    [
        (("--gpu-peak", "bf16=-3"), "--gpu-peak", "--gpu-peak bf16=209"),
        (("--gpu-peak", "bf16=0"), "--gpu-peak", "--gpu-peak bf16=209"),
        (("--gpu-peak", "bf16=nan"), "--gpu-peak", "--gpu-peak bf16=209"),
        (("--gpu-peak", "bf16=209e12"), "--gpu-peak", "--gpu-peak bf16=209"),
        (("--gpu-peak", "bf16=0.209"), "--gpu-peak", "--gpu-peak bf16=209"),
        (("--gpu-peak", "bf16=fast"), "--gpu-peak", "--gpu-peak bf16=209"),
        (("--gpu-peak", "bf61=209"), "--gpu-peak", "--gpu-peak bf16=209"),
        (("--gpu-peak", "209"), "--gpu-peak", None),
        (("--gpu-peak", "bf16=209,bf16=210"), "--gpu-peak", "--gpu-peak bf16=210"),
        (("--gpu", "h100", "--gpu-peak", "bf16=1979"), "--gpu-peak", "--gpu-peak bf16=989.4"),
        (("--gpu-memory", "-1"), "--gpu-memory", "--gpu-memory 80"),
        (("--gpu-memory", "inf"), "--gpu-memory", "--gpu-memory 80"),
        (("--gpu", "mi300"), "--gpu", "--gpu mi300x"),
    ],
)
def test_a_wrong_figure_is_one_error_with_the_next_step(
    cli: Cli, tmp_path: Path, options: tuple[str, ...], key: str, next_step: str | None
) -> None:
    done = cli("ingest", log(tmp_path), *options, "--json")
    assert done.status == 2
    error = done.document["error"]
    assert error["key"] == key
    assert error["next"] == next_step if next_step else error["next"].startswith(key)
    assert not Path("runs").exists() or not list(Path("runs").iterdir())


def test_a_listed_gpu_takes_the_peak_of_another_variant_as_the_user_s_own_figure(cli: Cli, tmp_path: Path) -> None:
    run = ingested(cli, log(tmp_path), "--gpu", "h100", "--gpu-peak", "bf16=756")
    assert (platform(run)["gpu"], platform(run)["peaks_tflops"]) == ("h100", {"bf16": 756.0})
    assert platform(run)["memory_by"] == "catalog"
    assert finding(cli, run)["expected"] == "<= 756.0"


def test_a_faster_format_without_a_stated_peak_is_unknown_not_failed(cli: Cli, tmp_path: Path) -> None:
    run = ingested(cli, log(tmp_path), "--gpu-peak", "bf16=80")
    manifest = json.loads((run / "run.json").read_text())
    manifest["experiment"]["precision"]["fp8"] = "hybrid"
    (run / "run.json").write_text(json.dumps(manifest))
    found = finding(cli, run)
    assert (found["code"], found["status"]) == ("peak_unknown", "unknown")
    assert "--gpu-peak fp8=TFLOPS" in found["message"]


def test_an_unlisted_gpu_is_recorded_and_its_peak_unknown_until_it_is_stated(cli: Cli, tmp_path: Path) -> None:
    done = cli("ingest", log(tmp_path), "--gpu", "RTX 6000 Ada", "--name", "ada")
    assert done.status == 0
    assert "--gpu-peak bf16=TFLOPS" in done.out
    run = Path("runs/ada")
    found = finding(cli, run)
    assert (found["code"], found["status"]) == ("peak_of_gpu_unknown", "unknown")
    assert "steelyard check runs/ada --gpu-peak bf16=TFLOPS" in found["message"]
    assert cli("check", run).status == 5
    assert finding(cli, run, "peak_flops", "--gpu-peak", "bf16=364.25")["status"] == "pass"
    assert platform(run)["peaks_tflops"] == {"bf16": 364.25}
    assert cli("check", run).status == 0  # it is recorded


def test_a_run_without_a_gpu_is_named_by_check_and_by_its_own_message(cli: Cli, tmp_path: Path) -> None:
    run = ingested(cli, log(tmp_path))
    found = finding(cli, run)
    assert (found["code"], found["status"], found["required"]) == ("rate_of_unnamed_gpu", "unknown", True)
    assert f"steelyard check {run} --gpu NAME" in found["message"]
    assert cli("check", run, "--json").status == 5
    assert cli("check", run, "--gpu", "h200", "--json").status == 0
    assert (platform(run)["gpu"], platform(run)["gpu_by"]) == ("h200", "check --gpu")
    assert cli("check", run, "--json").status == 0
    refused = cli("check", run, "--gpu", "mi300x", "--json")
    assert (refused.status, refused.document["error"]["key"]) == (2, "--gpu")
    assert platform(run)["gpu"] == "h200"


def test_an_impossible_rate_is_unknown_without_a_gpu_and_fails_with_it(cli: Cli, tmp_path: Path) -> None:
    run = ingested(cli, log(tmp_path, faster=20))
    assert (finding(cli, run)["status"], cli("check", run).status) == ("unknown", 5)
    assert finding(cli, run, "peak_flops", "--gpu", "h200")["status"] == "fail"


def test_a_moved_run_is_judged_with_the_recorded_figures(cli: Cli, tmp_path: Path) -> None:
    Path("gpus.yaml").write_text("rtx6000ada: {bf16: 364.25, memory_gib: 47.4}\n")
    run = ingested(cli, log(tmp_path), "--gpu", "RTX6000Ada")
    here = cli("check", run, "--json").document
    Path("gpus.yaml").unlink()
    moved = shutil.move(run, tmp_path / "elsewhere")
    there = cli("check", moved, "--json").document
    assert there["figures"] == here["figures"]
    assert [one["status"] for one in there["findings"]] == [one["status"] for one in here["findings"]]


def test_gpus_yaml_describes_a_gpu_that_the_log_names(cli: Cli, tmp_path: Path) -> None:
    Path("gpus.yaml").write_text(
        "rtx6000ada:\n  bf16: 364.25\n  fp8: 728.5\n  memory_gib: 47.4\n  aliases: [NVIDIA RTX 6000 Ada Generation]\n"
    )
    run = ingested(cli, log(tmp_path), "--gpu", "NVIDIA RTX 6000 Ada Generation")
    assert platform(run)["peaks_tflops"] == {"bf16": 364.25, "fp8": 728.5}
    assert (platform(run)["peaks_by"], platform(run)["memory_by"]) == ("gpus.yaml", "gpus.yaml")
    assert platform(run)["memory_gib"] == 47.4
    by_option = ingested(cli, tmp_path / "train.log", "--gpu", "rtx6000ada", "--gpu-peak", "bf16=300")
    assert platform(by_option)["peaks_tflops"] == {"bf16": 300.0}
    assert platform(by_option)["memory_by"] == "gpus.yaml"


def test_gpus_yaml_lies_next_to_the_config_or_here(cli: Cli, tmp_path: Path) -> None:
    Path("configs").mkdir()
    Path("configs/gpus.yaml").write_text("mine: {bf16: 200}\n")
    Path("gpus.yaml").write_text("mine: {bf16: 100}\nother: {bf16: 300}\n")
    Path("configs/tiny.yaml").write_text(packaged.text("tiny-llama"))
    path = log(tmp_path)
    config = ("--config", "configs/tiny.yaml", "--gpus", "1")
    run = ingested(cli, path, "--gpu", "mine", *config)
    assert platform(run)["peaks_tflops"] == {"bf16": 200.0}
    assert platform(ingested(cli, path, "--gpu", "other", *config))["peaks_tflops"] == {"bf16": 300.0}
    assert platform(ingested(cli, path, "--gpu", "mine"))["peaks_tflops"] == {"bf16": 100.0}


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("mine: {bf61: 200}", "mine.bf61"),
        ("mine: {bf16: fast}", "mine.bf16"),
        ("mine: {bf16: -1}", "mine.bf16"),
        ("mine: {memory_gib: 0}", "mine.memory_gib"),
        ("mine: {}", "mine"),
        ("mine: 209", "mine"),
        ("mine: {bf16: 209, aliases: x}", "mine.aliases"),
        ("mine: {bf16: 209, aliases: [yours]}\nyours: {bf16: 100}", "yours"),
        ("h100: {bf16: 1979}", "bf16"),
        ("- mine", None),
        ("mine: [", None),
    ],
)
def test_a_wrong_gpus_yaml_is_one_error_that_names_the_key(
    cli: Cli, tmp_path: Path, content: str, key: str | None
) -> None:
    Path("gpus.yaml").write_text(content + "\n")
    done = cli("ingest", log(tmp_path), "--gpu", "h100", "--json")
    error = done.document["error"]
    assert (done.status, error["key"]) == (2, key)
    assert error["next"]
    assert "gpus.yaml" in error["message"]


def test_a_reports_provenance_names_who_stated_the_figures(cli: Cli, tmp_path: Path) -> None:
    run = ingested(cli, log(tmp_path), "--gpu", "RTX 6000 Ada", "--gpu-peak", "bf16=364.25", "--gpu-memory", "47.4")
    assert cli("check", run).status == 0
    assert cli("report", run, "--to", "md", "-o", "report.md").status == 0
    text = Path("report.md").read_text()
    assert "bf16 364.25 TFLOP/s (--gpu-peak)" in text
    assert "47.4 GiB (--gpu-memory)" in text
    assert "RTX 6000 Ada (by --gpu)" in text


def test_own_gpus_have_a_flops_ratio(cli: Cli, tmp_path: Path) -> None:
    path = log(tmp_path)
    runs = [ingested(cli, path, "--gpu-peak", f"bf16={peak}", "--name", f"peak{peak}") for peak in (200, 400)]
    done = cli("compare", *runs, "--for", "flops", "--json").document
    assert done["comparable"]["flops"]["status"] in ("comparable", "qualified", "not_comparable")
    with pytest.raises(InputError):
        steelyard.check(runs[0], gpu="cpu2", gpu_peak="bf16=x")


def test_a_name_that_leaves_the_variant_open_takes_that_of_the_log(cli: Cli, tmp_path: Path) -> None:
    titan = Path(__file__).parents[1] / "traps" / "torchtitan" / "clean-v0.2.2-five-decimals.log"
    text = re.sub(r"capacity: .* with [0-9.]+GiB", "capacity: NVIDIA GH200 120GB with 94.50GiB", titan.read_text())
    Path("titan.log").write_text(text)
    assert "NVIDIA GH200 120GB" in text
    run = ingested(cli, "titan.log", "--gpu", "gh200")
    assert (platform(run)["gpu"], platform(run)["memory_gib"]) == ("gh200-96gb", 95.58)


def test_a_name_that_several_variants_print_is_unknown_and_its_usual_meaning_is_offered(
    cli: Cli, tmp_path: Path
) -> None:
    run = ingested(cli, log(tmp_path), "--gpu-memory", "95.04")
    manifest = json.loads((run / "run.json").read_text())
    manifest["platform"]["gpu_name"] = "NVIDIA H100"
    (run / "run.json").write_text(json.dumps(manifest))
    assert "(or --gpu h100, if it is one)" in finding(cli, run)["message"]
    assert finding(cli, run, "peak_flops", "--gpu", "h100")["expected"] == "<= 989.4"
    assert platform(run)["memory_by"] == "--gpu-memory"  # stated before, and kept


@pytest.mark.parametrize(("reserved", "bound"), [(90.0, "<= 95.58"), (100.0, "<= 142.5"), (150.0, "<= 142.5")])
def test_memory_is_judged_by_the_smallest_variant_that_holds_it(
    cli: Cli, tmp_path: Path, reserved: float, bound: str
) -> None:
    path = log(tmp_path)
    steps = path.read_text().splitlines()
    printed = f"[Rank 0] (after 1 iterations) memory (MB) | allocated: 1.00 | max reserved: {1024 * reserved:.2f}"
    path.write_text("\n".join([steps[0], printed, *steps[1:]]) + "\n")
    judged = finding(cli, ingested(cli, path, "--gpu", "gh200"), "memory_capacity")
    assert (judged["expected"], judged["status"]) == (bound, "pass" if reserved < 142 else "fail")
