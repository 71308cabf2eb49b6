"""What each check makes of facts: pass, fail, unknown, or nothing where there is no need."""

from dataclasses import replace

import pytest

from steelyard.errors import InputError
from steelyard.execute.preflight import (
    MODULES,
    Needs,
    checks,
    codes,
    judge,
    parse_required,
    verdict_of,
    weighed,
)
from steelyard.execute.preflight.facts import (
    ClockReading,
    Facts,
    Gid,
    RdmaPort,
    Room,
    SeenData,
    SeenImage,
    SeenSecret,
)
from steelyard.execute.preflight.finding import HostFinding
from steelyard.execute.preflight.needs import Secret, Space
from steelyard.execute.preflight.probe import Section
from steelyard.execute.preflight.smi import GpuProcess, SeenGpu, SeenGpus
from steelyard.hardware.catalog import lookup

H100 = "NVIDIA H100 80GB HBM3"


def gpus(count: int = 8, name: str = H100, **changes: object) -> SeenGpus:
    each = tuple(SeenGpu(str(at), name, 0.1, 0.0) for at in range(count))
    return replace(SeenGpus("nvidia-smi", each, (), "570.124.06", "12.8"), **changes)


def facts(**changes: object) -> Facts:
    return replace(
        Facts(
            clock=ClockReading(0.01, 0.005),
            gpus={"nvidia": gpus()},
            gpu_vendors=frozenset({"nvidia"}),
            nofile=1_048_576,
            memlock_kib=float("inf"),
            kernel_log=(),
        ),
        **changes,
    )


def found(needs: Needs, check: str, *hosts: Facts) -> list[HostFinding]:
    named = {f"gpu{at:02d}": one for at, one in enumerate(hosts, 1)}
    return [one for one in judge(needs, named) if one.check == check]


def statuses(needs: Needs, check: str, *hosts: Facts) -> list[str]:
    made = found(needs, check, *hosts)
    assert all(one.fix for one in made if one.status != "pass"), "what does not pass has a fix"
    return [one.status.value for one in made]


NEEDS = Needs(gpu=lookup("h100"), gpu_name="h100", gpus_per_node=8, heads=("gpu01",))


def test_every_module_of_the_folder_that_checks_is_in_the_table() -> None:
    from importlib import resources

    folder = resources.files("steelyard.execute.preflight")
    having = {
        path.name.removesuffix(".py")
        for path in folder.iterdir()
        if path.name.endswith(".py") and "\nCHECKS = " in path.read_text() and path.name != "__init__.py"
    }
    assert having == set(MODULES)
    names = [check.name for check in checks()]
    assert len(names) == len(set(names))


def test_a_fit_host_passes_everything() -> None:
    made = judge(NEEDS, {"gpu01": facts()})
    assert {one.check for one in made} == {
        "reach",
        "clock",
        "gpu_count",
        "gpu_kind",
        "gpu_idle",
        "driver_version",
        "stack_version",
        "nofile",
        "kernel_log",
    }
    assert verdict_of(made) == "pass"
    assert not any(one.blocks for one in made)
    assert {one.code for one in made} <= set(codes())


@pytest.mark.parametrize(
    ("reading", "status"),
    [
        (ClockReading(0.4, 0.1), "pass"),
        (ClockReading(-3.0, 0.1), "fail"),
        (ClockReading(0.2, 1.5), "unknown"),
        (ClockReading(0.95, 0.2), "unknown"),
        (ClockReading(90.0, 1.5), "fail"),
        (None, "unknown"),
    ],
)
def test_clock(reading: ClockReading | None, status: str) -> None:
    assert statuses(NEEDS, "clock", facts(clock=reading)) == [status]


def test_a_clock_is_judged_by_the_majority_and_ours_by_theirs() -> None:
    hosts = [facts(clock=ClockReading(ahead, 0.01)) for ahead in (30.0, 30.1, 30.2, 33.0)]
    made = found(NEEDS, "clock", *hosts)
    assert [(one.host, one.status.value) for one in made] == [
        ("gpu01", "pass"),
        ("gpu02", "pass"),
        ("gpu03", "pass"),
        ("gpu04", "fail"),
        (None, "fail"),
    ]
    assert made[3].message == "clock is 2.9 s ahead of the other hosts"


@pytest.mark.parametrize(
    ("room", "status"),
    [(Room(50, True), "pass"), (Room(0.5, True), "fail"), (Room(50, False), "fail"), (None, "unknown")],
)
def test_disk(room: Room | None, status: str) -> None:
    needs = replace(NEEDS, spaces=(Space("/scratch", 1.0),))
    assert statuses(needs, "disk", facts(rooms=(room,))) == [status]


