"""What hosts answer, spoilt at random: no error of our own, and all that is read of it can be written.

STEELYARD_FUZZ_ANSWERS=100000 pytest tests/execute/test_spoilt_answers.py
"""

import asyncio
import json
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from steelyard.execute import telemetry
from steelyard.execute.counters import GROUPS, changed, read_counters, read_host
from steelyard.execute.host import COMMAND_S, Done, ThisHost
from steelyard.execute.preflight import Needs, judge, preflight
from steelyard.execute.preflight.facts import read_facts
from steelyard.execute.preflight.needs import Secret, Space
from steelyard.execute.preflight.probe import Section, Sections, read_sections
from steelyard.execute.preflight.smi import amd_smi, nvidia_smi, rocm_smi
from steelyard.execute.telemetry import HostTelemetry, TelemetryLostError, read_sample
from steelyard.hardware.catalog import lookup

ANSWERS = int(os.environ.get("STEELYARD_FUZZ_ANSWERS", "500"))
HERE = Path(__file__).parent
VENDORS = ("nvidia", "amd", None)
NEEDS = Needs(
    gpu=lookup("h100"),
    gpu_name="h100",
    gpus_per_node=8,
    image="trainer:1",
    ports=(6000,),
    heads=("a",),
    spaces=(Space("/srv", 1.0),),
    shm_gib=8.0,
    data_path="/data",
    secrets=(Secret("HF_TOKEN", "/root/token"),),
    volumes=("/data",),
    hcas=("mlx5",),
    interfaces=("eth0",),
    multi_node=True,
    memlock_gib=32.0,
    collectives=True,
)
BARE = Needs(collectives=True)

PRINTED: dict[str, list[bytes]] = {
    "host_load": [b"0.10 0.20 0.30 1/200 4242", b"MemTotal: 131992112 kB", b"MemAvailable: 131485012 kB", b"16"],
    "room_0": [b"writable", b"Filesystem 1024-blocks Used Available Capacity Mounted on", b"/dev/a 9 4 5 44% /"],
    "ports": [b"00000000:1770", b"0100007F:0016"],
    "rdma": [b"port mlx5_0/ports/1|4: ACTIVE|Ethernet|400 Gb/sec", b"gid mlx5_0/ports/1|3|RoCE v2|0000:0000:0000:0000"],
    "links": [b"lo|unknown", b"eth0|up"],
    "limits": [b"memlock unlimited", b"nofile 1048576"],
    "versions": [b"/opt/rocm/.info/version 7.0.0-38"],
    "gpu_nodes": [b"/dev/kfd", b"/dev/nvidia0"],
    "data": [b"files 1", b"file 3 " + b"a" * 64 + b" " + b"b" * 64 + b" a.bin"],
    "secret_0": [b"present", b"mode 600"],
    "volume_0": [b"there"],
    "engine": [b"4242"],
    "image": [b'sha256:0123 ["trainer@sha256:0123"]'],
    "nic_counters": [b"net/eth0/statistics/rx_errors:7", b"infiniband/mlx5_0/ports/1/counters/link_downed:1"],
    "kernel_log_and_ends": [b"dmesg", b"[ 1.0] a", b"[ 9.0] b", b"[ 9.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=1"],
    "nvidia_telemetry": [b"0, 94.24, 0, 143771, 0, 345, 3201, 35"],
    "amd_telemetry": [b'[{"gpu": 3, "power": {"socket_power": {"value": 612, "unit": "W"}}, "usage": {}}]'],
    "rocm_telemetry": [b'{"card1": {"GPU use (%)": "7", "VRAM Total Memory (B)": "2147483648"}, "system": {}}'],
} | {
    name: (HERE / path).read_bytes().splitlines()
    for name, path in {
        "kernel_log": "preflight/outputs/dmesg.txt",
        "nvidia_gpus": "preflight/outputs/nvidia_gpus.csv",
        "nvidia_processes": "preflight/outputs/nvidia_processes.csv",
        "nvidia_summary": "preflight/outputs/nvidia_summary.txt",
        "amd_list": "preflight/outputs/amd70_list.json",
        "amd_static": "preflight/outputs/amd70_static.json",
        "amd_metric": "preflight/outputs/amd70_metric.json",
        "amd_processes": "preflight/outputs/amd70_processes.json",
        "amd_version": "preflight/outputs/amd70_version.json",
        "rocm_gpus": "preflight/outputs/rocm_gpus.json",
        "rocm_processes": "preflight/outputs/rocm_processes.json",
        "collectives": "preflight/outputs/all_reduce_perf.txt",
        "nvidia_ecc": "counters/outputs/nvidia_ecc.csv",
        "nvidia_throttle": "counters/outputs/nvidia_throttle.csv",
        "amd_ecc": "counters/outputs/amd63_ecc.json",
        "amd_throttle": "counters/outputs/amd70_throttle.json",
        "rocm_ras": "counters/outputs/rocm_ras.txt",
    }.items()
}
_NASTY = (
    *(b"", b" ", b"\t", b"\r", b"\x00", b"\x1b[31m", b"\xff\xfe", b"\xed\xa0\x80", b'"', b"'", b",", b"|", b"%", b":"),
    *(b"nan", b"NaN", b"-inf", b"Infinity", b"1e999", b"-1", b"1.2.3", b"9" * 25, b"9" * 400, b"9" * 5000),
    *(b"null", b"[]", b"{}", b"[" * 3000, b'{"gpu": [[1]]}', b"N/A", "٣".encode(), b"x" * 200_000),
    *(b"hf_" + b"a" * 30, b"MARK end a 0", b"MARK begin b", b"-5 44%", b"44%"),
)


