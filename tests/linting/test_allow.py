"""Lint codes that a user allows: what they reach, who is recorded for them, and which cannot be allowed."""

import json
from pathlib import Path
from typing import Any

import pytest

import steelyard
from seeds import filled, original
from steelyard import execute
from steelyard.errors import InputError
from steelyard.experiment.problems import PLACEHOLDER, SECRET, UNREADABLE
from steelyard.records import load

MEGATRON_35 = "mi35x_megatron_llama_single.json"
ONE = {"model": "llama3_1_70b", "gpu": "mi350"}
WORDS = ("--model", "llama3_1_70b", "--gpu", "mi350")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config with a precision that the launch script does not support."""
    path = tmp_path / MEGATRON_35
    path.write_text(json.dumps(filled(original(MEGATRON_35), 1)))
    return path


def test_an_allowed_code_stops_neither_lint_nor_plan_and_names_who_allows_it(cli: Any, config: Path) -> None:
    assert cli("lint", config, *WORDS).status == 2
    assert cli("plan", config, *WORDS).status == 2
    linted = cli("lint", config, *WORDS, "--allow", "SY403", "--json")
    assert linted.status == 0
    assert {problem["code"]: problem["allowed"] for problem in linted.document["problems"]}["SY403"] is True
    planned = cli("plan", config, *WORDS, "--allow", "SY503,SY403", "--json")
    assert planned.status == 0
    (allowed,) = planned.document["allowed"]
    assert (allowed["code"], allowed["by"]) == ("SY403", "--allow")
    assert allowed["pointer"] == "/model_params/single_node/llama3_1_70b/mi350/precision"


def test_the_run_and_its_report_name_what_was_allowed(config: Path, tmp_path: Path) -> None:
    planned = steelyard.plan(config, **ONE, allow=["SY403"])
    writer = execute.new_run(planned, tmp_path / "runs", "allowed", ["steelyard"])
    writer.finish("interrupted", None, None)
    recorded = json.loads((writer.directory / "run.json").read_text())["allowed"]
    assert [(problem["code"], problem["by"]) for problem in recorded] == [("SY403", "--allow")]
    assert [problem.code for problem in load(writer.directory).manifest.allowed] == ["SY403"]
    (page,) = steelyard.report(writer.directory, to="md")
    assert "SY403" in page.read_text()


@pytest.mark.parametrize(
    "code", [UNREADABLE, "SY103", "SY104", PLACEHOLDER, SECRET, "SY123", "SY201", "SY203", "SY301"]
)
def test_a_code_that_leaves_nothing_to_run_or_hands_over_the_run_cannot_be_allowed(
    cli: Any, config: Path, code: str
) -> None:
    for verb in ("lint", "plan", "run"):
        refused = cli(verb, config, *WORDS, "--allow", f"SY403,{code}", "--json")
        assert refused.status == 2
        error = refused.document["error"]
        assert (error["key"], error["value"]) == ("--allow", code)
        assert "SY403" in error["next"]


def test_an_unknown_code_is_refused_by_the_api_too(config: Path) -> None:
    with pytest.raises(InputError) as refused:
        steelyard.lint(config, allow="SY999")
    assert refused.value.key == "--allow"


def test_an_allowed_code_does_not_hide_another(cli: Any, config: Path) -> None:
    refused = cli("plan", config, *WORDS, "--allow", "SY503", "--json")
    assert refused.status == 2
    assert refused.document["error"]["key"].endswith("precision")


def test_a_warning_that_is_allowed_is_recorded_too(cli: Any, config: Path) -> None:
    content = json.loads(config.read_text())
    content["config"]["container_config"]["env_dict"] = {"NCCL_P2P_DISABLE": "1"}
    config.write_text(json.dumps(content))
    planned = cli("plan", config, *WORDS, "--allow", "SY403,SY604", "--json")
    assert sorted(problem["code"] for problem in planned.document["allowed"]) == ["SY403", "SY604"]
    assert "warning: SY604" not in planned.err
