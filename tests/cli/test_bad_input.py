"""Bad input is one sentence, exit 2, and nothing made."""

import os
from pathlib import Path
from typing import Any

import pytest

ERROR_KEYS = {"message", "key", "value", "expected", "next"}

# what is replaced in the file, the words after FILE, the key that is named, what the sentence says
WRONG = {
    "unknown key": (("steps: 5", "stpes: 5"), (), "training.stpes", "expected 'steps', the nearest known key"),
    "duplicate key": (("seed: 42\n", "seed: 42\n  seed: 1\n"), (), None, 'duplicate key "seed"'),
    "broken YAML": (("training:", "training: ["), (), None, "line "),
    "wrong type": (("steps: 5", "steps: five"), (), "training.steps", "expected a whole number"),
    "quoted number": (("steps: 5", 'steps: "5"'), (), "training.steps", "without quotes"),
    "steps 0": (("steps: 5", "steps: 0"), (), "training.steps", "expected a number above 0"),
    "unknown model": (("preset: tiny-llama", "preset: big-llama"), (), "model.preset", "not a known model"),
    "unknown GPU in the file": (
        ("data:", "platforms: {p: {gpu: h999, gpus_per_node: 1}}\ndata:"),
        (),
        "platforms.p.gpu",
        "'h999' is not in the catalog",
    ),
    "unknown GPU typed": (None, ("--gpu", "h999"), "--gpu", "'h999' is not in the catalog"),
    "ragged batch": (
        ("global_batch_size: 16", "global_batch_size: 15"),
        (),
        "training.global_batch_size",
        "a multiple",
    ),
    "ranks that do not divide the batch": (None, ("--gpus", "3"), "training.global_batch_size", "a multiple of 24"),
    "no ranks": (None, ("--gpus", "0"), "--gpus", "(--gpus 0)"),
    "ranks that are no number": (
        None,
        ("--gpus", "two"),
        "--gpus",
        "valid integer, unable to parse string as an integer (--gpus two)",
    ),
    "unknown platform": (None, ("--platform", "x"), "--platform", "does not have platforms"),
    "setting without a group": (None, ("--set", "steps=3"), "--set", "expected group.key=value"),
    "setting of an unknown key": (None, ("--set", "training.stepz=3"), "training.stepz", "nearest known key"),
    "setting of a wrong type": (
        None,
        ("--set", "training.steps=x"),
        "training.steps",
        "change training.steps after --set",
    ),
    "unknown option": (None, ("--stepz", "3"), "--stepz", "--stepz"),
    "fp16": (("dtype: fp32", "dtype: fp16"), (), "precision", "loss_scale: dynamic"),
    "framework that cannot be launched": (
        ("data:", "platforms: {p: {gpu: h100, gpus_per_node: 8, framework: torchtitan}}\ndata:"),
        (),
        "framework",
        "expected one of native",
    ),
    "framework nobody knows": (
        ("data:", "platforms: {p: {gpu: h100, gpus_per_node: 8, framework: nemoo}}\ndata:"),
        (),
        "platforms.p.framework",
        "expected one of native",
    ),
}


@pytest.mark.parametrize("verb", ["plan", "run"])
@pytest.mark.parametrize("fault", WRONG)
def test_it_is_one_sentence_and_exit_2(cli: Any, tiny: Path, verb: str, fault: str) -> None:
    replaced, words, key, says = WRONG[fault]
    if replaced:
        assert replaced[0] in tiny.read_text()
        tiny.write_text(tiny.read_text().replace(*replaced, 1))
    told = cli(verb, tiny, *words)
    assert told.status == 2
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert says in told.err
    asked = cli(verb, tiny, *words, "--json")
    assert asked.status == 2
    assert asked.err == ""
    assert set(asked.document["error"]) == ERROR_KEYS
    assert asked.document["error"]["key"] == key
    assert says in asked.document["error"]["message"]
    assert not Path("runs").exists()


def test_a_missing_file(cli: Any) -> None:
    for verb in ("plan", "run", "lint"):
        asked = cli(verb, "none.yaml", "--json")
        assert asked.status == 2
        assert "none.yaml: no such file" in asked.document["error"]["message"]


def test_an_existing_run_name_is_refused_and_left_alone(cli: Any, tiny: Path) -> None:
    taken = Path("runs/taken")
    taken.mkdir(parents=True)
    (taken / "mine").write_text("kept")
    asked = cli("run", tiny, "--name", "taken", "--json")
    assert asked.status == 2
    assert "runs/taken already exists" in asked.document["error"]["message"]
    assert [path.name for path in taken.iterdir()] == ["mine"]
    assert [path.name for path in taken.parent.iterdir()] == ["taken"]


