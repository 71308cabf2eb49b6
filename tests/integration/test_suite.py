"""Suites on hosts: the packaged Megatron files run whole, with one verdict and one JUnit file."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from junitparser import Error, JUnitXml, Skipped

from lab import Lab, stand_in
from lab.running import Ended, Running
from lab.stand_in import OUT_OF_MEMORY, Speed
from lab.suite import DISTRIBUTED, LLAMA_8B, LLAMA_70B, MEGATRON_IMAGE, NETWORK, SINGLE, written

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("hosts_as_configs_name_them")]

SMALL, LARGE = "llama3_1_8b", "llama3_1_70b"
Start = Callable[..., Running]


def build(lab: Lab, small: float, large: float, **env: str) -> None:
    """The image of the configs, with the tokens/s per GPU of both models, and more variables."""
    speeds = {**Speed(small, LLAMA_8B).env(), **Speed(large, LLAMA_70B).env_of("70B")}
    lab.build_image(MEGATRON_IMAGE, stand_in.megatron(), speeds | env)


def steelyard(start: Start, *words: str | Path) -> Ended:
    verb, *others = words
    return start(*others, cluster=False, verb=str(verb)).end()


def cells_of(document: dict[str, Any], *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(cell[key] for key in keys) for cell in document["cells"]]


def junit_cases(path: Path | str) -> dict[str, Sequence[Any]]:
    """The test cases of each test suite, as a parser of JUnit files reads them; the totals of the file are theirs."""
    read = JUnitXml.fromfile(str(path))
    suites = {suite.name: list(suite) for suite in read}
    cases = [case for suite in suites.values() for case in suite]
    assert read.tests == len(cases)
    assert read.failures + read.errors == sum(not case.is_passed and not case.is_skipped for case in cases)
    return suites


def test_the_packaged_file_runs_as_one_suite_over_three_hosts(start: Start, lab: Lab, tmp_path: Path) -> None:
    build(lab, 12500.0, 1150.0)
    config = written(tmp_path, DISTRIBUTED, 3, master_address=lab.hosts[0].address, **NETWORK)
    ended = start(config, "--suite", "--gpu", "mi300x", "--name", "both").end(600)
    assert ended.status == 0, ended.out + ended.err
    document = ended.document
    assert (document["verdict"], document["planned"], document["made"]) == ("pass", 2, 2)
    assert cells_of(document, "cell", "status") == [(SMALL, "pass"), (LARGE, "pass")]
    assert [cell["values"]["gpu"] for cell in document["cells"]] == ["mi300x"] * 2
    for run in document["runs"]:
        manifest = json.loads(Path(run["run"], "run.json").read_text())
        assert (run["steps"], manifest["hosts"]) == (30, [host.address for host in lab.hosts])

    suites = junit_cases(document["junit"])
    assert list(suites) == [f"{SMALL}/repeat-1", f"{LARGE}/repeat-1"]
    assert all(case.is_passed or case.is_skipped for cases in suites.values() for case in cases)
    assert "threshold tokens_per_s_per_gpu>=1100" in [case.name for case in suites[f"{LARGE}/repeat-1"]]

    suite, out = Path(document["suite"]), ("--out", ended.run.out)
    checked = steelyard(start, "check", suite, "--junit", tmp_path / "check.xml")
    assert (checked.status, checked.document["cells"]) == (0, document["cells"])
    assert {name: len(cases) for name, cases in junit_cases(tmp_path / "check.xml").items()} == {
        name: len(cases) for name, cases in suites.items()
    }
    stricter = steelyard(start, "check", suite, "--threshold", "tokens_per_s_per_gpu>=1200")
    assert (stricter.status, cells_of(stricter.document, "status")) == (1, [("pass",), ("fail",)])
    (row,) = steelyard(start, "runs", "list", *out).document["suites"]
    assert (row["name"], row["status"], row["cells"]) == ("both", "completed", 2)
    assert cells_of(steelyard(start, "runs", "show", "both", *out).document, "status") == [("pass",), ("pass",)]
    assert steelyard(start, "report", suite, "--to", "html,md").status == 0
    report = (suite / "report.md").read_text().replace("\\", "")
    assert all(name in report for name in (SMALL, LARGE))


def test_two_suites_are_compared_cell_by_cell(start: Start, lab: Lab, tmp_path: Path) -> None:
    config, sides = written(tmp_path, SINGLE, 1), []
    for name, speed in (("slow", 1.0), ("fast", 1.2)):
        build(lab, 7500.0 * speed, 1150.0 * speed)
        ended = start(config, "--suite", "--gpu", "mi300x", "--nodes", "1", "--name", name).end(600)
        assert ended.status == 0, ended.out + ended.err
        hosts = [json.loads(Path(run["run"], "run.json").read_text())["hosts"] for run in ended.document["runs"]]
        assert hosts == [[lab.hosts[0].address]] * 2
        sides.append(Path(ended.document["suite"]))
    compared = steelyard(start, "compare", sides[1], sides[0], "--out", tmp_path / "compared")
    assert compared.status == 5, compared.err  # one run per cell is an observation
    ratios = [cell["throughput_speedup"]["value"] for cell in compared.document["cells"]]
    assert ratios == pytest.approx([1.2, 1.2], rel=0.01)
    assert compared.document["means"]["throughput_speedup"]["value"] == pytest.approx(1.2, rel=0.01)


def test_a_cell_out_of_memory_is_named_with_its_memory_and_the_others_are_judged(
    start: Start, lab: Lab, tmp_path: Path
) -> None:
    build(lab, 7500.0, 1150.0, **{OUT_OF_MEMORY: "70B"})
    config = written(tmp_path, SINGLE, 1)
    ended = start(config, "--suite", "--gpu", "mi300x", "--nodes", "1", "--name", "oom").end(600)
    assert ended.status == 1, ended.err
    assert cells_of(ended.document, "cell", "status", "is_expected") == [(SMALL, "pass", False), (LARGE, "oom", False)]
    large = ended.document["cells"][1]
    assert (large["available_gib"], large["planned_gib"] > 100) == (191.98, True)
    failure = ended.document["runs"][1]["failure"]
    assert (failure["kind"], failure["phase"]) == ("oom", "train")
    assert any(not case.is_passed for case in junit_cases(ended.document["junit"])[f"{LARGE}/repeat-1"])
    shown = start("oom", "--out", ended.run.out, cluster=False, verb="check")
    assert cells_of(shown.end().document, "status") == [("pass",), ("oom",)]
    again = start(config, "--resume", ended.document["suite"], "--gpu", "mi300x", "--nodes", "1").end(600)
    assert (again.status, again.document["made"], again.document["kept"]) == (1, 0, 2)


def sizes(tmp_path: Path, *include: dict[str, Any]) -> Path:
    """The same image for an experiment file: Llama 8B, and 70B, which does not fit without tensor parallelism."""
    content = {
        "schema_version": 1,
        "name": "sizes",
        "model": {"preset": "llama3.1-8b", "rope_theta": 10000.0, "rope_scaling": None},
        "training": {
            "seed": 1234,
            "micro_batch_size": 1,
            "global_batch_size": 128,
            "sequence_length": 8192,
            "steps": 30,
            "learning_rate": 1e-4,
            "min_learning_rate": 1e-5,
            "decay_steps": 320000,
        },
        "parallelism": {"overlap_grad_reduce": True, "overlap_param_gather": True},
        "precision": {"grad_reduce_in_fp32": True},
        "data": {"source": "counting", "seed": 1234},
        "platforms": {
            "lab": {
                "gpu": "mi300x",
                "gpus_per_node": 8,
                "framework": "megatron",
                "script": "train_llama3.sh",
                "container": {"image": MEGATRON_IMAGE, "shm_size": "128G"},
            }
        },
        "suite": {"axes": {"model.preset": ["llama3.1-8b", "llama3.1-70b"]}, "include": list(include)},
    }
    path = tmp_path / "sizes.yaml"
    path.write_text(json.dumps(content))
    return path


def test_a_declared_or_skipped_cell_that_does_not_fit_leaves_the_suite_good(
    start: Start, lab: Lab, tmp_path: Path
) -> None:
    build(lab, 7500.0, 1150.0, **{OUT_OF_MEMORY: "70B"})
    refused = start(sizes(tmp_path), "--suite", "--nodes", "1").end()
    assert (refused.status, "--skip-oversized" in refused.document["error"]["next"]) == (2, True)
    skipped = start(sizes(tmp_path), "--suite", "--nodes", "1", "--skip-oversized").end(600)
    assert (skipped.status, skipped.document["planned"]) == (0, 1), skipped.out + skipped.err
    assert cells_of(skipped.document, "status") == [("pass",), ("skipped",)]
    (case,) = junit_cases(skipped.document["junit"])["llama3.1-70b"]
    assert isinstance(case.result[0], Skipped)
    declared = sizes(tmp_path, {"model.preset": "llama3.1-70b", "expect": "oom"})
    ended = start(declared, "--suite", "--nodes", "1").end(600)
    assert (ended.status, ended.document["verdict"]) == (0, "pass"), ended.err
    assert cells_of(ended.document, "status", "is_expected") == [("pass", False), ("oom", True)]
    assert all(case.is_passed for case in junit_cases(ended.document["junit"])["llama3.1-70b/repeat-1"])


def test_a_host_that_cannot_be_reached_ends_the_suite_and_resume_finishes_it(
    start: Start, lab: Lab, tmp_path: Path
) -> None:
    build(lab, 7500.0, 1150.0)
    config = written(tmp_path, SINGLE, 1)
    words = (config, "--suite", "--gpu", "mi300x", "--nodes", "1", "--lost-after", "5")
    lab.hosts[0].cut()
    ended = start(*words, "--name", "cut").end()
    lab.hosts[0].mend()
    assert (ended.status, ended.document["verdict"]) == (3, "fail"), ended.err
    assert cells_of(ended.document, "status") == [("lost",), ("missing",)]
    assert "--resume" in ended.document["error"]["next"]
    cases = junit_cases(ended.document["junit"])[f"{LARGE}/repeat-1"]
    assert [isinstance(case.result[0], Error) for case in cases] == [True]

    again = start(*words, "--resume", ended.document["suite"]).end(600)
    assert (again.status, again.document["verdict"], again.document["made"]) == (0, "pass", 2), again.err
    suite = Path(ended.document["suite"])
    assert [path.name for path in (suite / SMALL / "earlier").iterdir()] == ["repeat-1"]
    assert all(
        case.is_passed or case.is_skipped for cases in junit_cases(suite / "junit.xml").values() for case in cases
    )


def test_a_suite_of_one_node_jobs_on_several_hosts_is_refused_with_the_way_on(
    start: Start, experiment: Any, tmp_path: Path
) -> None:
    config = experiment(nodes=1)
    content = json.loads(config.read_text())
    config.write_text(json.dumps({**content, "suite": {"axes": {"training.micro_batch_size": [2, 4]}}}))
    refused = start(config, "--suite").end()
    assert (refused.status, refused.document["error"]["next"]) == (2, "--nodes 1")
    ended = start(config, "--suite", *refused.document["error"]["next"].split()).end(300)
    assert (ended.status, ended.document["verdict"]) == (0, "pass"), ended.err


def test_nodes_as_an_axis_are_jobs_of_several_sizes(start: Start, experiment: Any, lab: Lab) -> None:
    config = experiment(nodes=1)
    content = json.loads(config.read_text())
    config.write_text(json.dumps({**content, "suite": {"axes": {"nodes": [1, 3]}}}))
    ended = start(config, "--suite").end(300)
    assert (ended.status, ended.document["verdict"]) == (0, "pass"), ended.err
    hosts = [json.loads(Path(run["run"], "run.json").read_text())["hosts"] for run in ended.document["runs"]]
    assert hosts == [[lab.hosts[0].address], [host.address for host in lab.hosts]]
    scaling = start("scaling", *(run["run"] for run in ended.document["runs"]), cluster=False, verb="runs").end()
    assert [count["nodes"] for count in scaling.document["counts"]] == [3]
