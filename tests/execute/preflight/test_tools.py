"""What recorded outputs of the vendors' tools are read as."""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

import pytest

from bounds import bounded
from steelyard.execute.host import COMMAND_S, Done, ThisHost
from steelyard.execute.preflight.collectives import bus_bandwidth
from steelyard.execute.preflight.facts import read_facts
from steelyard.execute.preflight.kernel_log import complaints
from steelyard.execute.preflight.probe import Section, Sections, probe, read_sections
from steelyard.execute.preflight.smi import amd_smi, nvidia_smi, rocm_smi

Recorded = Callable[..., Sections]
OUTPUTS = Path(__file__).parent / "outputs"


def test_nvidia_smi_is_read(recorded: Recorded) -> None:
    seen = nvidia_smi.read(
        recorded(
            nvidia_gpus="nvidia_gpus.csv", nvidia_processes="nvidia_processes.csv", nvidia_summary="nvidia_summary.txt"
        )
    )
    assert seen is not None
    assert [gpu.name for gpu in seen.gpus] == ["NVIDIA H100 80GB HBM3"] * 8
    assert seen.gpus[3].utilization_percent == 97
    assert seen.gpus[3].memory_used_gib == pytest.approx(59.8, abs=0.1)
    assert [(one.pid, one.command) for one in seen.processes or ()] == [(48213, "/usr/bin/python3.11, with a comma")]
    assert (seen.driver, seen.stack) == ("570.124.06", "13.0")


def test_nvidia_smi_that_does_not_know_is_unknown() -> None:
    row = "0, GPU-1, NVIDIA H100 80GB HBM3, 570.124.06, [N/A], [Not Supported]"
    seen = nvidia_smi.read(Sections({"nvidia_gpus": Section(0, (row,)), "nvidia_processes": Section(9, ())}))
    assert seen is not None
    assert seen.gpus[0].memory_used_gib is None
    assert seen.gpus[0].utilization_percent is None
    assert seen.processes is None
    assert seen.stack is None


def test_nvidia_smi_that_failed_or_says_something_else_is_no_answer() -> None:
    failed = Section(9, ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",))
    assert nvidia_smi.read(Sections({"nvidia_gpus": failed})) is None
    assert nvidia_smi.read(Sections({"nvidia_gpus": Section(0, ("No devices were found",))})) is None
    facts = read_facts(Sections({"nvidia_gpus": failed}))
    assert "couldn't communicate" in facts.gpu_tools["nvidia"]


def test_amd_smi_of_rocm_6_is_read(recorded: Recorded) -> None:
    names = {f"amd_{part}": f"amd62_{part}.json" for part in ("list", "static", "metric", "processes", "version")}
    seen = amd_smi.read(recorded(**names))
    assert seen is not None
    assert [gpu.name for gpu in seen.gpus] == ["AMD Instinct MI300X OAM"] * 8
    assert seen.gpus[0].memory_used_gib == pytest.approx(285 / 1024)
    assert seen.gpus[0].utilization_percent == 0
    assert seen.processes == ()
    assert (seen.driver, seen.stack) == (None, "6.2.0")


def test_amd_smi_of_rocm_7_is_read_past_its_warning(recorded: Recorded) -> None:
    names = {f"amd_{part}": f"amd70_{part}.json" for part in ("list", "static", "metric", "processes", "version")}
    seen = amd_smi.read(recorded(**names))
    assert seen is not None
    assert {gpu.name for gpu in seen.gpus} == {"AMD Instinct MI355X"}
    assert seen.gpus[2].memory_used_gib == pytest.approx(225.6, abs=0.1)
    assert [(one.pid, one.command) for one in seen.processes or ()] == [(28389, "python3")]
    assert (seen.driver, seen.stack) == ("6.14.14", "7.0.0")


def test_amd_smi_whose_processes_cannot_be_read_has_unknown_ones(recorded: Recorded) -> None:
    sections = recorded(amd_list="amd62_list.json")
    sections.by_name["amd_processes"] = Section(0, ('[{"gpu": 0, "process_list": [{"process_info": "denied"}]}]',))
    seen = amd_smi.read(sections)
    assert seen is not None
    assert seen.processes is None


def test_rocm_smi_is_read(recorded: Recorded) -> None:
    seen = rocm_smi.read(recorded(rocm_gpus="rocm_gpus.json", rocm_processes="rocm_processes.json"))
    assert seen is not None
    assert [gpu.index for gpu in seen.gpus] == [str(at) for at in range(8)]
    assert seen.gpus[0].name == "AMD Instinct MI300X OAM"
    assert seen.gpus[0].memory_used_gib == pytest.approx(0.276, abs=0.001)
    assert [one.command for one in seen.processes or ()] == ["llama-server"]
    assert (seen.driver, seen.stack) == ("6.8.5", None)


def test_rocm_smi_without_json_about_processes_has_none(recorded: Recorded) -> None:
    sections = recorded(rocm_gpus="rocm_gpus.json")
    sections.by_name["rocm_processes"] = Section(0, ("WARNING: No JSON data to report",))
    seen = rocm_smi.read(sections)
    assert seen is not None
    assert seen.processes == ()


def test_the_bandwidth_of_the_largest_message_is_read() -> None:
    lines = tuple((OUTPUTS / "all_reduce_perf.txt").read_text().splitlines())
    assert bus_bandwidth(Section(0, lines)) == (314.09, True)
    wrong = tuple(line.replace("314.09      0", "314.09     17") for line in lines)
    assert bus_bandwidth(Section(0, wrong)) == (314.09, False)
    assert bus_bandwidth(Section(1, ("out of memory",))) == (None, True)


def test_the_kernel_log_s_complaints_are_told_from_its_chatter() -> None:
    found = {one.name: lines for one, lines in complaints((OUTPUTS / "dmesg.txt").read_text().splitlines())}
    assert {what: len(lines) for what, lines in found.items()} == {
        "Xid": 2,
        "uncorrectable memory errors": 1,
        "GPU reset": 2,
        "corrected PCIe errors": 1,
        "link down": 1,
        "out of memory": 1,
    }
    assert "7500" in found["link down"][0]
    assert "Node Reboot Required" in found["Xid"][-1]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("pcieport 0000:15:01.0: AER: Corrected error received: 0000:15:00.0", "corrected PCIe errors"),
        ("pcieport 0000:15:01.0: AER: Multiple Correctable error message received from 0", "corrected PCIe errors"),
        ("nvme 0000:15:01.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer", "corrected PCIe errors"),
        ("nvme 0000:15:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Data Link Layer", "PCIe errors"),
    ],
)
def test_pcie_errors_that_were_corrected_are_told_apart(line: str, what: str) -> None:
    assert [one.name for one, _ in complaints([line])] == [what]


