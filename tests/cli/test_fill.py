"""--fill, on a terminal and without one."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seeds import packaged_content
from steelyard.configs.files import read_mapping
from steelyard.configs.fill import filled_text
from steelyard.experiment import packaged

NAME = "mi3xx_megatron_llama_single"


def answered(answers: list[str], *arguments: str) -> tuple[int, str]:
    """Run a verb on a terminal of its own, typing the answers."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "steelyard", *arguments], stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
    shown = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(ours)
    return process.wait(), shown.decode()


@pytest.mark.processes
def test_open_places_are_asked_for_and_nothing_else_of_the_file_changes() -> None:
    path = Path(f"{NAME}.json")
    text = packaged.text(NAME).replace('"precision": "TE_FP8"', '"precision": "TE_FP16"', 1)
    path.write_text(text)
    status, shown = answered(["two", "2", "", "TE_FP16", "TE_FP8"], "lint", str(path), "--fill")
    assert status == 0, shown
    assert "'two': expected a whole number" in shown
    assert "expected one of TE_BF16, TE_FP8" in shown
    assert "3 values filled in" in shown
    content = json.loads(path.read_text())
    assert content["config"]["nnodes"] == "2"
    assert content["config"]["training_iterations"] == "30"  # the file's own example, taken by a bare return
    changed = [new for old, new in zip(text.splitlines(), path.read_text().splitlines(), strict=True) if old != new]
    assert len(changed) == 3
    again, shown = answered([], "plan", str(path), "--fill", "--model", "llama3_1_8b", "--gpu", "mi300x")
    assert again == 0, shown
    assert "no value is missing" in shown


@pytest.mark.processes
def test_return_removes_a_key_with_a_default_and_takes_the_example_of_another() -> None:
    name = "mi3xx_megatron_llama_distributed"
    path = Path(f"{name}.json")
    path.write_text(packaged.text(name))
    chosen = ("--model", "llama3_1_8b", "--gpu", "mi300x")
    answers = ["2", "thor2", "", "", "", "", "30", "", "", "", ""]
    status, shown = answered(answers, "lint", str(path), "--fill", *chosen)
    assert status == 0, shown
    assert "7 of 10: config / master_address" in shown
    assert "'30': expected a host's name or address" in shown
    assert "Return removes the key; the default is the first host." in shown
    assert "The value becomes a limit that the run must reach. 610.0 is only the example of the file." in shown
    config = json.loads(path.read_text())["config"]
    assert not {"master_address", "nccl_ib_hca_list", "gloo_socket_ifname", "nccl_ib_gid_index"} & set(config)
    assert (config["training_iterations"], config["nccl_socket_ifname"]) == ("30", "ens51f1np1")
    changed = [line for line in packaged.text(name).splitlines() if line not in path.read_text().splitlines()]
    assert len(changed) == 8  # the two limits stand under other GPUs too


@pytest.mark.parametrize(
    ("text", "without_a", "without_b"),
    [
        ('{"config": {"a": "1", "b": "2"}}', '{"config": { "b": "2"}}', '{"config": {"a": "1"}}'),
        (
            '{\n  "config": {\n    "a": "1",\n    "b": "2"\n  }\n}\n',
            '{\n  "config": {\n    "b": "2"\n  }\n}\n',
            '{\n  "config": {\n    "a": "1"\n  }\n}\n',
        ),
    ],
)
def test_a_removed_key_leaves_the_rest_of_the_file(tmp_path: Path, text: str, without_a: str, without_b: str) -> None:
    (tmp_path / "c.json").write_text(text)
    file, first, second = read_mapping(tmp_path / "c.json"), ("config", "a"), ("config", "b")
    assert filled_text(file, {first: None}) == without_a
    assert filled_text(file, {second: None}) == without_b
    assert json.loads(filled_text(file, {first: None, second: None})) == {"config": {}}
    assert json.loads(filled_text(file, {first: "x", second: None})) == {"config": {"a": "x"}}


@pytest.mark.processes
def test_answers_that_end_too_soon_write_nothing() -> None:
    path = Path(f"{NAME}.json")
    path.write_text(packaged.text(NAME))
    status, shown = answered(["2", "\x04"], "lint", str(path), "--fill")
    assert status == 2, shown
    assert "nothing was written" in shown
    assert path.read_text() == packaged.text(NAME)
    assert [entry.name for entry in Path().iterdir()] == [path.name]


def test_without_a_terminal_it_says_so(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(f"{NAME}.json")
    path.write_text(json.dumps(packaged_content(f"{NAME}.json")))
    refused = cli("lint", path, "--fill")
    assert refused.status == 2
    assert "2 values missing, expected a terminal" in refused.err