def spoilt(line: bytes, rng: random.Random) -> bytes:
    at, to = sorted((rng.randint(0, len(line)), rng.randint(0, len(line))))
    match rng.randrange(6):
        case 0:
            return line[:at]
        case 1:
            return line[:at] + rng.choice(_NASTY) + line[to:]
        case 2:
            return rng.choice(_NASTY)
        case 3:
            words = line.split(b" ")
            words[rng.randrange(len(words))] = rng.choice(_NASTY)
            return b" ".join(words)
        case 4:
            return rng.randbytes(rng.randint(0, 40)).replace(b"\n", b"")
        case _:
            return line


def number_spoilt(line: bytes, rng: random.Random) -> bytes:
    """A document that still is one, with another figure in it."""
    head, _, tail = line.rpartition(b": ")
    value = rng.choice((b"NaN", b"1e999", b"-Infinity", b"9" * 25, b"9" * 4000, b"null", b"[]", b"{}", b'"nan"', b"-1"))
    return head + b": " + value + (b"," if tail.endswith(b",") else b"") if head else line


def answer(rng: random.Random) -> bytes:
    """The output of a probe, some of whose lines are spoilt."""
    out = []
    for name, lines in PRINTED.items():
        rate = rng.choice((0.0, 0.02, 0.2))
        change = rng.choice((spoilt, number_spoilt))
        said = [change(line, rng) if rng.random() < rate or len(lines) == 1 else line for line in lines]
        if rng.random() < 0.1:
            rng.shuffle(said)
        if rng.random() < 0.1:
            said = said[: rng.randint(0, 3)]
        status = rng.choice((b"0", b"0", b"0", b"0", b"9", b"absent", b"124", b"9" * 5000, b""))
        out += [b"MARK begin " + name.encode(), *(rng.choice((b" ", b" ", b" ", b"!")) + one for one in said)]
        out.append(b"MARK end " + name.encode() + b" " + status)
    return b"\n".join(out)


def everything_read_of(sections: Sections, earlier: Sections) -> None:
    """All readers, and what is kept of what they read."""
    for read in (nvidia_smi.read, amd_smi.read, rocm_smi.read, nvidia_smi.read_errors, nvidia_smi.read_throttle):
        read(sections)
    for vendor in VENDORS:
        json.dumps(read_sample(sections, vendor), allow_nan=False)
    change = changed(read_counters(earlier), read_counters(sections))
    msgspec.json.encode(change.details())
    facts = {
        host: replace(read_facts(one, 2, 1, 1), collectives=one["collectives"])
        for host, one in (("a", sections), ("b", earlier))
    }
    for needs in (NEEDS, BARE):
        for finding in judge(needs, facts):
            msgspec.json.encode(finding.document())


@pytest.mark.fuzz
def test_no_answer_of_a_host_breaks_a_reader() -> None:
    rng = random.Random(3)
    earlier = read_sections(answer(rng), "MARK")
    for _ in range(ANSWERS):
        out = answer(rng)
        sections = read_sections(out, "MARK")
        try:
            everything_read_of(sections, earlier)
        except Exception as failed:
            failed.add_note(repr(out[:20_000]))
            raise
        earlier = sections


@pytest.mark.fuzz
def test_no_bytes_break_the_cutting_of_an_answer() -> None:
    rng = random.Random(4)
    for _ in range(ANSWERS):
        words = (b"MARK", b" begin ", b" end ", b"a", b" ", b"!", b"\n", b"\n ", b"0", b"9" * 5000, rng.randbytes(9))
        read_sections(b"".join(rng.choices(words, k=rng.randint(0, 60))), "MARK")


LONG = Section(0, ("0, " + "x" * 200_000,))
HUGE = "9" * 5000


