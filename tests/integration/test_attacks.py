"""A hostile container and a hostile login: neither becomes root on a host, reads a secret, or decides how runs end."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import Executable, Host, Lab
from lab.running import Ended

pytestmark = pytest.mark.integration

TRIES = 20
CANARY = "kanarienvogel-3Xk8w2-rot"
TOKEN = "/srv/token"
EVIL = "lab/evil:1"
CONTROL_FILES = "job.sh run made host engine keeper watcher beat leaving status status.new log oom environment start.sh"
ATTACK = f"""#!/bin/sh
# What a container did to become root on its host, and more of its kind.
inside="/steelyard /steelyard/output /steelyard/secrets /steelyard/.. /steelyard/output/.. ."
for folder in $inside; do
    for name in {CONTROL_FILES}; do
        echo 'id > /tmp/pwned; id > /root/pwned' >> "$folder/$name"
        echo 0 > "$folder/$name.new" && mv -f "$folder/$name.new" "$folder/$name"
        rm -f "$folder/$name"
        ln -s /etc/shadow "$folder/$name"
    done
    echo 0 > "$folder/status"
done 2> /dev/null
cp /bin/busybox /steelyard/output/shell 2> /dev/null && chmod 4755 /steelyard/output/shell
mv /steelyard/output /steelyard/gone 2> /dev/null
ln -s / /steelyard/output/root 2> /dev/null
mount -o remount,rw /steelyard 2> /dev/null
mount --bind / /steelyard/output 2> /dev/null
echo "attacked as $(id -u)"
ls -ld /steelyard /steelyard/output
sleep 0.5
exit 7
"""
MALLORY = """
# Squats on every place a run may choose, swaps what others make there, and reads what it can, until it is ended.
cd /
while :; do
    for place in /tmp/steelyard /tmp/steelyard.lock /run/steelyard /var/lib/steelyard /root/.local "$@"; do
        mkdir -m 777 "$place" && mkdir -m 777 -p "$place/evil-node0/job/secrets"
        for made in "$place" "$place"/*; do
            [ -O "$made" ] || mv "$made" "$made.$$" && mkdir -m 777 -p "$made/job/secrets" && {
                echo 'id > /tmp/pwned; id > /root/pwned' > "$made/job.sh"
                cp "$made/job.sh" "$made/job/start.sh"
            }
            cat "$made"/job/secrets/* "$made".*/job/secrets/* >> /tmp/stolen
        done
    done
    cat /root/.local/state/steelyard/*/job/secrets/* /proc/[0-9]*/root/steelyard/secrets/* >> /tmp/stolen
    cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline >> /tmp/stolen
    cat /proc/[0-9]*/cwd/job/secrets/* /proc/[0-9]*/fd/* >> /tmp/stolen
    [ "$(wc -c < /tmp/stolen)" -lt 50000000 ] || tail -c 1000000 /tmp/stolen > /tmp/less && mv /tmp/less /tmp/stolen
done 2> /dev/null
"""
QUIET = "#!/bin/sh\ncat /steelyard/secrets/HF_TOKEN > /dev/null || exit 3\nsleep 0.5\nexit 7\n"


@pytest.fixture
def host(lab: Lab) -> Iterator[Host]:
    """One host with a token of its login's, put in order after every attack."""
    host = lab.hosts[0]
    host.sh(["sh", "-c", f"umask 077 && cat > {TOKEN} && chown trainer {TOKEN}"], input=CANARY + "\n")
    yield host
    host.sh(["rm", "-f", TOKEN])


@pytest.fixture
def attempt(start: Any, lab: Lab, tmp_path: Path) -> Any:
    """One run on that host, whose program is what the image EVIL holds."""
    made = 0

    def call(user: str = "root", **platform: Any) -> Ended:
        nonlocal made
        made += 1
        folder = tmp_path / f"attempt{made}"
        folder.mkdir()
        config = folder / "evil.yaml"
        config.write_text(json.dumps(experiment(platform)))
        cluster = lab.cluster_file(folder, 1, user)
        ended: Ended = start(config, "--no-preflight", "--cluster", cluster, cluster=False).end()
        return ended

    return call


def experiment(platform: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "name": "evil",
        "model": {"preset": "llama3.1-8b"},
        "training": {
            "micro_batch_size": 1,
            "global_batch_size": 8,
            "sequence_length": 2048,
            "steps": 30,
            "learning_rate": 1e-4,
        },
        "precision": {"dtype": "bf16"},
        "data": {"source": "counting"},
        "platforms": {
            "lab": {
                "gpu": "mi300x",
                "gpus_per_node": 8,
                "framework": "megatron",
                "container": {"image": EVIL},
                "hf_token_file": TOKEN,
                **platform,
            }
        },
    }


def pwned(host: Host) -> list[str]:
    """What root was made to write."""
    return [path for path in ("/tmp/pwned", "/root/pwned") if host.path(path).exists()]


def held_off(ended: Ended, host: Host) -> None:
    """The run ended as its program did, and its record holds nothing of the host's."""
    assert pwned(host) == []
    assert ended.status == 1, ended.out + ended.err
    directory = ended.run.directory
    assert directory is not None
    manifest = json.loads((directory / "run.json").read_text())
    assert (manifest["status"], manifest["exit_status"]) == ("failed", 7)
    kept = b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())
    assert host.path("/etc/shadow").read_bytes().splitlines()[0] not in kept
    assert CANARY.encode() not in kept


@pytest.mark.parametrize("inside", ["0", "4203"], ids=["root", "another user"])
@pytest.mark.parametrize("login", ["root", "trainer"])
def test_a_container_stays_a_container(inside: str, login: str, attempt: Any, lab: Lab, host: Host) -> None:
    lab.build_image(EVIL, {"/usr/local/bin/torchrun": Executable(ATTACK)}, python=False, user=inside)
    tries = TRIES if login == "root" else 3
    for _ in range(tries):
        ended = attempt(login)
        held_off(ended, host)
        log = (ended.run.directory / "logs/node0.log").read_text()
        assert f"attacked as {inside}" in log
        assert not host.path("/root/.local").exists()


@pytest.mark.parametrize("log_dir", [None, "/tmp/labs"], ids=["our own place", "a shared place"])
def test_a_local_user_stays_one(log_dir: str | None, attempt: Any, lab: Lab, host: Host) -> None:
    lab.build_image(EVIL, {"/usr/local/bin/torchrun": Executable(QUIET)}, python=False)
    mallory = host.as_mallory(MALLORY, "/var/tmp/steelyard-root")
    try:
        for at in range(TRIES // 2):
            held_off(attempt(**({"log_dir": f"{log_dir}{at}"} if log_dir else {})), host)
    finally:
        mallory.kill()
        mallory.wait()
        host.sh(["pkill", "-KILL", "-u", "mallory"], check=False)
        stolen = host.path("/tmp/stolen").read_bytes()
        host.sh(["find", "/tmp", "/var/tmp", "-mindepth", "1", "-user", "mallory", "-delete"], check=False)
    assert stolen, "it did read something"
    assert CANARY.encode() not in stolen


@pytest.mark.parametrize("login", ["root", "trainer"])
def test_a_place_that_another_login_made_first_is_refused_with_a_way_on(
    login: str, attempt: Any, lab: Lab, host: Host
) -> None:
    lab.build_image(EVIL, {"/usr/local/bin/torchrun": Executable(QUIET)}, python=False)
    host.as_mallory("mkdir -m 777 /tmp/labs-squatted /var/tmp/steelyard-trainer").wait()
    try:
        place = "/tmp/labs-squatted" if login == "root" else "/var/tmp/steelyard-trainer"
        ended = attempt(login, **({"log_dir": place} if login == "root" else {}))
        assert ended.status == 3, ended.err
        assert f"{place} belongs to user mallory" in ended.failure["message"]
        assert "log_dir" in ended.failure["message"]
        on = attempt(login, **({} if login == "root" else {"log_dir": "/home/trainer/runs"}))
        held_off(on, host)
    finally:
        host.sh(["rm", "-rf", "/tmp/labs-squatted", "/var/tmp/steelyard-trainer"])


def test_a_foreign_process_that_claims_the_host_is_named_and_goes_when_it_ends(
    attempt: Any, lab: Lab, host: Host
) -> None:
    lab.build_image(EVIL, {"/usr/local/bin/torchrun": Executable(QUIET)}, python=False)
    claim = host.as_mallory("exec sh -c 'sleep 600; :' steelyard-host=machine steelyard-run=mine")
    try:
        ended = attempt()
        assert ended.status == 3, ended.err
        assert "user mallory" in ended.failure["message"]
        assert "kill" in ended.document["error"]["next"]
    finally:
        claim.kill()
        claim.wait()
        host.sh(["pkill", "-KILL", "-u", "mallory"], check=False)
    held_off(attempt(), host)
