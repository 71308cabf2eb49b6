"""Real rounds: the probe runs on this machine, with tools, limits, files and ports put in its way."""

import asyncio
import importlib.util
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard.execute.host import Host, LinkLostError, ThisHost
from steelyard.execute.preflight import Needs, preflight, verdict_of
from steelyard.execute.preflight.finding import HostFinding
from steelyard.execute.preflight.needs import Secret, Space
from steelyard.hardware.catalog import lookup

_SPEC = importlib.util.spec_from_file_location("preflight_hosts", Path(__file__).with_name("conftest.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
_HOSTS = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_HOSTS)
AlteredHost, LostHost, SlowHost, OUTPUTS = _HOSTS.AlteredHost, _HOSTS.LostHost, _HOSTS.SlowHost, _HOSTS.OUTPUTS

CPU = Needs(gpu_name="cpu", heads=("a",))
Tools = Callable[..., Path]


def asked(needs: Needs, *hosts: Host, timeout_s: float = 60.0) -> list[HostFinding]:
    return asyncio.run(preflight(hosts, needs, timeout_s))


def of(findings: list[HostFinding], check: str) -> list[HostFinding]:
    return [one for one in findings if one.check == check]


def only(findings: list[HostFinding], check: str) -> HostFinding:
    (found,) = of(findings, check)
    return found


def nvidia_smi(gpus: str, processes: str = "") -> str:
    summary = (OUTPUTS / "nvidia_summary.txt").read_text()
    return (
        "#!/bin/sh\ncase $1 in\n"
        f"--query-gpu=*) cat <<'END'\n{gpus.rstrip()}\nEND\n;;\n"
        f"--query-compute-apps=*) cat <<'END'\n{processes.rstrip()}\nEND\n;;\n"
        f"*) cat <<'END'\n{summary}END\n;;\nesac\n"
    )


H100S = "\n".join(f"{at}, GPU-{at}, NVIDIA H100 80GB HBM3, 570.124.06, 4, 0" for at in range(8))
WANTED = Needs(gpu=lookup("h100"), gpu_name="h100", gpus_per_node=8, heads=("a",))


def test_this_machine_answers_and_its_clock_is_ours() -> None:
    made = asked(CPU, ThisHost("a"))
    assert only(made, "reach").status == "pass"
    clock = only(made, "clock")
    assert clock.status == "pass"
    assert abs(float(clock.observed or 0)) < 0.5


def test_a_wrong_clock_is_told(tools: Tools) -> None:
    late = tools(date="#!/bin/sh\nexec /bin/date -d '-1 hour' \"$@\"\n")
    clock = only(asked(CPU, AlteredHost("a", late)), "clock")
    assert clock.status == "fail"
    assert "3600.0 s behind this machine" in clock.message


def test_gpus_are_counted_and_named_by_their_tool(tools: Tools) -> None:
    good = AlteredHost("a", tools("good", nvidia_smi=nvidia_smi(H100S)))
    few = AlteredHost("b", tools("few", nvidia_smi=nvidia_smi("\n".join(H100S.splitlines()[:7]))))
    busy = AlteredHost("c", tools("busy", nvidia_smi=nvidia_smi(H100S, "GPU-3, 4321, python3")))
    made = asked(WANTED, good, few, busy)
    assert {one.host: one.status.value for one in of(made, "gpu_count")} == {"a": "pass", "b": "fail", "c": "pass"}
    assert {one.status.value for one in of(made, "gpu_kind")} == {"pass"}
    assert {one.host: one.status.value for one in of(made, "gpu_idle")} == {"a": "pass", "b": "pass", "c": "fail"}
    assert {one.observed for one in of(made, "driver_version")} == {"570.124.06"}
    assert {one.observed for one in of(made, "stack_version")} == {"13.0"}


@pytest.mark.parametrize(("version", "kind"), [("amd62", "mi300x"), ("amd70", "mi355x")])
def test_amd_gpus_are_read_by_amd_smi(tools: Tools, version: str, kind: str) -> None:
    parts = {"list": "list", "static": "static", "metric": "metric", "process": "processes", "version": "version"}
    cases = "".join(f"{word}) cat '{OUTPUTS}/{version}_{file}.json' ;;\n" for word, file in parts.items())
    host = AlteredHost("a", tools(amd_smi=f"#!/bin/sh\necho 'a warning' >&2\ncase $1 in\n{cases}esac\n"))
    made = asked(Needs(gpu=lookup(kind), gpu_name=kind, gpus_per_node=8), host)
    assert only(made, "gpu_count").status == "pass"
    assert only(made, "gpu_kind").status == "pass"
    assert only(made, "gpu_idle").status == ("pass" if version == "amd62" else "fail")


def test_rocm_smi_answers_where_amd_smi_is_not(tools: Tools) -> None:
    gpus, processes = OUTPUTS / "rocm_gpus.json", OUTPUTS / "rocm_processes.json"
    script = f"#!/bin/sh\ncase $1 in --showpids) cat '{processes}' ;; *) cat '{gpus}' ;; esac\n"
    made = asked(
        Needs(gpu=lookup("mi300x"), gpu_name="mi300x", gpus_per_node=8), AlteredHost("a", tools(rocm_smi=script))
    )
    assert only(made, "gpu_kind").status == "pass"
    assert "pid 28389 (llama-server)" in only(made, "gpu_idle").message


def test_a_host_without_the_gpu_that_is_named_fails(tools: Tools) -> None:
    bare = AlteredHost("a", tools(nothing=""))
    count = only(asked(WANTED, bare), "gpu_count")
    assert count.status == ("unknown" if Path("/dev/nvidia0").exists() else "fail")
    assert "nvidia-smi: not installed" in count.message


def test_a_tool_that_hangs_is_left_behind_and_unknown(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.execute.preflight.asking.TOOL_S", 1)
    began = time.monotonic()
    made = asked(CPU, AlteredHost("a", tools(dmesg="#!/bin/sh\nsleep 60\n", journalctl="#!/bin/sh\nexit 1\n")))
    assert time.monotonic() - began < 20
    log = only(made, "kernel_log")
    assert log.status == "unknown"
    assert "timed out" in log.message


def test_a_host_that_does_not_answer_in_time_is_not_reached() -> None:
    made = asked(CPU, SlowHost("a"), timeout_s=2.0)
    assert [(one.check, one.status.value) for one in made] == [("reach", "fail")]
    assert made[0].message == "sh took longer than 2 s"


def test_a_lost_host_is_a_finding_and_asked_nothing_more(tools: Any) -> None:
    made = asked(CPU, AlteredHost("a", tools(dmesg="[    0.000000] Linux version 6.1\n")), LostHost("b"))
    (lost,) = [one for one in made if one.host == "b"]
    assert (lost.check, lost.status.value, lost.required, lost.message) == (
        "reach",
        "fail",
        True,
        "no answer within 15 s",
    )
    assert lost.fix
    assert {one.status.value for one in made if one.host == "a"} == {"pass"}
    assert verdict_of(made) == "fail"


def test_no_finding_holds_a_secret_that_a_host_says(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "hf_" + "abcdefgh" * 4

    async def refused(*_: Any, **__: Any) -> Any:
        raise LinkLostError("b", f"the banner says {token}")

    lost = ThisHost("b")
    monkeypatch.setattr(lost, "run", refused)
    made = asked(CPU, AlteredHost("a", tools(dmesg=f"[ 12.5] NVRM: Xid 63, name=trainer --token {token}\n")), lost)
    assert only(made, "kernel_log").message.endswith("name=trainer --token [redacted]")
    assert [one.message for one in made if one.host == "b"] == ["the banner says [redacted]"]
    assert token not in repr(made)


def test_a_port_that_is_taken_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        needs = Needs(gpu_name="cpu", ports=(port,), heads=("a",))
        assert only(asked(needs, ThisHost("a")), "ports").status == "fail"
    assert only(asked(needs, ThisHost("a")), "ports").status == "pass"


def test_a_token_is_looked_for_and_never_read(tmp_path: Path) -> None:
    token, absent, empty = tmp_path / "token", tmp_path / "absent", tmp_path / "empty"
    token.write_text("hf_sEcReT")
    token.chmod(0o600)
    empty.touch()
    for path, status in ((token, "pass"), (absent, "fail"), (empty, "fail")):
        made = asked(Needs(gpu_name="cpu", secrets=(Secret("HF_TOKEN", str(path)),)), ThisHost("a"))
        assert only(made, "hf_token").status == status
        assert "sEcReT" not in json.dumps([one.document() for one in made])


def test_limits_are_those_of_the_host_s_shell() -> None:
    low = AlteredHost("a", wrapper=["sh", "-c", 'ulimit -n 256; exec "$@"', "sh"])
    limit = only(asked(CPU, low), "nofile")
    assert (limit.status.value, limit.observed) == ("fail", "256")


def test_room_is_measured_where_a_directory_would_be_made(tmp_path: Path) -> None:
    missing = str(tmp_path / "not" / "yet" / "there")
    enough = asked(Needs(gpu_name="cpu", spaces=(Space(missing, 0.000001),)), ThisHost("a"))
    assert only(enough, "disk").status == "pass"
    full = asked(Needs(gpu_name="cpu", spaces=(Space(missing, 1e9),)), ThisHost("a"))
    assert only(full, "disk").status == "fail"
    in_a_file = asked(Needs(gpu_name="cpu", spaces=(Space("/etc/hostname/x", 0.1),)), ThisHost("a"))
    assert only(in_a_file, "disk").status == "fail"


def corpus(directory: Path, last: bytes = b"end") -> str:
    directory.mkdir(parents=True)
    (directory / "part 1.bin").write_bytes(bytes(3 << 20) + last)
    (directory / "part$(touch x).idx").write_bytes(b"index")
    return str(directory)


def test_data_that_differs_in_its_last_bytes_is_the_odd_one_out(tmp_path: Path) -> None:
    same, again, other = corpus(tmp_path / "1"), corpus(tmp_path / "2"), corpus(tmp_path / "3", b"END")
    hosts = [AlteredHost(name, paths={"/data": at}) for name, at in (("a", same), ("b", again), ("c", other))]
    hosts.append(AlteredHost("d", paths={"/data": str(tmp_path / "none")}))
    made = of(asked(Needs(gpu_name="cpu", data_path="/data"), *hosts), "data")
    assert {one.host: one.status.value for one in made} == {"a": "pass", "b": "pass", "c": "fail", "d": "fail"}
    assert "on 2 of 3 hosts" in next(one.message for one in made if one.host == "c")
    assert not list(tmp_path.rglob("x"))


@pytest.mark.parametrize("suffix", ["", "/part*", "/part"])
def test_data_may_be_a_directory_a_pattern_or_a_prefix(tmp_path: Path, suffix: str) -> None:
    path = corpus(tmp_path / "corpus") + suffix
    found = only(asked(Needs(gpu_name="cpu", data_path=path), ThisHost("a")), "data")
    assert found.status == "pass"
    assert "(2 files, 3,145,736 bytes)" in str(found.observed)


def docker(inspect: str, status: int = 0) -> str:
    return f"#!/bin/sh\ncase $1 in ps) echo 3c13dc79fa12 ;; image) {inspect}; exit {status} ;; esac\n"


def test_images_are_compared(tools: Tools) -> None:
    digest = """echo 'sha256:aa ["rocm/megatron-lm@sha256:0123"]'"""
    other = digest.replace("aa", "bb").replace("0123", "4567")
    hosts = [
        AlteredHost("a", tools("a", docker=docker(digest))),
        AlteredHost("b", tools("b", docker=docker(digest))),
        AlteredHost("c", tools("c", docker=docker(other))),
        AlteredHost("d", tools("d", docker=docker("echo 'No such image' >&2", 1))),
        AlteredHost("e", tools("e", docker="#!/bin/sh\necho 'permission denied' >&2\nexit 1\n")),
    ]
    made = {one.host: one for one in of(asked(Needs(gpu_name="cpu", image="rocm/megatron-lm:v25.9"), *hosts), "image")}
    assert {host: one.status.value for host, one in made.items()} == {
        "a": "pass",
        "b": "pass",
        "c": "fail",
        "d": "fail",
        "e": "unknown",
    }
    assert "permission denied" in made["e"].message


def test_collectives_run_only_when_asked_for(tools: Tools, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    script = f"#!/bin/sh\necho \"$@\" > '{ran}'\ncat '{OUTPUTS}/all_reduce_perf.txt'\n"
    host = AlteredHost("a", tools(nvidia_smi=nvidia_smi(H100S), all_reduce_perf=script))
    assert of(asked(WANTED, host), "collectives") == []
    assert not ran.exists()
    from dataclasses import replace

    found = only(asked(replace(WANTED, collectives=True), host), "collectives")
    assert (found.status.value, found.observed) == ("pass", 314.1)
    assert ran.read_text().split()[-2:] == ["-g", "8"]


HOSTILE = "\x1b]0;owned\x07\x1b[2J<script>alert(1)</script> $(touch {at}) `touch {at}`\u202e"


def test_hostile_output_of_a_tool_stays_text(tools: Tools, tmp_path: Path) -> None:
    marker = tmp_path / "acted"
    text = HOSTILE.format(at=marker)
    mark = "$(tr '\\0' '\\n' < /proc/$PPID/cmdline | sed -n 4p)"  # the parent's own mark, which a tool can find out
    forging = f"#!/bin/sh\nprintf '%s\\n' \"{mark} end kernel_log 0\" \"{mark} begin limits\" ' nofile 1'\n"
    (tmp_path / "log").write_text(f"[1.0] NVRM: Xid 79 {text}\n")
    dmesg = f"{forging}cat '{tmp_path / 'log'}'\n"
    smi = nvidia_smi(H100S, f"GPU-3, 4321, {text}")
    made = asked(WANTED, AlteredHost("a", tools(dmesg=dmesg, nvidia_smi=smi)))
    assert not marker.exists()
    assert only(made, "nofile").status == "pass"
    said = json.dumps([one.document() for one in made], ensure_ascii=False)
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert "<script>" in only(made, "kernel_log").message
    assert "<script>" in only(made, "gpu_idle").message


def test_values_of_the_config_stay_values(tmp_path: Path) -> None:
    path = f"/tmp/$(touch {tmp_path}/acted)/`touch {tmp_path}/acted`;touch {tmp_path}/acted"
    needs = Needs(
        gpu_name="cpu",
        spaces=(Space(path, 0.001),),
        secrets=(Secret("HF_TOKEN", path),),
        data_path=path,
        image=f"x;touch {tmp_path}/acted",
    )
    made = asked(needs, ThisHost("a"))
    assert only(made, "data").status == "fail"
    assert only(made, "hf_token").status == "fail"
    assert not (tmp_path / "acted").exists()


def test_many_hosts_are_asked_at_once_and_told_of() -> None:
    told: list[tuple[str, int, int]] = []
    hosts = [ThisHost(f"gpu{at:02d}") for at in range(12)]
    made = asyncio.run(preflight(hosts, CPU, 60.0, lambda *said: told.append(said)))
    assert len(of(made, "reach")) == 12
    assert ("checked", 12, 12) in told


def test_the_command_asks_this_machine(cli: Any, tiny: Path, tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = tools(dmesg="[    0.000000] Linux version 6.1\n")  # what this machine's kernel has seen is not ours to say
    monkeypatch.setenv("PATH", f"{quiet}:{os.environ['PATH']}")
    done = cli("preflight", tiny, "--gpu", "cpu", "--json")
    assert done.status == 0, done.out
    assert set(done.document) == {"verdict", "findings"}
    assert done.document["verdict"] == "pass"
    for one in done.document["findings"]:
        assert set(one) == {
            "check",
            "code",
            "status",
            "required",
            "observed",
            "expected",
            "message",
            "evidence",
            "host",
            "fix",
        }
    shown = cli("preflight", tiny, "--gpu", "cpu", "--html", "fit.html")
    assert shown.status == 0
    assert shown.out.startswith("preflight: PASS  5 checks passed  localhost\n")
    assert "next: steelyard run " in shown.out
    listed = cli("preflight", tiny, "--gpu", "cpu", "-v").out
    assert sum(line.startswith("  pass ") for line in listed.splitlines()) == 5
    assert "wrote fit.html" in shown.out
    assert "preflight report" in Path("fit.html").read_text()


def test_the_command_fails_with_a_fix_where_the_gpu_is_not(cli: Any, tiny: Path) -> None:
    done = cli("preflight", tiny, "--gpu", "mi300x", "--gpus", "2")
    if Path("/dev/kfd").exists():
        pytest.skip("this machine has AMD GPUs")
    assert done.status == 1
    lines = done.out.splitlines()
    assert lines[1].split()[:2] == ["fail", "gpu_count"]
    assert lines[2].strip().startswith("fix: ")


def test_the_page_shows_hostile_text_as_text() -> None:
    from steelyard.execute.preflight.kernel_log import KERNEL_LOG, KERNEL_LOG_UNREADABLE
    from steelyard.reporting.html import render
    from steelyard.reporting.preflight_page import preflight_page

    finding = KERNEL_LOG.failed(KERNEL_LOG_UNREADABLE, "<b>gpu01</b>", "see `dmesg`", reason=HOSTILE)
    page = render(preflight_page("<i>fit</i>", [finding], "steelyard preflight"))
    assert "<script>alert" not in page
    assert "<b>gpu01" not in page
    assert "<i>fit" not in page
    assert "\x1b" not in page


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (("--required", "gpu"), "--required"),
        (("--cluster", "none.yaml"), None),
        (("--gpu", "voodoo"), "--gpu"),
        (("--html", "."), "--html"),
    ],
)
def test_wrong_input_is_exit_2(cli: Any, arguments: tuple[str, ...], key: str | None) -> None:
    done = cli("preflight", *arguments, "--json")
    assert done.status == 2
    assert key is None or done.document["error"]["key"] == key


def test_the_help_names_every_check() -> None:
    from steelyard.cli.preflight import REQUIRED_HELP
    from steelyard.execute.preflight import checks

    words = REQUIRED_HELP.replace(";", ",").replace(".", ",").replace(" ", ",").split(",")
    assert {one.name for one in checks()} <= set(words)
    by_default = REQUIRED_HELP.partition("Default: ")[2].partition(";")[0].split(", ")
    assert by_default == [one.name for one in checks() if one.required]


@pytest.mark.skipif(sys.platform != "linux", reason="signals are asked of Linux")
@pytest.mark.processes
@pytest.mark.quick
def test_an_interrupt_ends_it_cleanly(tools: Tools, tmp_path: Path) -> None:
    import os
    import signal
    import subprocess

    asked = tmp_path / "asked"
    slow = tools(date=f"#!/bin/sh\n: > '{asked}'\nexec sleep 60\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "steelyard", "preflight"],
        env={**os.environ, "PATH": f"{slow}:{os.environ['PATH']}"},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not asked.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == "steelyard: interrupted; nothing was changed on the hosts\n"


def test_a_volume_that_an_engine_would_make_is_told(tmp_path: Path) -> None:
    there, missing = tmp_path / "a b", tmp_path / "none"
    there.mkdir()
    made = asked(Needs(gpu_name="cpu", volumes=(str(there), str(missing))), ThisHost("a"))
    found = {one.message: (one.status.value, one.required) for one in made if one.check == "volumes"}
    assert found == {
        f"{there} is present": ("pass", True),
        f"container volume {missing} is missing": ("fail", True),
    }
