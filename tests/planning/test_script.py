"""The script of a plan is one a shell runs."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from seeds import filled, packaged_content

pytestmark = [pytest.mark.processes, pytest.mark.quick]

NAME = "mi3xx_megatron_llama_distributed.json"


@pytest.fixture
def script(cli: Any, tmp_path: Path) -> Path:
    config = tmp_path / NAME
    content = filled(packaged_content(NAME), 2, log_dir=str(tmp_path / "logs of $(touch pwned)"))
    content["config"]["hf_token_file"] = str(tmp_path / "token")
    config.write_text(json.dumps(content))
    told = cli("plan", config, "--model", "llama3_1_8b", "--gpu", "mi300x", "--script")
    assert told.status == 0
    path = tmp_path / "run.sh"
    path.write_text(told.out)
    return path


def with_docker(tmp_path: Path, script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it with a stand-in for the engine that keeps what it was given; there are no GPUs here to give a real one."""
    stand_in = tmp_path / "bin" / "docker"
    stand_in.parent.mkdir()
    stand_in.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/argv\nfind "{tmp_path}" -path "*/secrets/*" > {tmp_path}/seen\n'
        f'find "{tmp_path}" -path "*/secrets/*" -exec cat {{}} \\; >> {tmp_path}/seen\n'
    )
    stand_in.chmod(0o755)
    (tmp_path / "token").write_text("hf_secret\n")
    env = {**os.environ, "PATH": f"{stand_in.parent}:{os.environ['PATH']}"}
    command = ["bash", str(script), *arguments]
    return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)


def test_each_node_writes_its_files_and_starts_its_container(script: Path, tmp_path: Path) -> None:
    done = with_docker(tmp_path, script, "1")
    assert done.returncode == 0, done.stderr
    argv = (tmp_path / "argv").read_text().splitlines()
    assert argv[0] == "run"
    assert argv[-3:] == ["/steelyard/start.sh", "bash", "examples/llama/train_llama3.sh"]
    folder = tmp_path / "logs of $(touch pwned)" / "llama3_1_8b-node1"
    assert f"{folder}/job:/steelyard:ro" in argv
    assert f"{folder}/job/output:/steelyard/output" in argv
    assert "NODE_RANK=1" in (folder / "environment").read_text().splitlines()
    assert (folder / "job/start.sh").read_text().startswith("#!/bin/sh\n")
    assert not (tmp_path / "pwned").exists()


def test_the_token_reaches_the_container_and_no_argument_list(script: Path, tmp_path: Path) -> None:
    with_docker(tmp_path, script, "0")
    folder = tmp_path / "logs of $(touch pwned)" / "llama3_1_8b-node0"
    assert (tmp_path / "seen").read_text() == f"{folder}/job/secrets/HF_TOKEN\nhf_secret\n"
    assert "hf_secret" not in (tmp_path / "argv").read_text()
    assert "hf_secret" not in script.read_text()
    assert "HF_TOKEN_PATH=/steelyard/secrets/HF_TOKEN" in (folder / "environment").read_text().splitlines()
    assert not (folder / "job/secrets").exists()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_without_a_node_it_says_how_to_be_started(script: Path, tmp_path: Path) -> None:
    done = with_docker(tmp_path, script)
    assert done.returncode == 2
    assert "a number below 2" in done.stderr
