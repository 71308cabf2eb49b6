"""What a host counts of its own troubles, from what its tools and its kernel say."""

import asyncio
import importlib.util
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from steelyard.execute.counters import GROUPS, HostCounter, Reading, changed, read_counters, read_host
from steelyard.execute.host import COMMAND_S, Done, LinkLostError, ThisHost
from steelyard.execute.preflight.probe import Section, Sections, read_sections
from steelyard.records.host_change import ECC, KERNEL_LOG, NETWORK, THROTTLE

_SPEC = importlib.util.spec_from_file_location("preflight_hosts", Path(__file__).parents[1] / "preflight/conftest.py")
assert _SPEC is not None
assert _SPEC.loader is not None
_HOSTS = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_HOSTS)
AlteredHost = _HOSTS.AlteredHost

OUTPUTS = Path(__file__).parent / "outputs"
NODES = {"nvidia": Section(0, ("/dev/nvidia0",)), "amd": Section(0, ("/dev/kfd",)), "none": Section(0, ())}
FAILED = Section(9, (), "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
ABSENT = Section(None, ())
HUNG = Section(124, ())


def printed(name: str) -> Section:
    return Section(0, tuple((OUTPUTS / name).read_text().replace("\t", " ").splitlines()))


def of(reading: Reading, group: str) -> dict[tuple[str, str], int]:
    return {(one.device, one.name): value for one, value in reading.counts.items() if one.group == group}


def gpus(**sections: Section) -> Reading:
    return read_counters(Sections(sections), (ECC, THROTTLE))


def test_nvidia_smi_s_counts_are_read() -> None:
    read = gpus(
        gpu_nodes=NODES["nvidia"],
        nvidia_ecc=printed("nvidia_ecc.csv"),
        nvidia_throttle=printed("nvidia_throttle.csv"),
    )
    assert not read.unread
    ecc, held = of(read, ECC), of(read, THROTTLE)
    assert (len(ecc), len(held)) == (6, 12)
    assert ecc["gpu2 at 00000000:52:00.0", "uncorrected"] == 3
    assert ecc["gpu1 at 00000000:43:00.0", "corrected"] == 12
    assert held["gpu0 at 00000000:1B:00.0", "sw_power_cap_us"] == 91_403_239
    assert held["gpu1 at 00000000:43:00.0", "sw_thermal_slowdown_us"] == 1200


def test_what_an_idle_h200_answered_is_read() -> None:
    """Recorded with driver 580.159.04."""
    read = read_counters(read_sections((OUTPUTS / "h200_probe.txt").read_bytes(), "MARK"), (ECC, THROTTLE, NETWORK))
    assert not read.unread
    assert of(read, ECC) == {("gpu0 at 00000000:00:06.0", name): 0 for name in ("corrected", "uncorrected")}
    assert len(of(read, THROTTLE)) == 4
    network = of(read, NETWORK)
    assert network["eth0", "carrier_down_count"] == 1
    assert ("eth0", "rx_bytes") not in network
    assert ("eth0", "rx_crc_errors") in network


def test_an_older_nvidia_driver_counts_errors_and_no_throttling() -> None:
    said = 'Field "clocks_event_reasons_counters.sw_power_cap" is not a valid field to query.'
    read = gpus(gpu_nodes=NODES["nvidia"], nvidia_ecc=printed("nvidia_ecc.csv"), nvidia_throttle=Section(2, (said,)))
    assert len(of(read, ECC)) == 6
    assert set(read.unread) == {THROTTLE}
    assert "not a valid field" in read.unread[THROTTLE].reason
    assert read.unread[THROTTLE].fix


def test_gpus_without_ecc_are_unknown_and_not_without_errors() -> None:
    rows = Section(0, ("0, 00000000:1B:00.0, [N/A], [N/A]", "1, 00000000:43:00.0, [Not Supported], [Not Supported]"))
    read = gpus(gpu_nodes=NODES["nvidia"], nvidia_ecc=rows, nvidia_throttle=printed("nvidia_throttle.csv"))
    assert of(read, ECC) == {}
    assert read.unread[ECC].reason == "nvidia-smi: no memory error counts"


def test_amd_smi_of_rocm_6_and_7_is_read() -> None:
    read = gpus(gpu_nodes=NODES["amd"], amd_ecc=printed("amd63_ecc.json"), amd_throttle=printed("amd70_throttle.json"))
    assert not read.unread
    assert of(read, ECC) == {("gpu0", "corrected"): 5, ("gpu0", "uncorrected"): 0, ("gpu0", "deferred"): 1}
    assert of(read, THROTTLE) == {
        ("gpu0", "prochot_accumulated"): 0,
        ("gpu0", "ppt_accumulated"): 2,
        ("gpu0", "socket_thermal_accumulated"): 0,
        ("gpu0", "vr_thermal_accumulated"): 0,
    }


def test_rocm_smi_s_table_is_summed_over_its_blocks_and_tells_no_throttling() -> None:
    read = gpus(gpu_nodes=NODES["amd"], amd_ecc=ABSENT, rocm_ras=printed("rocm_ras.txt"))
    assert of(read, ECC) == {
        ("gpu0", "corrected"): 7,
        ("gpu0", "uncorrected"): 2,
        ("gpu1", "corrected"): 0,
        ("gpu1", "uncorrected"): 0,
    }
    assert set(read.unread) == {THROTTLE}
    assert "rocm-smi: no throttle counts" in read.unread[THROTTLE].reason


@pytest.mark.parametrize(
    ("section", "reason"),
    [(FAILED, "couldn't communicate"), (ABSENT, "not installed"), (HUNG, "timed out")],
)
def test_gpus_whose_tool_does_not_answer_are_unknown(section: Section, reason: str) -> None:
    read = gpus(gpu_nodes=NODES["nvidia"], nvidia_ecc=section, amd_ecc=ABSENT, rocm_ras=ABSENT)
    assert read.counts == {}
    assert set(read.unread) == {ECC, THROTTLE}
    assert all(reason in one.reason and "amd-smi" not in one.reason for one in read.unread.values())


@pytest.mark.parametrize("section", [FAILED, ABSENT])
def test_a_host_without_gpus_has_none_to_count_whatever_is_installed(section: Section) -> None:
    read = gpus(gpu_nodes=NODES["none"], nvidia_ecc=section, amd_ecc=ABSENT, rocm_ras=ABSENT)
    assert (read.counts, read.unread) == ({}, {})


def test_a_job_on_cpus_has_no_need_of_tools_but_is_told_of_those_that_fail() -> None:
    absent = Sections({"gpu_nodes": NODES["nvidia"], "nvidia_ecc": ABSENT})
    assert read_counters(absent, (ECC, THROTTLE), ()).unread == {}
    assert set(read_counters(absent, (ECC, THROTTLE), ("nvidia",)).unread) == {ECC, THROTTLE}
    hung = Sections({"gpu_nodes": NODES["nvidia"], "nvidia_ecc": HUNG})
    assert set(read_counters(hung, (ECC, THROTTLE), ()).unread) == {ECC, THROTTLE}


def test_a_vendor_that_is_silent_hides_nothing_of_another() -> None:
    both = Section(0, ("/dev/kfd", "/dev/nvidia0"))
    read = gpus(gpu_nodes=both, nvidia_ecc=ABSENT, amd_ecc=printed("amd63_ecc.json"))
    assert read.unread[ECC].reason == "nvidia-smi: not installed"
    assert of(read, ECC)["gpu0", "corrected"] == 5


def test_where_devices_cannot_be_listed_a_tool_that_fails_is_unknown() -> None:
    assert set(gpus(gpu_nodes=HUNG, nvidia_ecc=FAILED).unread) == {ECC, THROTTLE}
    assert gpus(gpu_nodes=HUNG, nvidia_ecc=ABSENT).unread == {}


@pytest.mark.parametrize("text", ["18446744073709551615", "-1", "1.5", "0x10", "ERR!", ""])
def test_what_is_no_count_is_not_counted(text: str) -> None:
    read = gpus(gpu_nodes=NODES["nvidia"], nvidia_ecc=Section(0, (f"0, 0000:1B:00.0, 4, {text}",)))
    assert of(read, ECC) == {("gpu0 at 0000:1B:00.0", "corrected"): 4}


def sysfs(root: Path, **files: int | str) -> Path:
    """A tree as /sys is, from `net__eth0__statistics__rx_errors=1`."""
    for name, value in files.items():
        path = root / "class" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    return root


def looked(tmp_path: Path, groups: Sequence[str] = (NETWORK,), **files: int | str) -> Reading:
    host = AlteredHost("a", paths={"/sys": str(sysfs(tmp_path, **files))})
    return asyncio.run(read_host(host, 20.0, groups))


def test_errors_of_network_cards_are_read_and_traffic_is_not(tmp_path: Path) -> None:
    port = "infiniband__mlx5_0__ports__1__"
    read = looked(
        tmp_path,
        net__eth0__device="",
        net__eth0__statistics__rx_bytes=10**12,
        net__eth0__statistics__rx_dropped=7,
        net__eth0__statistics__rx_crc_errors=1,
        net__eth0__carrier_down_count=2,
        net__docker0__statistics__rx_dropped=9,
        net__docker0__carrier_down_count=44,
        **{
            f"{port}counters__link_downed": 3,
            f"{port}counters__symbol_error": 65535,
            f"{port}counters__port_rcv_data": 10**15,
            f"{port}hw_counters__out_of_sequence": 11,
            f"{port}hw_counters__rnr_nak_retry_err": 0,
            f"{port}hw_counters__roce_adp_retrans": 5,
            f"{port}hw_counters__np_cnp_sent": 80000,
            f"{port}hw_counters__lifespan": 10,
        },
    )
    assert not read.unread
    assert of(read, NETWORK) == {
        ("eth0", "rx_dropped"): 7,
        ("eth0", "rx_crc_errors"): 1,
        ("eth0", "carrier_down_count"): 2,
        ("mlx5_0 port 1", "link_downed"): 3,
        ("mlx5_0 port 1", "symbol_error"): 65535,
        ("mlx5_0 port 1", "out_of_sequence"): 11,
        ("mlx5_0 port 1", "rnr_nak_retry_err"): 0,
        ("mlx5_0 port 1", "roce_adp_retrans"): 5,
    }


def test_a_host_without_that_tree_is_unknown(tmp_path: Path) -> None:
    read = asyncio.run(read_host(AlteredHost("a", paths={"/sys": str(tmp_path / "none")}), 20.0, (NETWORK,)))
    assert set(read.unread) == {NETWORK}


def made(folder: Path, **programs: str) -> Path:
    folder.mkdir()
    for name, text in programs.items():
        (folder / name.replace("_", "-")).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name.replace("_", "-")).chmod(0o755)
    return folder


