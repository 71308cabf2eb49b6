"""steelyard plan --ladder: a suite that gives the baseline the settings of the target, one change at a time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from steelyard import api
from steelyard.campaign.ladder import PlannedRung, _climb
from steelyard.campaign.ladder_keys import GROUPS, Change, group_of, is_settable
from steelyard.errors import InputError
from steelyard.experiment import packaged
from steelyard.experiment.keys import defaults
from steelyard.experiment.policy import Metric
from steelyard.frameworks.planner import value_of

CPU = "\nplatforms:\n  laptop: {gpu: cpu, gpus_per_node: 1, env: {OMP_NUM_THREADS: '1'}}\n"
CHANGED = {
    "training.micro_batch_size": 16,
    "training.sequence_length": 256,
    "precision.dtype": "bf16",
    "training.recompute": "full",
    "kernels.deterministic": False,
}


@pytest.fixture
def small(tiny: Path) -> Path:
    tiny.write_text(tiny.read_text() + CPU)
    return tiny


@pytest.fixture
def large(small: Path) -> Path:
    path = small.with_name("large.yaml")
    content = YAML(typ="safe").load(small.read_text())
    for key, value in CHANGED.items():
        group, _, name = key.partition(".")
        content.setdefault(group, {})[name] = value
    content["name"] = "large"
    YAML().dump(content, path)
    return path


def test_each_rung_can_be_planned_and_the_last_has_the_settings_of_the_target(
    cli: Any, small: Path, large: Path
) -> None:
    done = cli("plan", "--ladder", large, small, "-o", "ladder.yaml", "--json")
    assert done.status == 0, done.err
    names = ["baseline", "batch", "sequence-length", "precision", "recompute", "kernels"]
    assert [rung["name"] for rung in done.document["rungs"]] == names
    assert (done.document["target"], done.document["baseline"]) == ("large", "tiny-llama")
    assert done.document["rungs"][4]["changes"] == {"training.recompute": {"before": "none", "after": "full"}}
    assert done.document["file"] == str(Path("ladder.yaml").resolve())
    assert cli("lint", "ladder.yaml").status == 0
    cells = api.cells("ladder.yaml")
    assert [cell.name for cell in cells.cells] == names
    assert [len(cell.settings) for cell in cells.cells] == [0, 1, 2, 3, 4, 5]
    plans = [api.plan("ladder.yaml", settings=dict(cell.settings)) for cell in cells.cells]
    first, last = (plan.case.resolved.experiment for plan in (plans[0], plans[-1]))
    for key in filter(is_settable, defaults()):
        assert value_of(first, key) == value_of(api.plan(small).case.resolved.experiment, key)
        assert value_of(last, key) == value_of(api.plan(large).case.resolved.experiment, key)
    assert plans[0].plan.nodes[0].env["OMP_NUM_THREADS"] == "1"
    assert cells.ladder is not None
    assert (cells.ladder.target, cells.ladder.target_runs, cells.repeats) == ("large", [], 5)


def test_without_a_file_the_ladder_is_shown_only(cli: Any, small: Path, large: Path) -> None:
    done = cli("plan", "--ladder", large, small)
    assert done.status == 0
    assert "batch            training.micro_batch_size  8     ->  16" in done.out
    assert "next: the same command with -o ladder.yaml" in done.out
    assert not Path("ladder.yaml").exists()


def test_two_platforms_of_one_file_are_two_sides(cli: Any) -> None:
    text = packaged.text("apples-to-apples").replace("gradient_accumulation_steps: 4\n", "\n")
    text = text.replace("  data_parallel_size: 8\n", "").replace(
        "    overrides:\n      kernels: {enable",
        "    overrides:\n      training: {micro_batch_size: 4}\n      parallelism: {tensor_parallel_size: 2}\n"
        "      precision: {fp8: hybrid}\n      kernels: {enable",
    )
    Path("both.yaml").write_text(text)
    document = cli("plan", "both.yaml", "--platform", "amd,nvidia", "--ladder", "--json").document
    assert [rung["name"] for rung in document["rungs"]] == ["baseline", "batch", "parallelism", "precision"]
    left_out = {key: reason["code"] for reason in document["left_out"] for key in reason["keys"]}
    assert left_out["platform.gpu"] == left_out["platform.framework"] == "setting_differs"
    assert "kernels.nvte_fused_attn" in left_out  # another framework has other kernels
    Path("old.yaml").write_text(text.replace("gpu: h100", "gpu: a100"))
    older = cli("plan", "old.yaml", "--platform", "amd,nvidia", "--ladder", "--json").document
    assert [rung["name"] for rung in older["rungs"]] == ["baseline", "batch", "parallelism"]
    (refused,) = [reason for reason in older["left_out"] if reason["code"] == "change_refused"]
    assert refused["keys"] == ["precision.fp8"]
    assert "a100 does not support FP8" in refused["message"]
    assert "fix: --set precision.fp8=null" in refused["message"]


def test_runs_are_sides_and_are_named_in_the_file(cli: Any, recorded: Any) -> None:
    for at in (1, 2):
        recorded(to=f"mine/repeat-{at}").slower(1 + at / 100)
        recorded(to=f"theirs/repeat-{at}").slower(1.1 + at / 100).set("experiment/training/recompute", "full")
    done = cli("plan", "--ladder", "theirs", "mine", "-o", "deep.yaml", "--gpu", "h200")
    assert done.status == 0, done.err
    content = YAML(typ="safe").load(Path("deep.yaml").read_text())
    assert content["suite"]["ladder"] == {
        "target": "theirs",
        "baseline": "mine",
        "target_runs": ["runs/theirs/repeat-1", "runs/theirs/repeat-2"],
        "baseline_runs": ["runs/mine/repeat-1", "runs/mine/repeat-2"],
    }
    (platform,) = content["platforms"].values()
    assert platform == {"gpu": "h200", "nodes": 1, "gpus_per_node": 1, "framework": "native"}
    assert content["model"] == {
        "preset": "llama3.1-8b",
        **{key: content["model"][key] for key in list(content["model"])[1:]},
    }
    assert "thresholds" not in content


def test_text_of_a_record_stays_text_in_the_file(cli: Any, recorded: Any) -> None:
    name = "x: {y: 1}\n# - [&a *a] \u202e"
    recorded(to="mine")
    recorded(to=f"-{name}").set("experiment/training/recompute", "full").set("platform/gpu_name", name).set(
        "platform/gpu", None
    )
    done = cli("plan", "--ladder", f"runs/-{name}", "mine", "-o", "ladder.yaml")
    assert done.status == 0, done.err
    text = Path("ladder.yaml").read_text()
    assert [line for line in text.splitlines() if line.startswith("#") and not line.isprintable()] == []
    assert YAML(typ="safe").load(text)["suite"].keys() == {"axes", "repeats", "ladder"}
    assert YAML(typ="safe").load(text)["suite"]["ladder"]["target"] == "x: {y: 1}\\n# - [&a *a] \\u202e"


def test_the_corpus_is_found_from_the_place_of_the_new_file(cli: Any, small: Path, large: Path) -> None:
    import numpy as np

    np.save(small.with_name("corpus.npy"), np.arange(100_000, dtype=np.uint16) % 128)
    for path in (small, large):
        content = YAML(typ="safe").load(path.read_text())
        content["data"] = {"source": "tokens", "path": "corpus.npy"}
        YAML().dump(content, path)
    Path("elsewhere").mkdir()
    assert cli("plan", "--ladder", large, small, "-o", "elsewhere/ladder.yaml").status == 0
    assert YAML(typ="safe").load(Path("elsewhere/ladder.yaml").read_text())["data"]["path"] == "../corpus.npy"
    assert cli("plan", "elsewhere/ladder.yaml").status == 0


@pytest.mark.parametrize(
    ("arguments", "key", "way_on"),
    [
        (["--ladder", "tiny.yaml", "tiny.yaml"], "--ladder", "steelyard compare TARGET BASELINE"),
        (["--ladder", "other.yaml", "tiny.yaml"], "model.", "steelyard diff TARGET BASELINE"),
        (["--ladder", "tiny.yaml"], "--ladder", "steelyard plan --ladder tiny.yaml BASELINE"),
        (["--ladder", "large.yaml", "tiny.yaml", "-o", "tiny.yaml"], "-o", "-o tiny-2.yaml"),
        (["--ladder", "large.yaml", "tiny.yaml", "--script"], "--script", "without --script"),
        (["--ladder", "large.yaml", "nothing"], "B", "steelyard runs list"),
        (["large.yaml", "tiny.yaml"], "BASELINE", "steelyard plan --ladder large.yaml tiny.yaml"),
        (["large.yaml", "-o", "x.yaml"], "-o", "steelyard plan --ladder large.yaml BASELINE"),
    ],
)
def test_what_cannot_be_a_ladder_is_refused_with_a_way_on(
    cli: Any, small: Path, large: Path, arguments: list[str], key: str, way_on: str
) -> None:
    text = small.read_text().replace("preset: tiny-llama", "preset: tiny-gpt")
    Path("other.yaml").write_text(text)
    before = small.read_text()
    done = cli("plan", *arguments, "--json")
    assert done.status == 2
    assert done.document["error"]["key"].startswith(key)
    assert way_on in done.document["error"]["next"]
    assert small.read_text() == before


def test_a_side_without_a_key_is_named(cli: Any, recorded: Any) -> None:
    recorded(to="mine")
    recorded(to="theirs").set("experiment/training/micro_batch_size", ...)
    done = cli("plan", "--ladder", "theirs", "mine", "--json")
    assert done.status == 2
    assert "training.micro_batch_size is not recorded for theirs" in done.document["error"]["message"]
    done = cli("plan", "--ladder", "mine", "theirs", "--json")
    assert done.document["error"]["key"] == "training.micro_batch_size"
    assert "with the config of the baseline" in done.document["error"]["next"]


def test_runs_of_a_side_with_different_settings_are_refused(cli: Any, recorded: Any) -> None:
    recorded(to="mine/a")
    recorded(to="mine/b").slower(1.01).set("experiment/training/micro_batch_size", 64)
    recorded(to="theirs").slower(1.02)
    error = cli("plan", "--ladder", "theirs", "mine", "--json").document["error"]
    assert error["value"] == "training.micro_batch_size"


def test_every_key_that_a_file_sets_and_that_governs_throughput_belongs_to_a_change() -> None:
    from steelyard.experiment.keys import KEYS

    governing = {key for key in defaults() if Metric.THROUGHPUT in KEYS[key].policy.effects}
    settable = {key for key in defaults() if is_settable(key)}
    assert {key.partition(".")[0] for key in governing - settable} == {"model", "parallelism"}
    assert governing - settable - {key for key in governing if key.startswith("model.")} == {
        "parallelism.data_parallel_size"  # follows from the others
    }
    assert {key for key in settable if group_of(key) == "overheads"} == {"training.checkpointing", "training.tracking"}
    assert set(map(group_of, settable)) == set(GROUPS)


def _rung(name: str, **settings: Any) -> PlannedRung:
    return PlannedRung(name, tuple(Change(key, None, value) for key, value in settings.items()))


def _refuses(allowed: Any) -> Any:
    def refusal_of(settings: Mapping[str, Any]) -> InputError | None:
        return None if allowed(set(settings)) else InputError("too much", next="use less")

    return refusal_of


@pytest.mark.parametrize(
    ("allowed", "names", "left"),
    [
        (lambda keys: True, ["a", "b", "c"], []),
        (lambda keys: "a" not in keys or "b" in keys, ["b", "a", "c"], []),  # a needs b, and is made after it
        (lambda keys: not {"a", "b"} & keys or {"a", "b"} <= keys, ["a-and-b", "c"], []),  # only together
        (lambda keys: "b" not in keys, ["a", "c"], ["b"]),
        (lambda keys: not keys, [], ["a", "b", "c"]),
        (lambda keys: not {"a", "c"} <= keys, ["a", "b"], ["c"]),
    ],
)
def test_changes_are_made_in_the_first_order_that_the_platform_allows(
    allowed: Any, names: list[str], left: list[str]
) -> None:
    changes = [_rung("a", a=1), _rung("b", b=1), _rung("c", c=1)]
    rungs, refused = _climb(changes, _refuses(allowed), "h100")
    assert [rung.name for rung in rungs] == names
    assert [reason.values["change"] for reason in refused] == left
    assert all(reason.values["fix"] == "use less" for reason in refused)
    made = {key for rung in rungs for key in rung.settings}
    assert made == {"a", "b", "c"} - set(left)


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ({"axes": {"ladder": {"baseline": {}}}}, "suite.ladder"),
        ({"axes": {"training.steps": [5, 6]}}, "suite.ladder"),
        ({"axes": {"ladder": {"a": {}, "b": {}}, "training.steps": [5, 6]}}, "suite.ladder"),
        ({"ladder": {"target": "b", "baseline": "a", "runs": []}}, "suite.ladder.runs"),
        ({"ladder": {"target": "b\n", "baseline": "a"}}, "suite.ladder.target"),
        ({"ladder": {"target": "b", "baseline": "a", "target_runs": ["\u202e"]}}, "suite.ladder.target_runs.0"),
    ],
)
def test_a_section_that_is_not_a_ladder_is_refused(cli: Any, small: Path, section: dict[str, Any], key: str) -> None:
    content = YAML(typ="safe").load(small.read_text())
    usual = {"axes": {"ladder": {"a": {}, "b": {}}}, "ladder": {"target": "b", "baseline": "a"}}
    YAML().dump({**content, "suite": {**usual, **section}}, small)
    done = cli("run", small, "--suite", "--json")
    assert done.status == 2
    assert done.document["error"]["key"] == key
    assert not Path("runs").exists()
