"""`steelyard diff A B` and `plan --platform a,b`: two sides next to each other before anything runs."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seeds import FILLED
from steelyard.experiment import packaged

Cli = Callable[..., Any]
Rows = dict[str, dict[str, Any]]

FIXTURES = Path(__file__).parents[1] / "fixtures" / "version_0_1"
FILE = """
schema_version: 1
name: x
model: {preset: llama3.1-8b}
training: {micro_batch_size: 2, global_batch_size: 64, sequence_length: 2048, steps: 30, learning_rate: 1e-4}
data: {source: counting}
platforms:
  one: {gpu: h200, nodes: 1, gpus_per_node: 8, framework: megatron}
  two: {gpu: mi300x, nodes: 1, gpus_per_node: 8, framework: primus}
  slower: {gpu: h200, nodes: 1, gpus_per_node: 8, framework: megatron, overrides: {training: {learning_rate: 5e-5}}}
  smaller: {gpu: h200, nodes: 1, gpus_per_node: 8, framework: megatron, overrides: {training: {micro_batch_size: 1}}}
  other: {gpu: mi300x, nodes: 1, gpus_per_node: 8, framework: primus, overrides: {training: {global_batch_size: 128}}}
"""


@pytest.fixture
def file() -> Path:
    path = Path("x.yaml")
    path.write_text(FILE)
    return path


def rows_of(document: dict[str, Any]) -> Rows:
    return {f"{row['group']}.{row['key']}": row for row in document["rows"]}


def brief(row: dict[str, Any]) -> tuple[str, str]:
    return row["class"], row["status"]


def test_two_platforms_of_one_experiment_are_comparable(cli: Cli, file: Path) -> None:
    done = cli("plan", file, "--platform", "one,two", "--json")
    assert done.status == 0
    rows = rows_of(done.document)
    assert brief(rows["training.global_batch_size"]) == ("must_match", "equal")
    assert brief(rows["platform.framework"]) == ("free", "different")
    assert (rows["platform.gpu"]["target"], rows["platform.gpu"]["baseline"]) == ("h200", "mi300x")
    assert (done.document["target"], done.document["baseline"]) == ("one", "two")
    assert done.document["plans"]["baseline"]["framework"] == "primus"


def test_each_framework_s_own_name_stands_next_to_a_key(cli: Cli, file: Path) -> None:
    rows = rows_of(cli("plan", file, "--platform", "one,two", "--json").document)
    batch, seed = rows["training.global_batch_size"], rows["model.preset"]
    assert (batch["target_name"], batch["baseline_name"]) == ("--global-batch-size", "global_batch_size")
    assert (seed["target_name"], seed["baseline_name"]) == (None, "model")
    shown = cli("plan", file, "--platform", "one,other").out
    assert "--global-batch-size" in shown


def test_a_difference_that_must_not_be_exits_with_4_and_comes_first(cli: Cli, file: Path) -> None:
    done = cli("plan", file, "--platform", "one,other", "--json")
    assert done.status == 4
    first = done.document["rows"][:2]
    assert {row["key"] for row in first} == {"tokens_per_step", "global_batch_size"}
    assert {brief(row) for row in first} == {("must_match", "different")}
    assert [(row["target"], row["baseline"]) for row in first if row["key"] == "global_batch_size"] == [(64, 128)]
    assert cli("diff", file, file, "--platform", "one,other").status == 4


@pytest.mark.parametrize(
    ("platforms", "options", "key", "demand", "status"),
    [
        ("one,slower", (), "training.learning_rate", "free", 0),
        ("one,slower", ("--for", "convergence"), "training.learning_rate", "must_match", 4),
        ("one,slower", ("--for", "throughput,convergence"), "training.learning_rate", "must_match", 4),
        ("one,smaller", (), "training.micro_batch_size", "caveat", 0),
        ("one,smaller", ("--mode", "matched"), "training.micro_batch_size", "must_match", 4),
    ],
)
def test_the_asked_metrics_and_the_mode_decide(
    cli: Cli, file: Path, platforms: str, options: tuple[str, ...], key: str, demand: str, status: int
) -> None:
    done = cli("diff", file, file, "--platform", platforms, *options, "--json")
    assert (done.status, brief(rows_of(done.document)[key])) == (status, (demand, "different"))


def test_equal_settings_are_counted_and_listed_on_request(cli: Cli, file: Path) -> None:
    short, long = (cli("diff", file, file, "--platform", "one,two", *more).out for more in ((), ("-v",)))
    assert "training.sequence_length" not in short
    assert "training.sequence_length" in long


def test_what_another_metric_would_refuse_is_named(cli: Cli, file: Path) -> None:
    assert "--for convergence" in cli("diff", file, file, "--platform", "one,slower").out
    assert "--for convergence" not in cli("diff", file, file, "--platform", "one,two").out


def test_runs_are_compared_by_the_contract_of_compare(cli: Cli) -> None:
    runs = Path(shutil.copytree(FIXTURES, "runs"))
    for target, baseline in (("native", "hosts"), ("native", "ingested")):
        sides = (runs / target, runs / baseline)
        rows = rows_of(cli("diff", *sides, "--for", "throughput", "--json").document)
        compared = cli("compare", *sides, "--json").document
        contract = {f"{clause['group']}.{clause['key']}": clause for clause in compared["contract"]}
        assert rows.keys() == contract.keys()
        assert {key: row["status"] for key, row in rows.items()} == {
            key: clause["status"] for key, clause in contract.items()
        }
        blocking = {
            key for reason in compared["comparable"]["throughput"]["reasons"]
            if (reason["code"], reason["effect"]) == ("setting_differs", "blocks") for key in reason["keys"]
        }  # fmt: skip
        assert {key for key, row in rows.items() if brief(row) == ("must_match", "different")} == blocking


def test_a_config_is_compared_with_a_run(cli: Cli) -> None:
    cli("init", "tiny-llama")
    done = cli("diff", "tiny-llama.yaml", FIXTURES / "native", "--json")
    rows = rows_of(done.document)
    assert (rows["training.steps"]["target"], rows["training.steps"]["baseline"]) == (200, 12)
    assert brief(rows["platform.framework"]) == ("free", "equal")
    refusing = {key for key, row in rows.items() if brief(row) == ("must_match", "different")}
    assert refusing == {
        *("training.tokens_per_step", "training.global_batch_size", "training.sequence_length"),
        "precision.dtype",
    }
    assert done.status == 4


def filled(name: str) -> Path:
    """A packaged JSON config with its placeholders filled."""

    def fill(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {own: fill(inner, own) for own, inner in value.items()}
        return FILLED.get(key, "1" if key == "nnodes" else "/data") if "<changeme>" in str(value) else value

    path = Path(packaged.file_name(name))
    path.write_text(json.dumps(fill(json.loads(packaged.text(name)))))
    return path


def test_configs_of_two_families_are_compared(cli: Cli) -> None:
    megatron, jax = filled("mi3xx_megatron_llama_single"), filled("mi300x_singlenode_llama3_1_70b")
    done = cli("diff", megatron, jax, "--model", "llama3_1_70b", "--gpu", "mi300x", "--json")
    rows = rows_of(done.document)
    assert done.status == 4
    batch = rows["training.global_batch_size"]
    assert (batch["target_name"], batch["baseline_name"]) == ("--global-batch-size", "per_device_batch_size")
    assert (rows["platform.framework"]["target"], rows["platform.framework"]["baseline"]) == ("megatron", "maxtext")
    assert brief(rows["training.recompute"]) == ("must_match", "different")


def test_one_file_on_two_gpus(cli: Cli, file: Path) -> None:
    done = cli("diff", file, file, "--platform", "one", "--gpu", "h200,h100", "--json")
    assert (done.document["target"], done.document["baseline"]) == ("one (A)", "one (B)")
    assert rows_of(done.document)["platform.gpu"]["baseline"] == "h100"


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("diff", "x.yaml", "x.yaml", "--platform", "one,two,other"), "--platform"),
        (("diff", "x.yaml", "x.yaml", "--platform", "one,"), "--platform"),
        (("diff", "x.yaml", "x.yaml", "--platform", "one,two", "--for", "speed"), "--for"),
        (("diff", "x.yaml", "absent", "--platform", "one"), "B"),
        (("plan", "x.yaml", "--platform", "one,two", "--script"), "--platform"),
        (("plan", "x.yaml", "--platform", "one,one"), "--platform"),
    ],
)
def test_what_cannot_be_shown_is_an_error(cli: Cli, file: Path, words: tuple[str, ...], key: str) -> None:
    done = cli(*words, "--json")
    assert (done.status, done.document["error"]["key"]) == (2, key)
    assert done.document["error"]["next"]


def test_an_error_names_the_options_of_its_side(cli: Cli) -> None:
    cli("init", "mi3xx_megatron_llama_single")
    name = "mi3xx_megatron_llama_single.json"
    done = cli("diff", name, name, "--model", "llama3_1_8b", "--gpu", "mi300x,mi325x")
    assert done.status == 2
    assert "--gpu mi300x" in done.err
    assert "mi300x,mi325x" not in done.err