def test_one_round_trip_asks_for_everything(tmp_path: Path) -> None:
    tools = made(
        tmp_path / "tools",
        dmesg="echo '[    0.000000] Linux version 6.8.0'; echo '[ 12.5] NVRM: Xid (PCI:0000:3b:00): 63, row remap'",
        nvidia_smi=f"cd '{OUTPUTS}'; case $* in *ecc*) cat nvidia_ecc.csv ;; *) cat nvidia_throttle.csv ;; esac",
    )
    asked = list[Sequence[str]]()

    class Counting(AlteredHost):  # type: ignore[misc, valid-type]
        async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
            asked.append(argv)
            done: Done = await super().run(argv, stdin, timeout_s)
            return done

    read = asyncio.run(read_host(Counting("a", tools), 20.0))
    assert len(asked) == 1
    assert not read.unread
    assert read.kernel_log is not None
    assert read.kernel_log.lines == ("[ 12.5] NVRM: Xid (PCI:0000:3b:00): 63, row remap",)
    assert read.kernel_log.oldest.startswith("[    0.000000]")
    assert read.kernel_log.newest == read.kernel_log.lines[0]
    assert read.kernel_log.source == "dmesg"
    assert read.counts[HostCounter(ECC, "gpu2 at 00000000:52:00.0", "uncorrected")] == 3
    assert len(of(read, THROTTLE)) == 12


