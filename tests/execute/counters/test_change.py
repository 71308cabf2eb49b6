"""What changed on a host between two looks at it."""

import json
from dataclasses import replace

import pytest

from steelyard.execute.counters import HostCounter, KernelLog, Reading, changed, nothing_read
from steelyard.records import Event
from steelyard.records.host_change import (
    ECC,
    KERNEL_LOG,
    NETWORK,
    THROTTLE,
    HostChange,
    read_change,
)
from steelyard.records.step import event_of, to_line

LOG = KernelLog((), "[    1.0] a", "[  100.0] b")
ERRORS = HostCounter(ECC, "gpu3", "uncorrected")
DROPS = HostCounter(NETWORK, "eth0", "rx_dropped")
XID = "[  200.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


def reading(log: KernelLog | None = LOG, **counts: int) -> Reading:
    named = {"errors": ERRORS, "drops": DROPS, "links": HostCounter(NETWORK, "mlx5_0 port 1", "link_downed")}
    return Reading({named[name]: value for name, value in counts.items()}, log)


def said(change: HostChange) -> list[tuple[str, int | None, int | None, int | None]]:
    return [(one.name, one.before, one.after, one.growth) for one in change.counters]


def test_what_stays_the_same_is_no_change_and_was_compared() -> None:
    change = changed(reading(errors=2, drops=7), reading(errors=2, drops=7))
    assert said(change) == []
    assert change.compared == {ECC: 1, NETWORK: 1, KERNEL_LOG: 0}
    assert change.words == "no error counter grew"


def test_what_grew_has_its_growth() -> None:
    change = changed(reading(errors=0, drops=7), reading(errors=2, drops=19))
    assert said(change) == [("uncorrected", 0, 2, 2), ("rx_dropped", 7, 19, 12)]
    assert change.counters[0].words == "0 to 2"
    assert change.words == "uncorrected of gpu3 grew, rx_dropped of eth0 grew"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"drops": 900}, {"drops": 4}, "reset from 900 to 4"),
        ({"drops": 900}, {}, "was 900, now missing"),
        ({}, {"drops": 4}, "new, 4"),
        ({"links": 255}, {"links": 255}, "at its maximum of 255"),
    ],
)
def test_what_was_reset_vanished_appeared_or_cannot_grow_is_not_known(
    before: dict[str, int], after: dict[str, int], words: str
) -> None:
    (one,) = changed(reading(**before), reading(**after)).counters
    assert one.growth is None
    assert one.words == words


def test_what_appears_at_nothing_has_not_grown() -> None:
    assert said(changed(reading(), reading(errors=0))) == []


def test_a_counter_that_grows_to_its_ceiling_has_grown() -> None:
    assert said(changed(reading(links=254), reading(links=255))) == [("link_downed", 254, 255, 1)]


def test_a_group_that_one_of_the_looks_could_not_read_is_unread_and_not_vanished() -> None:
    before = reading(errors=0, drops=7)
    lost = nothing_read((ECC, NETWORK), "no answer", "look there")
    change = changed(before, replace(lost, kernel_log=LOG))
    assert said(change) == []
    assert {one.group: one.reason for one in change.unread} == {ECC: "no answer", NETWORK: "no answer"}
    assert change.compared == {KERNEL_LOG: 0}
    again = changed(replace(lost, kernel_log=LOG), before)
    assert said(again) == []
    assert {one.group for one in again.unread} == {ECC, NETWORK}


def test_what_was_read_both_times_is_compared_though_others_of_its_group_were_not() -> None:
    silent = nothing_read((ECC,), "nvidia-smi: not installed", "install it").unread
    before, after = (replace(reading(errors=count), unread=silent) for count in (0, 2))
    change = changed(before, after)
    assert said(change) == [("uncorrected", 0, 2, 2)]
    assert [one.group for one in change.unread] == [ECC]


def log(*lines: str, oldest: str = "[    1.0] a", newest: str = "[  900.0] z") -> Reading:
    return Reading(kernel_log=KernelLog(lines, oldest, newest))


def complaints(before: Reading, after: Reading) -> list[tuple[str, int]]:
    return [(one.what, one.count) for one in changed(before, after).kernel]