@pytest.mark.parametrize("name", ["nvidia_gpus", "nvidia_ecc", "nvidia_throttle", "nvidia_telemetry"])
def test_a_line_too_long_to_be_csv_is_no_answer(name: str) -> None:
    sections = Sections({name: LONG})
    assert nvidia_smi.read(sections) is None
    assert nvidia_smi.read_errors(sections) is None
    assert nvidia_smi.read_throttle(sections) is None
    assert read_sample(sections, "nvidia") == []


def test_programs_whose_pid_is_none_are_not_known() -> None:
    row = "0, GPU-1, NVIDIA H100 80GB HBM3, 570.124.06, 4, 0"
    for processes in (LONG, Section(0, (f"GPU-1, {HUGE}, python3",))):
        seen = nvidia_smi.read(Sections({"nvidia_gpus": Section(0, (row,)), "nvidia_processes": processes}))
        assert seen is not None
        assert seen.processes is None
    for pid in ("NaN", "1e999", "-1", "2.5", HUGE[:4000]):
        listed = Section(0, (f'[{{"gpu": 0, "process_list": [{{"process_info": {{"pid": {pid}}}}}]}}]',))
        seen = amd_smi.read(Sections({"amd_list": Section(0, ('[{"gpu": 0}]',)), "amd_processes": listed}))
        assert seen is not None
        assert seen.processes is None
    cards, pids = Section(0, ('{"card0": {}}',)), Section(0, (f'{{"system": {{"PID{HUGE}": "python3, 8, 1"}}}}',))
    seen = rocm_smi.read(Sections({"rocm_gpus": cards, "rocm_processes": pids}))
    assert seen is not None
    assert seen.processes is None


@pytest.mark.parametrize("said", ["nan", "inf", "-inf", "1e999", "NaN W"])
def test_a_figure_that_is_not_finite_is_absent(said: str) -> None:
    (found,) = read_sample(
        Sections({"nvidia_telemetry": Section(0, (f"0, {said}, 0, 80, 0, 345, 3201, 35",))}), "nvidia"
    )
    assert "power_w" not in found
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@pytest.mark.parametrize(
    ("load", "memory", "cores"),
    [("", 9, "16"), ("high", 9, "16"), ("nan 1", 9, "16"), ("0.1 0.2", 9, "many"), ("0.1", HUGE, "16"), ("1", 9, HUGE)],
)
def test_a_load_that_cannot_be_read_is_no_sample(load: str, memory: object, cores: str) -> None:
    lines = (load, f"MemTotal: {memory} kB", "MemAvailable: 4 kB", cores)
    assert read_sample(Sections({"host_load": Section(0, lines)}), None) == []


def broken(*_: Any, **__: Any) -> Any:
    raise OverflowError("cannot convert float infinity to integer")


class Answering(ThisHost):
    """A host that answers at once."""

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        if argv[0] != "sh":
            return await super().run(argv, stdin, timeout_s)
        lines = [b"%s begin %s\n x\n%s end %s 0\n" % ((argv[3].encode(), name.encode()) * 2) for name in PRINTED]
        return Done(0, b"".join(lines), b"")


def test_a_look_whose_answer_breaks_a_reader_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.execute.counters.read_counters", broken)
    read = asyncio.run(read_host(Answering("a"), 20.0))
    assert set(read.unread) == set(GROUPS)
    assert {one.reason for one in read.unread.values()} == {"unreadable output: OverflowError"}


def test_a_sample_whose_answer_breaks_a_reader_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "read_sample", broken)
    with pytest.raises(TelemetryLostError, match="unreadable output: OverflowError"):
        asyncio.run(HostTelemetry(Answering("a"), None).sample())


def test_a_host_whose_answer_breaks_a_reader_is_unknown_and_the_others_are_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def spoils_one(sections: Sections, *counts: int) -> Any:
        return (
            broken()
            if sections["ports"].answered and sections["limits"].lines == ("x",)
            else read_facts(sections, *counts)
        )

    monkeypatch.setattr("steelyard.execute.preflight.asking.read_facts", spoils_one)
    hosts = [Answering("a"), ThisHost("b")]
    found = asyncio.run(preflight(hosts, Needs(gpu_name="cpu", heads=("a", "b"), ports=(1,))))
    by_host = {(one.host, one.check): one for one in found}
    assert by_host["a", "reach"].status == by_host["b", "reach"].status == "pass"
    assert (by_host["a", "ports"].status, by_host["b", "ports"].status) == ("unknown", "pass")
    assert by_host["a", "kernel_log"].status == "unknown"
    assert "unreadable output: OverflowError" in by_host["a", "kernel_log"].message