def test_a_kernel_log_that_is_closed_to_us_is_unknown_with_what_opens_it(tmp_path: Path) -> None:
    denied = "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1"
    tools = made(tmp_path / "tools", dmesg=denied, journalctl="exit 1")
    read = asyncio.run(read_host(AlteredHost("a", tools), 20.0, (KERNEL_LOG,)))
    assert read.kernel_log is None
    assert "Operation not permitted" in read.unread[KERNEL_LOG].reason
    assert "dmesg_restrict" in read.unread[KERNEL_LOG].fix


def test_who_told_the_kernel_log_is_known_and_two_of_them_are_not_compared(tmp_path: Path) -> None:
    """dmesg answers at the first look only; what the journal then tells in other words is old."""
    xid = "NVRM: Xid (PCI:0000:3b:00): 63, row remap"
    once = f"[ ! -e '{tmp_path}/asked' ] || exit 1; : > '{tmp_path}/asked'; echo '[ 12.5] {xid}'"
    tools = made(tmp_path / "tools", dmesg=once, journalctl=f"echo 'Jan 20 10:00:00 gpu01 kernel: {xid}'")
    host = AlteredHost("a", tools)
    before, after = (asyncio.run(read_host(host, 20.0, (KERNEL_LOG,))) for _ in range(2))
    assert [one.kernel_log.source for one in (before, after) if one.kernel_log] == ["dmesg", "journalctl"]
    change = changed(before, after)
    assert change.kernel == ()
    assert [one.group for one in change.unread] == [KERNEL_LOG]