def test_an_unwritable_output_is_refused(cli: Any, tiny: Path) -> None:
    Path("file").write_text("a file, not a directory")
    asked = cli("run", tiny, "--out", "file", "--json")
    assert asked.status == 2
    assert asked.document["error"]["key"] == "--out"
    assert "--out file is not writable" in asked.document["error"]["message"]


def test_lint_prints_its_problems_whatever_its_status(cli: Any, tiny: Path) -> None:
    tiny.write_text(tiny.read_text().replace("steps: 5", "stpes: 5", 1))
    asked = cli("lint", tiny, "--json")
    assert asked.status == 2
    assert {(problem["code"], problem["pointer"]) for problem in asked.document["problems"]} == {
        ("SY102", "/training/stpes"),
        ("SY104", "/training/steps"),
    }
    assert all(
        {"code", "severity", "file", "pointer", "message", "fix"} <= set(problem)
        for problem in asked.document["problems"]
    )
    tiny.write_text("a: [")
    assert [problem["code"] for problem in cli("lint", tiny, "--json").document["problems"]] == ["SY101"]


def test_several_platforms_and_none_named(cli: Any) -> None:
    cli("init", "apples-to-apples")
    asked = cli("plan", "apples-to-apples.yaml", "--json")
    assert asked.status == 2
    assert asked.document["error"]["expected"] == "one of nvidia, amd"
    assert cli("lint", "apples-to-apples.yaml").status == 0


def test_a_run_that_is_none(cli: Any) -> None:
    asked = cli("runs", "show", "nothing", "--json")
    assert asked.status == 2
    assert asked.document["error"]["value"] == "nothing"


@pytest.mark.processes
@pytest.mark.quick
def test_a_traceback_is_shown_only_when_asked_and_changes_nothing_else(shell: Any) -> None:
    assert "Traceback" not in shell("plan", "none.yaml").err
    asked = shell("plan", "none.yaml", "--debug", "--json")
    assert "Traceback" in asked.err
    assert asked.status == 2
    assert "no such file" in asked.document["error"]["message"]


@pytest.mark.parametrize("content", [b"", b"not an array"])
def test_a_token_file_that_is_none(cli: Any, tiny: Path, content: bytes) -> None:
    Path("tokens.npy").write_bytes(content)
    asked = cli("plan", tiny, "--json", "--set", "data.source=tokens", "--set", "data.path=tokens.npy")
    assert asked.status == 2
    assert asked.document["error"]["key"] == "data.path"


@pytest.mark.processes
@pytest.mark.quick
def test_text_that_no_terminal_can_show_is_still_one_document(shell: Any, tiny: Path) -> None:
    tiny.write_text(tiny.read_text().replace("name: tiny-llama", 'name: "\\ud800é"'))
    asked = shell("plan", tiny, "--json", PYTHONIOENCODING="ascii")
    assert asked.status == 2
    assert asked.document["error"]["key"] == "name"
    assert shell("plan", tiny, PYTHONIOENCODING="ascii").status == 2


@pytest.mark.parametrize("typed", [("--repeats", "0"), ("--repeats=0",), ("--repeats=3", "--repeats=0")])
def test_a_value_that_will_not_do_is_said_however_it_is_typed(cli: Any, tiny: Path, typed: tuple[str, ...]) -> None:
    done = cli("run", tiny, *typed, "--json")
    error = done.document["error"]
    assert (done.status, error["key"], error["value"]) == (2, "--repeats", "0")
    assert "(--repeats 0)" in error["message"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("margin", 5, "compare.margin is 5, expected less than 1"),
        ("margin", "five", "compare.margin is 'five', expected a valid number"),
        ("mode", "worst", "compare.mode is 'worst', expected 'best' or 'matched'"),
        ("margni", 0.1, "compare.margni is 0.1, expected one of mode, warmup_steps, margin"),
    ],
)
def test_a_policy_of_a_run_that_will_not_do_is_one_sentence(
    cli: Any, recorded: Any, key: str, value: Any, said: str
) -> None:
    run = recorded().set("experiment/compare", {key: value})
    for verb in ("check", "compare"):
        done = cli(verb, *[run] * (1 + (verb == "compare")))
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith(f"steelyard: {run}/run.json: {said}")
        assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("replaced", "key"),
    [
        (("name: tiny-llama", "name: -x"), "name"),
        (("name: tiny-llama", 'name: "a\\eb"'), "name"),
        (("data:", "platforms: {-p: {gpu: cpu}}\ndata:"), "platforms"),
        (("data:", "platforms: {p: {container: {image: -x}}}\ndata:"), "platforms.p.container.image"),
        (("data:", "platforms: {p: {container: {image: i, name: -x}}}\ndata:"), "platforms.p.container.name"),
        (("data:", 'platforms: {p: {log_dir: "/a\\eb"}}\ndata:'), "platforms.p.log_dir"),
        (("data:", 'platforms: {p: {container: {image: i, volumes: {"/a\\rb": /c}}}}\ndata:'), None),
        (("data:", "platforms: {p: {network: {head: -x}}}\ndata:"), "platforms.p.network.head"),
        (("data:", "platforms: {p: {script: -x}}\ndata:"), "platforms.p.script"),
        (("source: markov", "source: markov, tokenizer: -x"), "data.tokenizer"),
    ],
)
def test_a_name_that_a_command_takes_for_an_option_is_refused(
    cli: Any, tiny: Path, replaced: tuple[str, str], key: str | None
) -> None:
    assert replaced[0] in tiny.read_text()
    tiny.write_text(tiny.read_text().replace(*replaced, 1))
    asked = cli("plan", tiny, "--json")
    assert asked.status == 2
    assert key in (None, asked.document["error"]["key"])
    assert "\x1b" not in asked.out