def test_shared_memory() -> None:
    needs = replace(NEEDS, shm_gib=8.0)
    assert statuses(needs, "shm", facts(rooms=(Room(64, True),)), facts(rooms=(Room(0.06, True),))) == ["pass", "fail"]
    assert statuses(Needs(shm_gib=8.0), "shm", facts(gpus={}, gpu_vendors=frozenset())) == []


def test_ports_are_asked_of_the_head_alone() -> None:
    needs = replace(NEEDS, ports=(6000,))
    busy = facts(listening=frozenset({22, 6000}))
    assert statuses(needs, "ports", busy, busy) == ["fail"]
    assert statuses(needs, "ports", facts(listening=frozenset({22})), busy) == ["pass"]
    assert statuses(needs, "ports", facts()) == ["unknown"]


def test_gpus_are_counted() -> None:
    few = facts(gpus={"nvidia": gpus(7)})
    assert statuses(NEEDS, "gpu_count", facts(), few) == ["pass", "fail"]
    assert statuses(replace(NEEDS, gpus_per_node=4), "gpu_count", facts()) == ["pass"]
    assert statuses(Needs(), "gpu_count", facts(), few, facts()) == ["pass", "fail", "pass"]


def test_gpus_that_cannot_be_asked_are_unknown_with_device_nodes_and_a_failure_without() -> None:
    mute = facts(gpus={}, gpu_tools={"nvidia": "nvidia-smi: not installed"})
    assert statuses(NEEDS, "gpu_count", mute) == ["unknown"]
    assert statuses(NEEDS, "gpu_count", replace(mute, gpu_vendors=None)) == ["unknown"]
    assert statuses(NEEDS, "gpu_count", replace(mute, gpu_vendors=frozenset())) == ["fail"]
    amd = Needs(gpu=lookup("mi300x"), gpu_name="mi300x", gpus_per_node=8)
    made = found(amd, "gpu_count", facts())
    assert made[0].message == f"8 x {H100} instead of mi300x"


def test_gpu_kinds() -> None:
    h200 = facts(gpus={"nvidia": gpus(name="NVIDIA H200")})
    pcie = facts(gpus={"nvidia": gpus(name="NVIDIA H100 PCIe")})
    unlisted = facts(gpus={"nvidia": gpus(name="NVIDIA H100")})
    nameless = facts(gpus={"nvidia": gpus(name=None)})
    assert statuses(NEEDS, "gpu_kind", facts(), h200, pcie) == ["pass", "fail", "fail"]
    assert statuses(NEEDS, "gpu_kind", unlisted, nameless) == ["unknown", "unknown"]
    mixed = replace(gpus(), gpus=(*gpus(7).gpus, SeenGpu("7", "NVIDIA H200", 0.0, 0.0)))
    assert statuses(NEEDS, "gpu_kind", facts(gpus={"nvidia": mixed})) == ["fail"]
    made = found(Needs(), "gpu_kind", facts(), facts(), h200)
    assert [one.status.value for one in made] == ["pass", "pass", "fail"]
    assert made[2].message == "GPU type: h200, but h100 on 2 of 3 hosts"


def test_gpus_in_use_are_named() -> None:
    program = facts(gpus={"nvidia": gpus(processes=(GpuProcess(4321, "python3"),))})
    made = found(NEEDS, "gpu_idle", program)
    assert made[0].status == "fail"
    assert "pid 4321 (python3)" in made[0].message
    memory = replace(gpus(1), gpus=(SeenGpu("0", H100, 1.5, 0.0),))
    work = replace(gpus(1), gpus=(SeenGpu("0", H100, 0.2, 6.0),))
    dark = replace(gpus(1), gpus=(SeenGpu("0", H100, None, 0.0),))
    blind = replace(gpus(1), processes=None)
    hosts = [facts(gpus={"nvidia": one}) for one in (gpus(), memory, work, dark, blind)]
    assert statuses(NEEDS, "gpu_idle", *hosts) == ["pass", "fail", "fail", "unknown", "unknown"]


def test_on_cpu_no_gpu_is_asked_about() -> None:
    made = judge(Needs(gpu_name="cpu", gpus_per_node=2), {"here": facts(gpus={}, gpu_vendors=frozenset())})
    assert not {one.check for one in made} & {"gpu_count", "gpu_kind", "gpu_idle", "driver_version", "stack_version"}