def test_a_secret_that_a_host_says_is_not_kept(tmp_path: Path) -> None:
    token = "hf_" + "abcdefgh" * 4
    tools = made(
        tmp_path / "tools",
        dmesg=f"echo '[ 12.5] NVRM: Xid (PCI:0000:3b:00): 63, pid=1, name=trainer --token {token}'",
        nvidia_smi=f"echo 'no licence for {token}' >&2; exit 9",
    )
    read = asyncio.run(read_host(AlteredHost("a", tools), 20.0))
    assert read.kernel_log is not None
    assert read.kernel_log.lines[0].endswith("--token [redacted]")
    assert token not in repr(read)


def test_a_tool_that_hangs_costs_its_own_answer_and_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.execute.counters.TOOL_S", 1)
    calls = tmp_path / "calls"
    tools = made(
        tmp_path / "tools",
        dmesg="echo '[ 1.0] Linux version 6.8.0'",
        amd_smi=f"echo amd >> {calls}; sleep 60",
        rocm_smi=f"echo rocm >> {calls}; sleep 60",
    )
    began = time.monotonic()
    read = asyncio.run(read_host(AlteredHost("a", tools), 20.0))
    assert time.monotonic() - began < 15
    assert calls.read_text().split() == ["amd"]
    assert read.kernel_log is not None
    assert NETWORK not in read.unread


def test_a_host_that_is_lost_or_too_slow_makes_a_reading_that_says_so() -> None:
    class Slow(ThisHost):
        async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
            await asyncio.sleep(30)
            raise AssertionError("nobody waits so long")

    class Lost(ThisHost):
        async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
            raise LinkLostError(self.name, "no answer within 15 s")

    for host, reason in ((Slow("a"), "no answer within 0.2 s"), (Lost("a"), "no answer within 15 s")):
        read = asyncio.run(read_host(host, 0.2))
        assert set(read.unread) == set(GROUPS)
        assert {one.reason for one in read.unread.values()} == {reason}