def test_rdma_ports_and_their_gids_are_read() -> None:
    lines = (
        "port bnxt_re0/ports/1|4: ACTIVE|Ethernet|400 Gb/sec (4X NDR)",
        "gid bnxt_re0/ports/1|0|IB/RoCE v1|fe80:0000:0000:0000:5aa2:e1ff:fe36:abcd",
        "gid bnxt_re0/ports/1|3|RoCE v2|0000:0000:0000:0000:0000:ffff:0a00:0001",
        "port bnxt_re1/ports/1|1: DOWN|Ethernet|2.5 Gb/sec (1X SDR)",
    )
    ports = read_facts(Sections({"rdma": Section(0, lines)})).rdma
    assert ports is not None
    assert [(port.device, port.state) for port in ports] == [("bnxt_re0", "ACTIVE"), ("bnxt_re1", "DOWN")]
    assert [(gid.index, gid.kind, gid.is_ipv4) for gid in ports[0].gids] == [
        (0, "IB/RoCE v1", False),
        (3, "RoCE v2", True),
    ]


def test_what_no_section_says_is_none() -> None:
    facts = read_facts(Sections({}), rooms=1, secrets=1)
    assert facts.gpus == {}
    assert facts.gpu_vendors is None
    assert facts.rooms == (None,)
    assert facts.secrets == (None,)
    assert (facts.listening, facts.rdma, facts.memlock_kib, facts.nofile, facts.kernel_log) == (None,) * 5
    assert facts.data is None
    assert facts.image is None


@pytest.mark.parametrize(
    ("section", "lines"),
    [
        ("room_0", ("writable", "df: something else")),
        ("ports", ("no address",)),
        ("data", ("files 2", "file 3 abc def a.bin")),
        ("data", ("files many",)),
        ("limits", ("memlock lots", "nofile -1")),
    ],
)
def test_an_answer_that_cannot_be_read_is_none(section: str, lines: tuple[str, ...]) -> None:
    facts = read_facts(Sections({section: Section(0, lines)}), rooms=1)
    assert (facts.rooms, facts.listening, facts.data, facts.nofile) == ((None,), None, None, None)


