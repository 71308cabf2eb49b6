"""What a plan needs of its hosts."""

from pathlib import Path

import pytest

from steelyard.configs.choose import asked_of
from steelyard.execute.preflight import Needs, needs_of
from steelyard.execute.preflight.needs import Secret, Space
from steelyard.experiment import packaged
from steelyard.planning import plan_file

PLATFORM = """
platforms:
  amd:
    gpu: mi300x
    nodes: 2
    gpus_per_node: 8
    framework: megatron
    container:
      image: rocm/megatron-lm:v25.9
      shm_size: 128G
      volumes: {/mnt/corpus: /data}
    network: {nic: thor2, hcas: [bnxt_re0, bnxt_re1], socket_interface: ens51f1np1, gid_index: 3}
    hf_token_file: /home/me/.hf_token
    cache_dir: /scratch/cache
    log_dir: /scratch/logs
"""


def needs_on(tmp_path: Path, platform: str) -> Needs:
    text = packaged.text("tiny-llama")
    (tmp_path / "job.yaml").write_text(text.partition("\nplatforms:")[0] + platform)
    (tmp_path / "cluster.yaml").write_text("hosts: [gpu01, gpu02]\n")
    settings = ["training.global_batch_size=256", "data.source=tokens", "data.path=/data/corpus_text_document"]
    asked = asked_of(settings=settings, cluster=tmp_path / "cluster.yaml")
    return needs_of(plan_file(tmp_path / "job.yaml", asked))


@pytest.fixture
def needs(tmp_path: Path) -> Needs:
    return needs_on(tmp_path, PLATFORM)


def test_a_job_over_several_machines(needs: Needs) -> None:
    assert (needs.gpu_name, needs.gpus_per_node, needs.multi_node, needs.over_rdma) == ("mi300x", 8, True, True)
    assert (needs.image, needs.engine) == ("rocm/megatron-lm:v25.9", "docker")
    assert (needs.heads, needs.ports) == (("gpu01",), (6000,))
    assert needs.spaces == (Space("/scratch/logs", 1.0), Space("/scratch/cache", 10.0))
    assert needs.secrets == (Secret("HF_TOKEN", "/home/me/.hf_token"),)
    assert (needs.nic, needs.hcas, needs.gid_index) == ("thor2", ("bnxt_re0", "bnxt_re1"), 3)
    assert needs.interfaces == ("ens51f1np1",)
    assert needs.data_path == "/mnt/corpus/corpus_text_document"  # where the hosts have what the container sees
    assert (needs.memlock_gib, needs.shm_gib) == (None, None)  # the container is given its own


def test_a_cache_must_be_there_where_the_engine_does_not_make_it(needs: Needs, tmp_path: Path) -> None:
    strict = needs_on(tmp_path, PLATFORM.replace("shm_size", "engine: podman\n      shm_size"))
    assert strict.engine == "podman"
    assert {"/mnt/corpus", "/scratch/cache"} <= set(strict.volumes)
    assert set(strict.volumes) - set(needs.volumes) == {"/scratch/cache"}


def test_a_relative_path_is_looked_up_where_the_program_does() -> None:
    Path("apples.yaml").write_text(packaged.text("apples-to-apples"))
    made = needs_of(plan_file(Path("apples.yaml"), asked_of(platform="amd")))
    assert made.data_path == "bookcorpus"  # the training program's own directory, not the folder of the file


def test_a_job_of_this_machine_on_cpu(tiny: Path) -> None:
    made = needs_of(plan_file(tiny, asked_of(gpu="cpu")))
    assert made.gpu_name == "cpu"
    assert made.spaces == (Space(str(Path.cwd()), 1.0),)
    assert (made.image, made.ports, made.secrets, made.data_path, made.shm_gib) == (None, (), (), None, None)