def test_versions_are_compared() -> None:
    other = facts(gpus={"nvidia": gpus(driver="550.90.07")})
    silent = facts(gpus={"nvidia": gpus(stack=None)})
    made = found(NEEDS, "driver_version", facts(), other, facts())
    assert [one.status.value for one in made] == ["pass", "fail", "pass"]
    assert (made[1].observed, made[1].expected) == ("550.90.07", "570.124.06")
    assert statuses(NEEDS, "stack_version", facts(), silent) == ["pass", "unknown"]
    amd = Needs(gpu=lookup("mi300x"), gpu_name="mi300x")
    versions = {"/sys/module/amdgpu/version": "6.8.5", "/opt/rocm/.info/version": "6.2.0-66"}
    seen = facts(gpus={"amd": gpus(tool="rocm-smi", driver=None, stack=None)}, module_versions=versions)
    assert [one.observed for check in ("driver_version", "stack_version") for one in found(amd, check, seen)] == [
        "6.8.5",
        "6.2.0",
    ]


def port(device: str, state: str = "ACTIVE", *gids: Gid) -> RdmaPort:
    return RdmaPort(device, state, "Ethernet", "400 Gb/sec", gids or (Gid(3, "RoCE v2", True),))


def test_network_cards_and_gids() -> None:
    needs = replace(NEEDS, multi_node=True, nic="thor2", hcas=("bnxt_re0", "bnxt_re1"), gid_index=3)
    both = facts(rdma=(port("bnxt_re0"), port("bnxt_re1"), port("mlx5_0", "DOWN")))
    down = facts(rdma=(port("bnxt_re0"), port("bnxt_re1", "DOWN")))
    none = facts(rdma=())
    assert statuses(needs, "nics", both, down, none, facts()) == ["pass", "fail", "fail", "unknown"]
    odd = facts(rdma=(port("bnxt_re0", "ACTIVE", Gid(3, "IB/RoCE v1", False)), port("bnxt_re1")))
    empty = facts(rdma=(port("bnxt_re0", "ACTIVE", Gid(1, "RoCE v2", True)), port("bnxt_re1")))
    made = found(needs, "gids", both, both, odd, empty)
    assert {one.host: one.status.value for one in made} == {
        "gpu01": "pass",
        "gpu02": "pass",
        "gpu03": "fail",
        "gpu04": "fail",
    }
    assert statuses(replace(needs, gid_index=None), "gids", both, both, empty) == ["pass", "pass", "fail"]
    assert statuses(replace(needs, hcas=("^bnxt_re1",)), "nics", facts(rdma=(port("bnxt_re0"),))) == ["pass"]
    assert statuses(NEEDS, "nics", none) == []


def test_without_a_job_network_cards_are_compared() -> None:
    both = facts(rdma=(port("mlx5_0"), port("mlx5_1")))
    one = facts(rdma=(port("mlx5_0"), port("mlx5_1", "DOWN")))
    assert statuses(Needs(), "nics", both, both, one) == ["pass", "pass", "fail"]


def test_interfaces() -> None:
    needs = replace(NEEDS, multi_node=True, interfaces=("ens51",))
    up, down, other = (
        {"lo": "unknown", name: state} for name, state in (("ens51f1", "up"), ("ens51f1", "down"), ("eth0", "up"))
    )
    hosts = [facts(links=links) for links in (up, down, other, None)]
    assert statuses(needs, "interfaces", *hosts) == ["pass", "fail", "fail", "unknown"]


def reduced(rate: float, wrong: str = "0") -> Section:
    row = f" 1073741824 268435456 float sum -1 5982.4 179.48 {rate} {wrong} 5990.8 179.23 {rate} 0"
    return Section(0, (row,))


def test_collectives_are_compared_with_the_median_and_never_required() -> None:
    needs = replace(NEEDS, collectives=True)
    hosts = [facts(collectives=one) for one in (reduced(314.0), reduced(310.0), reduced(200.0), Section(None, ()))]
    assert statuses(needs, "collectives", *hosts) == ["pass", "pass", "fail", "unknown"]
    assert statuses(needs, "collectives", facts(collectives=reduced(300.0, "17"))) == ["fail"]
    assert not any(one.required for one in found(needs, "collectives", *hosts))
    assert not any(one.required for one in weighed(found(needs, "collectives", *hosts), parse_required("all")))
    assert statuses(NEEDS, "collectives", *hosts) == []


def test_secrets() -> None:
    needs = replace(NEEDS, secrets=(Secret("HF_TOKEN", "/etc/hf"),))
    hosts = [facts(secrets=(SeenSecret(state, "600"),)) for state in ("present", "missing", "empty", "unreadable")]
    assert statuses(needs, "hf_token", *hosts, facts(secrets=(None,))) == ["pass", "fail", "fail", "fail", "unknown"]
    made = found(needs, "hf_token", facts(secrets=(SeenSecret("present", "644"),)))
    assert "chmod 600" in made[0].message
    assert statuses(replace(needs, secrets=(Secret("WANDB_API_KEY", "/etc/w"),)), "secrets", hosts[1]) == ["fail"]


