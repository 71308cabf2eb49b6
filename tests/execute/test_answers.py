"""What a command on a host prints is bounded."""

import asyncio
import resource
from pathlib import Path

import pytest

from steelyard.execute.host import ANSWER_BYTES, HostRefusedError, ThisHost
from steelyard.execute.node import engine_answers


def test_a_command_that_prints_without_end_is_ended() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(HostRefusedError, match="yes printed more than 16 MiB"):
        asyncio.run(ThisHost().run(["yes"]))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < 4 * ANSWER_BYTES


def test_complaints_without_end_are_ended_too() -> None:
    with pytest.raises(HostRefusedError, match="sh printed more than 16 MiB"):
        asyncio.run(ThisHost().run(["sh", "-c", "yes >&2"]))


def test_an_engine_that_prints_without_end_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\nexec yes\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(HostRefusedError, match="run docker on localhost by hand"):
        asyncio.run(engine_answers(ThisHost(), "docker"))


def test_an_answer_of_several_megabytes_is_whole() -> None:
    done = asyncio.run(ThisHost().run(["head", "-c", "5000000", "/dev/zero"]))
    assert (done.status, len(done.out)) == (0, 5_000_000)
