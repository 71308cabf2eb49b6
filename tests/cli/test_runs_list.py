"""steelyard runs list: what is shown, in which order, and how wide."""

import os
import pty
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import command

WIDTH = 80


@pytest.fixture
def five(cli: Any, recorded: Any) -> None:
    """r1 to r5, one a day; r1 failed, r2 and r3 were checked, r3 is slower."""
    for day in range(1, 6):
        run = recorded("half-batch" if day == 3 else "again", f"r{day}")
        run.set("provenance/started", f"2026-11-{day:02d}T10:00:00+00:00")
        if day == 1:
            run.set("status", "failed")
    for name in ("r2", "r3"):
        assert cli("check", name).status == 0


def rows(out: str) -> list[str]:
    """The names, in the order of the rows."""
    head, *lines = out.splitlines()
    at = head.split().index("name")
    return [line.split()[at] for line in lines]


def test_the_newest_runs_come_first_and_those_left_out_are_counted(cli: Any, five: None) -> None:
    assert rows(cli("runs", "list").out) == ["r5", "r4", "r3", "r2", "r1"]
    short = cli("runs", "list", "--limit", "2")
    assert rows(short.out) == ["r5", "r4"]
    assert "3 more runs not shown; --limit 0 shows all" in short.err
    assert rows(cli("runs", "list", "--limit", "0").out) == ["r5", "r4", "r3", "r2", "r1"]


def test_twenty_runs_are_a_page(cli: Any, recorded: Any) -> None:
    for number in range(23):
        recorded("again", f"r{number}")
    listed = cli("runs", "list")
    assert len(rows(listed.out)) == 20
    assert "3 more runs" in listed.err
    assert len(cli("runs", "list", "--json").document["runs"]) == 23


def test_throughput_and_verdict_are_those_of_the_last_check(cli: Any, five: None) -> None:
    document = {run["name"]: run for run in cli("runs", "list", "--json").document["runs"]}
    figures = cli("check", "r3", "--json").document["figures"]
    assert document["r3"]["tokens_per_s_per_gpu"] == figures["tokens_per_s_per_gpu"]
    assert (document["r3"]["verdict"], document["r4"]["verdict"]) == ("pass", None)
    assert document["r4"]["tokens_per_s_per_gpu"] is None
    lines = {line.split()[1]: line.split() for line in cli("runs", "list").out.splitlines()}
    assert lines["name"][:4] == ["verdict", "name", "tokens/s/GPU", "status"]
    assert lines["r3"][:4] == ["pass", "r3", "6,080", "completed"]
    assert lines["r4"][:3] == ["-", "r4", "-"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--sort", "name"), ["r1", "r2", "r3", "r4", "r5"]),
        (("--sort", "-name", "--limit", "2"), ["r5", "r4"]),
        (("--sort", "-tokens_per_s_per_gpu"), ["r2", "r3", "r1", "r4", "r5"]),
        (("--sort", "tokens_per_s_per_gpu", "--limit", "1"), ["r3"]),
        (("--filter", "verdict=PASS"), ["r3", "r2"]),
        (("--filter", "verdict=-", "--filter", "status=completed"), ["r5", "r4"]),
        (("--filter", "failed"), ["r1"]),
        (("--filter", "r2"), ["r2"]),
        (("--filter", "experiment=llama", "--limit", "1"), ["r5"]),
    ],
)
def test_rows_are_sorted_and_filtered(cli: Any, five: None, words: tuple[str, ...], names: list[str]) -> None:
    assert rows(cli("runs", "list", *words).out) == names
    assert sorted(run["name"] for run in cli("runs", "list", *words, "--json").document["runs"]) == sorted(names)


def test_nothing_that_matches_is_not_nothing_there(cli: Any, five: None) -> None:
    assert cli("runs", "list", "--filter", "mi300x").out == "none of 5 runs matches --filter mi300x\n"
    assert "no runs in" in cli("runs", "list", "--out", "elsewhere").out


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("--sort", "-stat"), "--sort -status"),
        (("--filter", "verdic=fail"), "--filter verdict=fail"),
        (("--columns", "name,plattform"), "--columns platform"),
    ],
)
def test_a_misspelled_column_is_wrong_input_with_the_nearest(cli: Any, words: tuple[str, ...], fix: str) -> None:
    done = cli("runs", "list", *words, "--json")
    assert (done.status, done.document["error"]["next"]) == (2, fix)


def test_columns_are_left_out_whole_and_names_are_never_cut(cli: Any, recorded: Any) -> None:
    name = "20261115T060251-a-rather-long-name-that-people-copy"
    recorded("again", name)
    head, line = cli("runs", "list").out.splitlines()
    assert name in line.split()
    assert max(len(head), len(line)) <= WIDTH
    assert head.split() == ["verdict", "name", "tokens/s/GPU"]
    assert cli("runs", "list", "--columns", "name,ended").out.split()[:3] == ["name", "ended", name]
    assert "framework" in cli("runs", "list", "--columns", "all").out
    longest = "x" * 100
    recorded("again", longest)
    assert longest in cli("runs", "list").out.split()


@pytest.mark.processes
@pytest.mark.parametrize("lines", [10, 60])
def test_a_long_table_is_paged_on_a_terminal_alone(recorded: Any, tmp_path: Path, lines: int) -> None:
    import fcntl
    import termios

    for number in range(15):
        recorded("again", f"r{number}")
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho paged\nhead -n 2\n")
    pager.chmod(0o755)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, WIDTH, 0, 0))
    environment = {**os.environ, "PAGER": str(pager), "TERM": "xterm", "LINES": str(lines)}
    done = subprocess.Popen(command("runs", "list"), stdout=theirs, stderr=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        shown += data
    assert done.wait(timeout=60) == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    assert ("paged" in text) == (lines == 10)
    assert (text.count("completed") == 15) == (lines == 60)
