"""The lab itself: hosts that are apart, reached by ssh, with engines that run what tests need."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab import LOGIN, Executable, Host, Lab, LabError, reasons_not_to
from steelyard.configs.inventory import read_inventory

pytestmark = pytest.mark.integration

IMAGE = "rocm/megatron-lm:v25.9_gfx942"
RUN = ["docker", "run", "--rm", "--pull=never"]
MIB = 2**20
ALL_REDUCE = """\
import socket
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print(f"{socket.gethostname()}: rank {dist.get_rank()} of {dist.get_world_size()} has {total.item()}")
dist.destroy_process_group()
"""


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    if reason := reasons_not_to():
        pytest.skip(reason)
    with Lab() as made:
        made.build_image(
            IMAGE, {"/opt/all_reduce.py": ALL_REDUCE, "/usr/local/bin/hello": Executable("#!/bin/sh\necho hi\n")}
        )
        yield made


def ssh(lab: Lab, host: Host, *command: str, timeout_s: int = 5) -> subprocess.CompletedProcess[str]:
    argv = ["ssh", "-F", str(lab.ssh_config), "-o", f"ConnectTimeout={timeout_s}", host.name, *command]
    return subprocess.run(lab.controller(argv), capture_output=True, text=True, check=False, timeout=60)


def test_ssh_verifies_each_host_and_reaches_the_right_one(lab: Lab) -> None:
    for host in lab.hosts:
        done = ssh(lab, host, "hostname")
        assert (done.returncode, done.stdout) == (0, f"{host.name}\n"), done.stderr


def test_a_host_with_another_key_is_refused(lab: Lab) -> None:
    host = lab.hosts[2]
    host.new_host_key()
    done = ssh(lab, host, "true")
    assert done.returncode == 255
    assert "IDENTIFICATION HAS CHANGED" in done.stderr
    host.restore_host_key()
    assert ssh(lab, host, "true").returncode == 0


def test_asyncssh_reads_the_same_configuration(lab: Lab) -> None:
    script = (
        "import asyncio, asyncssh, sys\n"
        "async def main():\n"
        "    for name in sys.argv[1:]:\n"
        "        async with asyncssh.connect(name) as connection:\n"
        "            print((await connection.run('hostname', check=True)).stdout, end='')\n"
        "asyncio.run(main())\n"
    )
    argv = lab.controller([sys.executable, "-c", script, "node1", "10.77.0.12"])
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "node1\nnode2\n"


def test_this_process_may_join_the_network_for_a_while(lab: Lab) -> None:
    network = Path("/proc/thread-self/ns/net")
    before = network.readlink()
    with lab.joined(), socket.create_connection((lab.hosts[0].address, 22), 5) as connection:
        assert network.readlink() != before
        assert connection.recv(8) == b"SSH-2.0-"
    assert network.readlink() == before


def test_the_cluster_file_names_the_hosts_in_order(lab: Lab, tmp_path: Path) -> None:
    found = read_inventory(lab.cluster_file(tmp_path, 2))
    assert found.addresses == ("10.77.0.11", "10.77.0.12")
    assert (found.user, found.key_file) == (LOGIN, str(lab.key))


def test_nothing_leaves_the_lab(lab: Lab) -> None:
    for host in lab.hosts:
        assert "default" not in host.sh(["ip", "route"]).stdout
    routes = subprocess.run(lab.controller(["ip", "route"]), capture_output=True, text=True, check=True).stdout
    assert routes.startswith("10.77.0.0/24 dev br0")
    assert len(routes.splitlines()) == 1


def test_a_container_runs_on_each_host(lab: Lab) -> None:
    for host in lab.hosts:
        assert ssh(lab, host, *RUN, IMAGE, "true").returncode == 0
        assert host.sh([*RUN, IMAGE, "hello"]).stdout == "hi\n"


def test_an_image_is_the_same_on_each_host(lab: Lab) -> None:
    made = lab.build_image("some/image:1", {"/etc/note": "here"}, env={"A": 'b  "c" $PATH'}, python=False)
    assert {host.image_id("some/image:1") for host in lab.hosts} == {made}
    for host in lab.hosts:
        assert host.sh([*RUN, "some/image:1", "sh", "-c", 'echo "$A"; cat /etc/note']).stdout == 'b  "c" $PATH\nhere'


@pytest.mark.parametrize(
    "options",
    [
        ("--privileged", "--ulimit", "memlock=-1", "--ulimit", "nofile=65536:65536", "--shm-size", "128m"),
        ("--device", "/dev/kfd", "--device", "/dev/dri", "--device", "/dev/infiniband", "--group-add", "video"),
        ("--gpus", "all", "--ipc", "host", "--cap-add", "SYS_PTRACE", "--security-opt", "seccomp=unconfined"),
        ("--memory", "64m", "--network", "host", "--group-add", "render", "--init=false"),
    ],
)
def test_the_options_of_training_images_are_accepted(lab: Lab, options: tuple[str, ...]) -> None:
    lab.hosts[0].sh([*RUN, *options, IMAGE, "true"])


def test_a_command_may_be_run_in_a_privileged_container(lab: Lab) -> None:
    host = lab.hosts[0]
    options = ["--detach", "--privileged", "--ulimit=memlock=-1", "--name=worker"]
    host.sh([*RUN, *options, IMAGE, "sleep", "99"])
    try:
        assert host.sh(["docker", "exec", "--privileged", "worker", "hello"]).stdout == "hi\n"
    finally:
        host.sh(["docker", "rm", "-f", "worker"])


def test_torch_is_there_in_a_container(lab: Lab) -> None:
    script = "import torch, steelyard; print(int(torch.ones(3).sum()))"
    assert lab.hosts[0].sh([*RUN, IMAGE, "python", "-c", script], timeout=120).stdout == "3\n"


def test_two_ranks_on_two_hosts_add_up(lab: Lab) -> None:
    def rank(number: int) -> str:
        # fmt: off
        torchrun = [
            "python", "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(number),
            "--nproc-per-node", "1", "--master-addr", "node1", "--master-port", "29501", "/opt/all_reduce.py",
        ]
        # fmt: on
        options = ["--network", "host", "--env", "GLOO_SOCKET_IFNAME=eth0", "--env", "OMP_NUM_THREADS=1"]
        return lab.hosts[number].sh([*RUN, *options, IMAGE, *torchrun], timeout=180).stdout

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(rank, range(2))) == [f"node{n + 1}: rank {n} of 2 has 3.0\n" for n in range(2)]


def test_a_cut_host_is_out_of_reach_until_it_is_mended(lab: Lab) -> None:
    first, second, _ = lab.hosts
    first.cut()
    try:
        assert ssh(lab, first, "true", timeout_s=2).returncode == 255
        assert ssh(lab, second, "true").returncode == 0
    finally:
        first.mend()
    assert ssh(lab, first, "true", timeout_s=10).returncode == 0


def test_a_stopped_ssh_server_ends_its_sessions_and_spares_their_children(lab: Lab) -> None:
    host = lab.hosts[1]
    argv = lab.controller(["ssh", "-F", lab.ssh_config, host.name, "sleep 97.5"])
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as session:
        wait_for(lambda: any("sleep 97.5" in command for _, command in host.processes()))
        host.stop_sshd()
        assert session.wait(10) == 255
    assert ssh(lab, host, "true").returncode == 255
    host.start_sshd()
    assert ssh(lab, host, "true").returncode == 0
    orphans = [pid for pid, command in host.processes() if command.endswith("sleep 97.5")]
    assert len(orphans) == 1
    host.inside.kill(orphans)
    wait_for(lambda: host.processes() == [])


def test_a_stopped_engine_does_not_answer_until_it_is_started(lab: Lab) -> None:
    host = lab.hosts[1]
    for crash in (False, True):
        host.stop_engine(crash)
        assert host.sh(["docker", "ps"], check=False).returncode == 1
        host.start_engine()
        host.sh([*RUN, IMAGE, "true"])


def test_a_crashed_engine_leaves_its_containers_running(lab: Lab) -> None:
    host = lab.hosts[1]
    host.sh(["docker", "run", "-d", "--pull=never", "--stop-timeout=0", "--name=left", IMAGE, "sleep", "96"])
    deadline = time.monotonic() + 20
    while not host.processes() and time.monotonic() < deadline:  # the engine returns before the program is executed
        time.sleep(0.05)
    host.stop_engine(crash=True)
    assert [command for _, command in host.processes()] == ["sleep 96"]
    host.start_engine()
    host.sh(["docker", "rm", "-f", "left"])
    assert host.processes() == []


def test_processes_files_and_containers_are_a_host_s_own(lab: Lab) -> None:
    first, second, third = lab.hosts
    first.sh(["sh", "-c", "mkdir /tmp/kept && touch /tmp/kept/log /root/mine /dev/shm/segment"])
    second.sh(["sh", "-c", "sleep 98 >/dev/null 2>&1 &"])
    third.sh(["docker", "create", "--pull=never", "--label", "run=a,b=c", "--name", "idle", IMAGE, "true"])
    assert [host.files() for host in lab.hosts] == [
        {"/tmp/kept", "/tmp/kept/log", "/root/mine", "/dev/shm/segment"},
        set(),
        set(),
    ]
    assert [[command for _, command in host.processes()] for host in lab.hosts] == [[], ["sleep 98"], []]
    assert [[found["Labels"] for found in host.containers()] for host in lab.hosts] == [[], [], [{"run": "a,b=c"}]]
    assert "sleep 98" not in first.sh(["ps", "-ef"]).stdout
    first.sh(["rm", "-r", "/tmp/kept", "/root/mine", "/dev/shm/segment"])
    second.inside.kill([pid for pid, _ in second.processes()])
    third.sh(["docker", "rm", "idle"])
    assert [host.files() for host in lab.hosts] == [set(), set(), set()]


def test_a_full_disk_is_one_host_s_own(lab: Lab) -> None:
    first, second, _ = lab.hosts
    write = ["dd", "if=/dev/zero", "of=/tmp/written", "bs=1M", "count=4"]
    first.fill_disk("/tmp", leave_bytes=MIB)
    try:
        assert "No space left on device" in first.sh(write, check=False).stderr
        assert first.path("/tmp/written").stat().st_size == MIB
        second.sh(write)
    finally:
        first.free_disk()
    first.sh(write)
    for host in (first, second):
        host.sh(["rm", "/tmp/written"])


def test_the_machine_s_own_files_cannot_be_written_from_a_host(lab: Lab) -> None:
    for path in ("/usr/made", "/opt/made", "/var/made", Path(__file__).with_name("made"), f"{sys.prefix}/made"):
        assert lab.hosts[0].sh(["touch", str(path)], check=False).returncode
        assert not Path(path).exists()
    lab.hosts[0].sh(["touch", "/etc/made"])
    assert not Path("/etc/made").exists()


def test_a_fake_tool_comes_first_over_ssh(lab: Lab) -> None:
    host = lab.hosts[0]
    for said in ("one", "two"):
        host.fake_tool("rocm-smi", f"echo {said}")
        assert ssh(lab, host, "rocm-smi").stdout == f"{said}\n"
    host.remove_tool("rocm-smi")
    assert ssh(lab, host, "rocm-smi").returncode == 127


def test_a_command_that_takes_too_long_is_killed_on_the_host(lab: Lab) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        lab.hosts[0].sh(["sleep", "95"], timeout=0.2)
    wait_for(lambda: lab.hosts[0].processes() == [])


def test_down_leaves_nothing_behind() -> None:
    if reason := reasons_not_to():
        pytest.skip(reason)
    links = lines_of("ip", "-oneline", "link")
    small = Lab(num_hosts=2).up()
    name, pids = small.name, [host.inside.pid for host in small.hosts]
    spaces = {Path(f"/proc/{pid}/ns/{kind}").readlink().name for pid in pids for kind in ("net", "pid", "mnt", "uts")}
    small.build_image("left:running", python=False)
    for host in small.hosts:
        host.sh(["docker", "run", "-d", "--pull=never", "--memory", "64m", "left:running", "sleep", "1000"])
        host.sh(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & touch /tmp/left"])
    assert len(spaces) == 8
    assert traces(name, spaces) != set()
    small.down()
    assert traces(name, spaces) == set()
    assert lines_of("ip", "-oneline", "link") == links
    small.down()


def test_a_lab_that_fails_half_way_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if reason := reasons_not_to():
        pytest.skip(reason)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("lab.engine.DOCKERD", "/usr/bin/false")
    monkeypatch.setattr("lab.engine.START_PATIENCE_S", 0.5)
    with pytest.raises(LabError, match="dockerd did not answer"):
        Lab().up()
    assert traces(str(tmp_path), set()) == set()
    assert list(tmp_path.iterdir()) == []


def test_the_hosts_end_with_the_process_that_made_them() -> None:
    if reason := reasons_not_to():
        pytest.skip(reason)
    script = (
        "import json, lab, signal\n"
        "made = lab.Lab(num_hosts=1).up()\n"
        "print(json.dumps([str(made.folder), made.hosts[0].inside.pid]), flush=True)\n"
        "signal.pause()\n"
    )
    env = {"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    with subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        folder, pid = json.loads(maker.stdout.readline())
        maker.send_signal(signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    subprocess.run(["rm", "-r", folder], check=True)


def traces(name: str, spaces: set[str]) -> set[str]:
    """What is on this machine of a lab of that name and those namespaces."""
    commands = {read(path) for path in Path("/proc").glob("[0-9]*/cmdline")}
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    groups = map(str, Path("/sys/fs/cgroup").glob("*/lab-*"))
    files = map(str, Path("/tmp").glob("lab-*"))
    named = {each for each in (*commands, *mounts, *groups, *files) if name in each}
    numbers = {space.partition("[")[2].rstrip("]") for space in spaces}
    return named | (numbers & lines_of("lsns", "-nro", "NS"))


def read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def lines_of(*argv: str) -> set[str]:
    return set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines())


def wait_for(condition: Callable[[], bool], patience_s: float = 10) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)
