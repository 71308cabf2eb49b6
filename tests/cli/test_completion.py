"""Shell completion, as bash drives it."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not shutil.which("bash") or not (BIN / "steelyard").exists(), reason="needs bash and a script"),
]


def environment(home: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(home),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "SHELL": "/bin/bash",
        "TERM": "dumb",
    }


def completed(home: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words, with the script of --show-completion."""
    listed = " ".join(f"'{word}'" for word in words)
    script = (
        'eval "$(steelyard --show-completion)"\n'
        f"COMP_WORDS=({listed}) COMP_CWORD={len(words) - 1}\n"
        "_steelyard_completion steelyard\n"
        "printf '%s\\n' \"${COMPREPLY[@]}\"\n"
    )
    done = subprocess.run(["bash", "-c", script], env=environment(home), capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_verbs_and_options(tmp_path: Path) -> None:
    assert completed(tmp_path, "steelyard", "che") == ["check"]
    assert completed(tmp_path, "steelyard", "runs", "tr") == ["trend"]
    assert completed(tmp_path, "steelyard", "lint", "--q") == ["--quiet"]
    assert completed(tmp_path, "steelyard", "init", "tiny") == ["tiny-llama", "tiny-gpt"]
    assert {"--platform", "--gpu", "--script"} <= set(completed(tmp_path, "steelyard", "plan", "--"))


def test_an_interactive_bash_completes_after_the_installation(tmp_path: Path) -> None:
    script = tmp_path / "install.sh"
    script.write_text("steelyard --install-completion\n")
    done = subprocess.run(["bash", script], env=environment(tmp_path), capture_output=True, text=True, check=True)
    assert "bash completion installed" in done.stdout
    assert (tmp_path / ".bashrc").exists()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(["bash", "-i"], env=environment(tmp_path), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        shown, deadline = b"", time.monotonic() + 60
        os.write(ours, b"echo re''ady\n")
        while b"ready" not in shown and time.monotonic() < deadline:
            shown += _read(ours)
        os.write(ours, b"steelyard che\t")
        while b"steelyard check" not in shown and time.monotonic() < deadline:
            shown += _read(ours)
        assert b"steelyard check" in shown
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read(terminal: int) -> bytes:
    readable, _, _ = select.select([terminal], [], [], 0.5)
    return os.read(terminal, 65536) if readable else b""