def data(size: int = 10) -> SeenData:
    return SeenData(1, (f"{size} {'0' * 64} {'1' * 64} ./a.bin",), size)


def test_data() -> None:
    needs = replace(NEEDS, data_path="/data")
    hosts = [facts(data=one) for one in (data(), data(), data(11), SeenData(0), SeenData(1, unreadable=("a",)), None)]
    made = {one.host: one.status.value for one in found(needs, "data", *hosts)}
    assert list(dict(sorted(made.items())).values()) == ["pass", "pass", "fail", "fail", "fail", "unknown"]
    assert statuses(replace(needs, data_path="data/x"), "data", hosts[0]) == ["unknown"]


def image(identity: str | None, *digests: str, engine: Section = Section(0, ())) -> Facts:  # noqa: B008
    return facts(image=SeenImage(engine, identity, digests))


def test_images() -> None:
    needs = replace(NEEDS, image="rocm/megatron-lm:v25.9")
    refused = Section(1, (), "permission denied while trying to connect to the Docker daemon socket")
    hosts = (
        image("sha256:aa"),
        image("sha256:aa"),
        image("sha256:bb"),
        image(None),
        image(None, engine=Section(None, ())),
        image(None, engine=refused),
    )
    made = {one.host: one.status.value for one in found(needs, "image", *hosts)}
    assert list(dict(sorted(made.items())).values()) == ["pass", "pass", "fail", "fail", "fail", "unknown"]
    stored = (image("sha256:aa", "rocm/megatron-lm@sha256:dd"), image("sha256:ee", "rocm/megatron-lm@sha256:dd"))
    assert statuses(needs, "image", *stored) == ["pass", "pass"]


def test_an_image_that_was_pulled_here_and_loaded_there_is_one_image() -> None:
    needs = replace(NEEDS, image="rocm/megatron-lm:v25.9", engine="podman")
    pulled, loaded = image("aa", "rocm/megatron-lm@sha256:dd"), image("aa", "localhost/rocm/megatron-lm@sha256:ee")
    other = image("bb", "localhost/rocm/megatron-lm@sha256:ff")
    assert statuses(needs, "image", pulled, loaded) == ["pass", "pass"]
    assert statuses(needs, "image", pulled, loaded, other) == ["pass", "pass", "fail"]
    (silent,) = found(needs, "image", image(None, engine=Section(125, (), "no store")))
    assert (silent.status.value, silent.fix) == ("unknown", "run `podman info` there to see why")


def test_limits_are_required_over_rdma_and_not_asked_of_a_container() -> None:
    needs = replace(NEEDS, multi_node=True, nic="cx7", nofile=65536, memlock_gib=32.0)
    low = facts(nofile=1024, memlock_kib=8192)
    assert statuses(needs, "nofile", facts(), low, facts(nofile=None)) == ["pass", "fail", "unknown"]
    assert statuses(needs, "memlock", facts(), low) == ["pass", "fail"]
    assert all(one.required for one in found(needs, "memlock", low))
    assert not any(one.required for one in found(NEEDS, "nofile", low))
    assert statuses(NEEDS, "memlock", low) == []
    assert statuses(replace(needs, image="x"), "nofile", low) == []


def test_the_kernel_log() -> None:
    lines = ("[1.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",)
    made = found(NEEDS, "kernel_log", facts(), facts(kernel_log=lines), facts(kernel_log=None, kernel_log_reason="no"))
    assert [one.status.value for one in made] == ["pass", "fail", "unknown"]
    assert made[1].message == f"Xid (1 line); the last: {lines[0]}"


def test_required_decides_what_blocks_and_what_an_unknown_means() -> None:
    unknown = judge(NEEDS, {"gpu01": facts(kernel_log=None)})
    assert verdict_of(unknown) == "pass"
    assert verdict_of(weighed(unknown, parse_required("all"))) == "unknown"
    asked = weighed(unknown, parse_required("kernel_log"))
    assert [one.check for one in asked if one.blocks] == ["kernel_log"]
    failed = judge(NEEDS, {"gpu01": facts(gpus={"nvidia": gpus(7)})})
    assert [one.check for one in failed if one.blocks] == ["gpu_count"]
    assert not any(one.blocks for one in weighed(failed, parse_required("none")))
    assert verdict_of(weighed(failed, parse_required("none"))) == "fail"
    with pytest.raises(InputError, match="unknown check 'gpu_cuont'"):
        parse_required("reach,gpu_cuont")


def test_no_finding_at_all_is_no_pass() -> None:
    assert verdict_of([]) == "unknown"