@pytest.mark.parametrize("name", ["-x", "a\x1bb", "a\nb", ".x", "a/b", ""])
def test_a_run_s_name_is_a_printable_word(cli: Any, tiny: Path, name: str) -> None:
    asked = cli("run", tiny, f"--name={name}", "--json")
    assert (asked.status, asked.document["error"]["key"]) == (2, "--name")
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("platform", "key"),
    [
        ("{framework: {}}", "platforms.p.framework"),
        ("{gpu: []}", "platforms.p.gpu"),
        ("{container: {image: {}, engine: []}}", "platforms.p.container.image"),
        ("{network: {nic: {}}}", "platforms.p.network.nic"),
        ("{allow: {}}", "platforms.p.allow"),
        (r'{env: {A: "\ud800\udc00"}}', "platforms.p.env"),
        (r'{options: {a: ["\ud800"]}}', "platforms.p.options"),
        (r'{log_dir: "/\ud800"}', "platforms.p.log_dir"),
        ("{'a[b': 1}", "platforms.p.a[b"),
        ("{'function-after[x]': 1}", "platforms.p.function-after[x]"),
    ],
)
def test_a_value_of_any_shape_is_answered_by_its_key(cli: Any, tiny: Path, platform: str, key: str) -> None:
    tiny.write_text(f"{tiny.read_text()}\nplatforms: {{p: {platform}}}\n")
    asked = cli("plan", tiny, "--json")
    assert (asked.status, asked.document["error"]["key"]) == (2, key)
    assert cli("lint", tiny, "--json").document["problems"]


@pytest.mark.parametrize("count", [100, 101, 5000])
def test_of_many_unknown_keys_the_first_are_named_and_the_rest_counted(cli: Any, tiny: Path, count: int) -> None:
    tiny.write_text(tiny.read_text() + "".join(f"key{at}: 1\n" for at in range(count)))
    problems = cli("lint", tiny, "--json").document["problems"]
    assert {problem["code"] for problem in problems} == {"SY102"}
    assert len(problems) == min(count, 101)
    assert sum("more unknown keys" in problem["message"] for problem in problems) == (count > 100)
    if count > 100:
        assert any(f"{count - 100:,} more unknown keys" in problem["message"] for problem in problems)


def test_a_file_that_is_larger_than_any_config_is_refused_unread(cli: Any) -> None:
    for name in ("large.yaml", "large.json"):
        with Path(name).open("wb") as file:
            file.truncate(200 << 20)
        (problem,) = cli("lint", name, "--json").document["problems"]
        assert (problem["code"], "expected at most 4,194,304 bytes" in problem["message"]) == ("SY101", True)


def test_a_pipe_that_nobody_feeds_is_not_waited_for_and_a_link_is_followed(cli: Any, tiny: Path) -> None:
    os.mkfifo("pipe.yaml")
    asked = cli("plan", "pipe.yaml", "--json")
    assert asked.status == 2
    assert "a named pipe" in asked.document["error"]["message"]
    Path("link.yaml").symlink_to(tiny)
    assert cli("lint", "link.yaml").status == 0
    Path("loop.yaml").symlink_to("loop.yaml")
    assert cli("lint", "loop.yaml").status == 2


def test_a_number_of_nodes_that_no_cluster_has_is_refused(cli: Any) -> None:
    Path("huge.yaml").write_text("schema_version: 1\nname: x\nplatforms: {p: {nodes: 268435456, gpu: a100}}\n")
    told = cli("plan", "huge.yaml", "--json")
    assert told.status == 2
    assert "nodes" in told.document["error"]["message"]
    assert cli("plan", "huge.yaml", "--nodes", "268435456").status == 2