def test_only_lines_that_came_since_are_complaints() -> None:
    old = "[   50.0] amdgpu 0000:05:00.0: amdgpu: GPU reset begin!"
    assert complaints(log(old), log(old)) == []
    assert complaints(log(old), log(old, XID)) == [("Xid", 1)]


def test_old_lines_that_left_the_log_hide_no_new_one() -> None:
    """As many lines as before, and one of them is new."""
    old = [f"[  {at}.0] NVRM: Xid (PCI:0000:3b:00): 13, pid=1" for at in (10, 20, 30)]
    change = changed(log(*old), log(old[1], old[2], XID, oldest="[   15.0] c"))
    assert [(one.what, one.count, one.lines) for one in change.kernel] == [("Xid", 1, (XID,))]
    assert not change.unread


def test_lines_without_a_time_are_counted_one_by_one() -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 63, row remap"
    assert complaints(log(line, line), log(line, line, line)) == [("Xid", 1)]


def test_a_link_that_was_up_before_and_went_down_since() -> None:
    up = "[   13.4] mlx5_core 0000:9a:00.0 ens9np0: Link up"
    down = "[  500.0] mlx5_core 0000:9a:00.0 ens9np0: Link down"
    assert complaints(log(up), log(down, oldest="[   60.0] c")) == [("link down", 1)]
    assert complaints(log(), log(down)) == []


def test_a_container_that_outgrew_its_bound_is_no_complaint() -> None:
    new = (
        "[  300.0] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0",
        "[  300.0] Memory cgroup out of memory: Killed process 9 (python3) total-vm:1kB",
    )
    assert complaints(log(), log(*new)) == []


def test_a_log_that_turned_over_is_unknown_and_what_it_still_holds_is_told() -> None:
    before = log(newest="[  100.0] b")
    change = changed(before, log(XID, oldest="[  150.0] c", newest="[  900.0] z"))
    assert [one.what for one in change.kernel] == ["Xid"]
    assert [(one.group, one.reason) for one in change.unread] == [
        (KERNEL_LOG, "the log was overwritten during the run; lines may be lost")
    ]


def test_a_kernel_that_was_started_again_is_told() -> None:
    change = changed(log(newest="[  900.0] z"), log(oldest="[    0.0] a", newest="[   30.0] b"))
    assert "rebooted" in change.unread[0].reason


def test_a_log_told_by_another_program_is_unknown_and_holds_no_new_line() -> None:
    """The same line, as dmesg and as journalctl writes it."""
    as_journal = "Jan 20 10:00:00 gpu01 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    dmesg = Reading(kernel_log=KernelLog((XID,), "[    1.0] a", XID, "dmesg"))
    journal = Reading(kernel_log=KernelLog((as_journal,), as_journal, as_journal, "journalctl"))
    for before, after, reason in (
        (dmesg, journal, "it was read with dmesg before the run and with journalctl after it"),
        (journal, dmesg, "it was read with journalctl before the run and with dmesg after it"),
    ):
        change = changed(before, after)
        assert change.kernel == ()
        assert KERNEL_LOG not in change.compared
        assert [(one.group, one.reason) for one in change.unread] == [(KERNEL_LOG, reason)]
    assert changed(journal, journal).unread == ()


def test_few_of_many_lines_are_kept_and_all_are_counted() -> None:
    many = [f"[  {at}.0] NVRM: Xid (PCI:0000:3b:00): 13, pid={at}" for at in range(200, 300)]
    (one,) = changed(log(), log(*many)).kernel
    assert (one.count, len(one.lines), one.lines[-1]) == (100, 20, many[-1])


def test_a_change_survives_its_event() -> None:
    before, after = reading(errors=0, drops=9), reading(drops=12)
    change = changed(before, replace(after, kernel_log=KernelLog((XID,), "[ 1.0] a", XID)))
    unread = changed(nothing_read((THROTTLE,), "it took too long", "run it"), Reading())
    for one in (change, unread):
        event = Event(kind="host_counters", message=one.words, node="gpu01", details=one.details())
        assert read_change(event_of(json.loads(to_line(event)))) == one
    with pytest.raises(ValueError, match="compared"):
        read_change(Event(kind="host_counters", message="", details={"grown": 3}))
