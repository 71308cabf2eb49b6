"""The check of what hosts counted while they trained: what fails, what is told, what is not known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard import records, verdict
from steelyard.records.host_change import (
    ECC,
    KERNEL_LOG,
    NETWORK,
    THROTTLE,
    CounterChange,
    HostChange,
    KernelComplaint,
    Unread,
)
from steelyard.verdict import Finding, Verdict
from steelyard.verdict.checks import hosts

COMPARED = {KERNEL_LOG: 0, ECC: 16, THROTTLE: 32, NETWORK: 96}
XID = "[  200.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


def counter(group: str, device: str, name: str, before: int | None, after: int | None) -> CounterChange:
    return CounterChange(group=group, device=device, name=name, before=before, after=after)


def complaint(what: str, *lines: str) -> KernelComplaint:
    return KernelComplaint(what=what, fix="drain the host", count=len(lines), lines=lines)


@pytest.fixture
def judged(recorded: Callable[..., Any]) -> Callable[..., Verdict]:
    """Judge a healthy run with what its hosts counted."""

    def judge(**changes: HostChange | dict[str, Any]) -> Verdict:
        run = recorded()
        for node, change in changes.items():
            details = change.details() if isinstance(change, HostChange) else change
            run.add_event(kind="host_counters", message="", node=node, details=details)
        return verdict.judge(verdict.read_subject(records.load(Path(run))))

    return judge


def of_hosts(judged: Verdict) -> list[Finding]:
    return [one for one in judged.findings if one.check == "hosts"]


def changed(*counters: CounterChange, **others: Any) -> HostChange:
    return HostChange(compared=COMPARED, counters=counters, **others)


def test_hosts_that_counted_nothing_pass_in_one_sentence(judged: Callable[..., Verdict]) -> None:
    found = judged(gpu01=changed(), gpu02=changed())
    (passed,) = of_hosts(found)
    assert (passed.code, passed.reason.values["hosts"]) == (hosts.HOSTS_HEALTHY, ("gpu01", "gpu02"))
    assert found.status == "pass"


def test_a_run_whose_hosts_were_not_asked_is_not_judged_by_them(judged: Callable[..., Verdict]) -> None:
    found = judged()
    assert not of_hosts(found)
    assert hosts.HOSTS_NOT_READ in {one.code for one in found.not_applicable}
    assert found.status == "pass"


@pytest.mark.parametrize(
    ("group", "device", "name"),
    [(ECC, "gpu3", "uncorrected"), (NETWORK, "mlx5_0 port 1", "link_downed"), (NETWORK, "eth0", "carrier_down_count")],
)
def test_growth_that_means_broken_hardware_fails_with_host_figures_and_remedy(
    judged: Callable[..., Verdict], group: str, device: str, name: str
) -> None:
    found = judged(gpu01=changed(), gpu02=changed(counter(group, device, name, 1, 1_003)))
    failed = of_hosts(found)[0]
    assert (failed.status, found.status) == ("fail", "fail")
    fix = hosts.HARD[group, name]
    assert failed.code is hosts.HARDWARE_COUNTER_GREW
    assert (failed.reason.values["host"], failed.reason.values["fix"]) == ("gpu02", fix)
    assert failed.message == f"gpu02: {name} grew during the run: {device} (1 to 1,003); {fix}"
    assert (failed.observed, failed.expected) == (1_002, 0)
    assert failed.evidence is not None
    run = found.run / failed.evidence.file
    assert '"node": "gpu02"' in run.read_text().splitlines()[failed.evidence.line - 1]


def test_several_devices_of_a_host_are_one_finding(judged: Callable[..., Verdict]) -> None:
    (failed,) = of_hosts(judged(gpu01=changed(*(counter(ECC, f"gpu{at}", "uncorrected", 0, 2) for at in range(8)))))
    assert failed.observed == 16
    assert failed.message.count("(0 to 2)") == 6
    assert "and 2 more" in failed.message


def test_a_new_complaint_of_the_kernel_fails_with_its_line(judged: Callable[..., Verdict]) -> None:
    found = judged(gpu01=changed(kernel=(complaint("Xid", "[ 1.0] earlier", XID),)))
    assert found.status == "fail"
    (failed,) = of_hosts(found)
    assert failed.code is hosts.KERNEL_ERRORS
    assert failed.message == f"gpu01: Xid in the kernel log, 2 new lines, last: {XID}; drain the host"


def test_what_alone_is_no_fault_is_told_with_its_figures(judged: Callable[..., Verdict]) -> None:
    soft = [
        counter(ECC, "gpu1", "corrected", 3, 40),
        counter(NETWORK, "eth0", "rx_dropped", 0, 12),
        counter(NETWORK, "mlx5_0 port 1", "out_of_sequence", 7, 9),
        *(counter(THROTTLE, f"gpu{at}", "sw_power_cap_us", 10, 1_000 * at + 20) for at in range(8)),
    ]
    found = judged(gpu01=changed(*soft, kernel=(complaint("corrected PCIe errors", "[ 9.0] AER"),)))
    assert found.status == "pass"
    grown, passed = of_hosts(found)
    assert (grown.code, grown.status) == (hosts.SOFT_COUNTERS_GREW, "pass")
    for words in (
        "corrected PCIe errors (1 new line)",
        "corrected (gpu1, 3 to 40)",
        "rx_dropped (eth0, 0 to 12)",
        "out_of_sequence (mlx5_0 port 1, 7 to 9)",
        "sw_power_cap_us (8 devices, most on gpu7, 10 to 7,020)",
    ):
        assert words in grown.message
    assert (passed.code, passed.reason.values["hosts"]) == (hosts.HOSTS_HEALTHY, ("gpu01",))


@pytest.mark.parametrize(("before", "after"), [(900, 4), (900, None), (None, 4), (255, 255)])
def test_what_went_back_or_away_is_not_known_and_no_growth(
    judged: Callable[..., Verdict], before: int | None, after: int | None
) -> None:
    change = changed(counter(NETWORK, "mlx5_0 port 1", "link_downed", before, after))
    (unknown,) = of_hosts(judged(gpu01=change))
    assert (unknown.status, unknown.required) == ("unknown", False)
    assert unknown.code is hosts.COUNTER_GROWTH_UNKNOWN
    assert unknown.reason.values["changes"] == change.counters


def test_what_could_not_be_read_is_unknown_once_for_the_hosts_that_say_the_same(
    judged: Callable[..., Verdict],
) -> None:
    closed = HostChange(compared={}, unread=(Unread(group=KERNEL_LOG, reason="not permitted", fix="open it"),))
    found = judged(gpu01=closed, gpu02=closed, gpu03=changed())
    unknown, passed = of_hosts(found)
    assert (unknown.code, unknown.status, unknown.required) == (hosts.COUNTERS_UNREAD, "unknown", False)
    values = unknown.reason.values
    assert [values[key] for key in ("hosts", "why", "fix")] == [("gpu01", "gpu02"), "not permitted", "open it"]
    assert (passed.code, passed.reason.values["hosts"]) == (hosts.HOSTS_HEALTHY, ("gpu03",))
    assert found.status == "pass"


def test_a_host_that_failed_and_is_unknown_in_part_is_both(judged: Callable[..., Verdict]) -> None:
    change = HostChange(
        compared={NETWORK: 4},
        counters=(counter(NETWORK, "eth0", "carrier_down_count", 1, 2),),
        unread=(Unread(group=ECC, reason="nvidia-smi: it took too long", fix="run it"),),
    )
    assert [one.status.value for one in of_hosts(judged(gpu01=change))] == ["fail", "unknown"]


BELOW_NOTHING = {"group": ECC, "device": "gpu0", "name": "uncorrected", "before": -4, "after": 1}


@pytest.mark.parametrize(
    "details",
    [
        {},
        {"compared": {}},
        {"compared": {ECC: 1}, "counters": [BELOW_NOTHING]},
        {"compared": 3},
        {"compared": {NETWORK: 1}, "kernel": "none"},
    ],
)
def test_an_event_that_says_nothing_or_something_else_is_never_a_pass(
    judged: Callable[..., Verdict], details: dict[str, Any]
) -> None:
    assert [one.status.value for one in of_hosts(judged(gpu01=details))] == ["unknown"]