def test_a_section_cannot_be_forged_or_left_by_what_a_tool_prints() -> None:
    out = (
        b"MARK begin a\n MARK end a 0\n MARK begin b\n \x1b[31mred\r\n!MARK end a 0\n\nMARK end a 3\nMARK begin c\n cut"
    )
    sections = read_sections(out, "MARK")
    assert set(sections.by_name) == {"a"}
    assert sections["a"].status == 3
    assert sections["a"].lines == ("MARK end a 0", "MARK begin b", "\\x1b[31mred")
    assert sections["a"].reason == "MARK end a 0"
    assert sections["c"].status is None


def test_a_secret_in_what_a_tool_prints_is_not_read() -> None:
    token = b"hf_" + b"abcdefgh" * 4
    out = b"MARK begin a\n trainer --token %b\n!denied: password=kanarienvogel1\nMARK end a 3\n" % token
    section = read_sections(out, "MARK")["a"]
    assert section.lines == ("trainer --token [redacted]",)
    assert section.reason == "denied: password=[redacted]"


def test_a_kernel_log_line_of_any_length_is_read() -> None:
    lines = ["uncorrected " * 10_000, "amdgpu " * 10_000, "NVRM: Xid 79 " + "uncorrected " * 10_000]
    with bounded():
        assert [(one.name, len(found)) for one, found in complaints(lines)] == [("Xid", 1)]


HELD = """#!/bin/sh
setsid sh -c 'sleep 300; : {name}' &
echo said
echo 'a complaint' >&2
exit 3
"""


def running(words: str) -> list[int]:
    """Processes whose command holds these words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if words.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("shell", ["sh", "busybox"])
@pytest.mark.processes
def test_a_tool_that_leaves_a_child_behind_keeps_nothing_of_ours_there(
    tools: Callable[..., Path], tmp_path: Path, shell: str
) -> None:
    """The child has the tool's output open for as long as it lives; what we read it with must not wait for that."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    mark, name = secrets.token_hex(16), tmp_path.name
    folder = tools(all_reduce_perf=HELD.format(name=name))
    script = resources.files("steelyard.execute.preflight").joinpath("probe.sh").read_bytes()
    argv = [*(("busybox", "sh") if shell == "busybox" else ("sh",)), "-s", "--", mark, "5", "collectives", "8"]
    try:
        began = time.monotonic()
        done = asyncio.run(ThisHost().run(["env", f"PATH={folder}:/usr/bin:/bin", *argv], script, timeout_s=20.0))
        assert time.monotonic() - began < 4
        assert running(f": {name}"), "the child lives on"
        assert running(mark) == []
    finally:
        for pid in running(f": {name}"):
            os.killpg(pid, signal.SIGKILL)
    section = read_sections(done.out, mark)["collectives"]
    assert (section.status, section.lines, section.complaint) == (3, ("said",), "a complaint")


@pytest.mark.parametrize(
    ("script", "status", "lines", "complaint"),
    [
        ("", 0, (), ""),
        ("printf 'a\\nb'", 0, ("a", "b"), ""),
        ("printf '\\n\\na\\n\\n'", 0, ("", "", "a", ""), ""),
        ("echo a; echo why >&2; exit 9", 9, ("a",), "why"),
        ("printf why >&2; exit 9", 9, (), "why"),
        ("echo a; sleep 60", 124, ("a",), ""),
        ("echo 3 >&2; echo '!4'", 0, ("!4",), "3"),
    ],
)
def test_what_a_tool_prints_is_told_to_the_byte(
    tools: Callable[..., Path], script: str, status: int, lines: tuple[str, ...], complaint: str
) -> None:
    section = asyncio.run(printed_by(tools(all_reduce_perf=f"#!/bin/sh\n{script}\n")))
    assert (section.status, section.lines, section.complaint) == (status, lines, complaint)


@pytest.mark.parametrize("to", ["", ">&2"])
def test_a_tool_that_prints_without_end_is_cut_short(tools: Callable[..., Path], to: str) -> None:
    section = asyncio.run(printed_by(tools(all_reduce_perf=f"#!/bin/sh\nyes 123456789 {to}\n")))
    assert section.status == 141
    assert len("\n".join(section.lines)) <= 1 << 22
    assert (len(section.lines) > 400_000) == (not to)


async def printed_by(folder: Path) -> Section:
    class Here(ThisHost):
        async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
            return await super().run(["env", f"PATH={folder}:/usr/bin:/bin", *argv], stdin, timeout_s)

    return (await probe(Here(), ["collectives", "8"], 1, 20.0))["collectives"]
