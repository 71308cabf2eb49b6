"""Problems for programs, and codes for people."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.accounting.steady import MARKS
from steelyard.cli.explain import reason_codes
from steelyard.comparison.diagnoses import DIAGNOSES
from steelyard.comparison.tiers import TIERS
from steelyard.configs.meanings import every_name
from steelyard.linting.explain import explanations
from steelyard.verdict import CHECKS

BAD = """schema_version: 1
name: bad
model: {preset: tiny-llama}
training:
  micro_batch_size: 2
  global_batch_size: 3
  sequence_length: 64
  steps: 10
  learning_rate: 1e-3
  warmup_steps: 10
data: {source: counting}
"""


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "a,b:c.yaml"
    path.write_text(BAD)
    return path


def test_text_names_file_line_code_and_fix(cli: Any, bad: Path) -> None:
    told = cli("lint", bad, "--gpu", "cpu")
    assert told.status == 2
    *warning, first, fix, counts, way_on = told.out.splitlines()
    assert warning[0].startswith(f"{bad}:10: SY206 warning: ")
    assert first.startswith(f"{bad}:6: SY203 error: training.global_batch_size is 3, expected a multiple of 2")
    assert fix == "    fix: --set training.global_batch_size=4"
    assert (counts, way_on) == ("1 error, 1 warning", "next: steelyard explain SY203")
    for quiet in ("-q", "--quiet"):
        assert cli("lint", bad, "--gpu", "cpu", quiet).out == "1 error, 1 warning\n"


def test_severities_are_colored_on_request(cli: Any, bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = cli("lint", bad, "--gpu", "cpu").out
    assert f"\x1b[1;31m{bad}:6: SY203 error: \x1b[0m" in shown
    assert f"\x1b[33m{bad}:10: SY206 warning: \x1b[0m" in shown
    assert "\x1b[1;31m1 error, 1 warning\x1b[0m" in shown


def test_sarif_has_rules_places_and_levels(cli: Any, bad: Path) -> None:
    told = cli("lint", bad, "--gpu", "cpu", "--sarif")
    assert told.status == 2
    (run,) = told.document["runs"]
    assert told.document["version"] == "2.1.0"
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["SY203", "SY206"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"].endswith("a%2Cb%3Ac.yaml")
    assert [(result["level"], result["locations"][0]["physicalLocation"]["region"]) for result in run["results"]] == [
        ("error", {"startLine": 6}),
        ("warning", {"startLine": 10}),
    ]
    assert run["results"][0]["locations"][0]["logicalLocations"] == [
        {"fullyQualifiedName": "/training/global_batch_size"}
    ]


def test_github_annotations_are_one_line_each_and_escaped(cli: Any, bad: Path) -> None:
    told = cli("lint", bad, "--gpu", "cpu", "--github")
    assert told.status == 2
    error, warning = told.out.splitlines()
    assert error.startswith("::error file=")
    assert "a%2Cb%3Ac.yaml,line=6,title=SY203::training.global" in error
    assert warning.startswith("::warning file=")


@pytest.mark.parametrize("code", explanations())
def test_explain_prints_what_the_page_has(cli: Any, code: str) -> None:
    told = cli("explain", code.lower())
    assert told.status == 0
    found = explanations()[code]
    page = (Path(__file__).parents[2] / "docs" / "reference" / "lint.md").read_text()
    for text in (found.meaning, found.why, found.fix):
        assert text in told.out
        assert text in page
    assert cli("explain", code, "--json").document["code"] == code


def test_explain_says_what_each_framework_calls_a_parameter(cli: Any) -> None:
    told = cli("explain", "adam_beta2").out
    assert "training.adam_beta2 in an experiment file" in told
    assert "--adam-beta2; default: 0.999" in told
    assert "optim.config.adam_beta2; default: 0.95" in told
    assert "in a Megatron config" in cli("explain", "fsdp").out
    (meaning,) = cli("explain", "training_steps", "--json").document["meanings"]
    assert meaning["reads"] == "training.steps"


def test_explain_prints_what_a_reason_code_means(cli: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "codes.md").read_text()
    keys = {name for key in every_name() for name in (key, key.rpartition(".")[2])}
    codes = [(stage, *entry) for stage, of_stage in reason_codes().items() for entry in of_stage.items()]
    names = [code.name for _, code, _ in codes]
    assert len(set(names)) == len(names)
    assert keys & set(names) <= set(DIAGNOSES), "a name means one thing to explain, but for the key of a diagnosis"
    for _, code, meaning in codes:
        assert f"| `{code.name}` | {meaning} |" in page
    stage, code, meaning = codes[0]
    assert cli("explain", code.name).out == f"{code.name} (reason code of {stage})\n  {meaning}\n"
    assert cli("explain", code.name, "--json").document == {
        "code": code.name,
        "stage": stage,
        "meaning": meaning,
    }
    told = cli("explain", "learning_rate").out
    assert told.startswith("learning_rate (reason code of diagnosis)\n")
    assert "training.learning_rate in an experiment file" in told
    assert "first_loss_off" in cli("explain", "first_loss_of", "--json").document["error"]["expected"]


def test_explain_of_nothing_names_the_nearest(cli: Any) -> None:
    refused = cli("explain", "adam_bta2", "--json")
    assert refused.status == 2
    assert "adam_b2" in refused.document["error"]["expected"]


def test_a_key_in_two_families_is_explained_for_both(cli: Any) -> None:
    (meaning,) = cli("explain", "nnodes", "--json").document["meanings"]
    assert meaning["where"] == "a Megatron config and a JAX config"


def test_json_keeps_the_keys_of_the_interface(cli: Any, bad: Path) -> None:
    problems = json.loads(cli("lint", bad, "--gpu", "cpu", "--json").out)["problems"]
    for problem in problems:
        assert {"code", "severity", "file", "pointer", "message", "fix"} <= set(problem)


@pytest.mark.processes
def test_linting_everything_imports_no_torch(tmp_path: Path) -> None:
    from steelyard.experiment import packaged

    files = []
    for name in packaged.DESCRIPTIONS:
        path = tmp_path / packaged.file_name(name)
        path.write_text(packaged.text(name))
        files.append(str(path))
    probe = (
        "import sys; from steelyard.cli.main import _status; status = _status(['lint', '--json', *sys.argv[1:]]);"
        "print(status, *sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'scipy', 'polars', 'jax'}))"
    )
    done = subprocess.run([sys.executable, "-c", probe, *files], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "2"


def test_explain_knows_the_names_that_check_prints(cli: Any) -> None:
    for name in (*CHECKS, *TIERS, *MARKS, "warm-up"):
        assert cli("explain", name).status == 0, name
    told = cli("explain", "first_loss").out
    assert told.startswith("first_loss (check of a run)\n  The first loss is that of an untrained model")
    assert "  first_loss_off: The first loss differs" in told
    assert cli("explain", "artefact").out.startswith("artefact (steps left out of rates)\n")
    document = cli("explain", "stall", "--json").document
    assert (document["word"], document["kind"]) == ("stall", "check of a run")
    assert document["codes"]
