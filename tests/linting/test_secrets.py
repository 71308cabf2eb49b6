"""Secrets of a config are refused wherever they stand, and no message repeats one."""

import json
from pathlib import Path
from typing import Any

import pytest

from seeds import filled, packaged_content
from steelyard.experiment import packaged
from steelyard.secrets import secret_kind

MEGATRON = "mi3xx_megatron_llama_single.json"
ONE = ("--model", "llama3_1_8b", "--gpu", "mi300x")
GOOD = """
schema_version: 1
name: good
model: {preset: tiny-llama}
training: {micro_batch_size: 2, global_batch_size: 32, sequence_length: 64, steps: 10, learning_rate: 1e-3}
platforms:
  p: {gpu: a100, gpus_per_node: 8, PLATFORM}
data: {source: counting}
"""
HF = "hf_" + "aB3" * 10
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\n-----END RSA PRIVATE KEY-----\n"


def experiment(platform: str) -> Path:
    path = Path("experiment.yaml")
    path.write_text(GOOD.replace("PLATFORM", platform))
    return path


def pointers(cli: Any, *words: Any) -> set[str]:
    problems = cli("lint", *words, "--json").document["problems"]
    return {problem["pointer"] for problem in problems if problem["code"] == "SY119"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANYTHING", HF),
        ("anything", "ghp_" + "a1" * 18),
        ("anything", "github_pat_" + "A1_" * 10),
        ("options", "--key sk-proj-" + "a1" * 12),
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ("anything", PEM),
        ("key", json.dumps({"type": "service_account", "private_key": PEM})),
        ("GH_PAT", "abc"),
        ("DB_PASS", "hunter2"),
        ("DB_PASSWORD", "hunter"),
        ("PASSWORD_OF_DB", "hunter2"),
        ("password", 12345678),
        ("MY_KEY", "hunter2"),
        ("HF_TOKEN", "hf_abc"),
        ("wandb_api_key", "0123abc"),
        ("some_key", "0123456789abcdef"),
    ],
)
def test_what_is_a_secret(name: str, value: Any) -> None:
    assert secret_kind(name, value) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN_PATH", "/run/secrets/token"),
        ("HF_TOKEN", "${HF_TOKEN}"),
        ("HF_TOKEN", "<changeme>"),
        ("HF_TOKEN", "{token}"),
        ("HF_TOKEN", ""),
        ("DB_PASSWORD", "/run/secrets/db"),
        ("USE_PASSWORD", True),
        ("priv_key_file", "/home/me/.ssh/id_rsa"),
        ("SSL_KEY_FILE", "server.pem"),
        ("tokenizer_type", "HuggingFaceTokenizer"),
        ("tokenizer_model", "meta-llama/Llama-3.1-8B"),
        ("max_tokens", 4096),
        ("pad_token", "<|endoftext|>"),
        ("eos_token", "</s1>"),
        ("image_token", "IMG0"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("NCCL_IB_PKEY", "0x8001"),
        ("NCCL_DEBUG_KEY", "0"),
        ("text_key", "content2"),
        ("sort_key", "a.b"),
        ("single_pass", "fwd1"),
        ("image", "rocm/sk-learn-with-a-rather-long-name:latest"),
        ("data_key", 7),
    ],
)
def test_what_is_not_a_secret(name: str, value: Any) -> None:
    assert secret_kind(name, value) is None


@pytest.mark.parametrize(
    ("platform", "pointer"),
    [
        (f"env: {{FOO: {HF}}}", "/platforms/p/env/FOO"),
        (f"container: {{image: i, env: {{FOO: {HF}}}}}", "/platforms/p/container/env/FOO"),
        (f"options: {{wandb: ['--key', {HF}]}}", "/platforms/p/options/wandb/1"),
        (f"framework: {HF}", "/platforms/p/framework"),
        (f"overrides: {{data: {{dataset: {HF}}}}}", "/platforms/p/overrides/data/dataset"),
        (f"env: {{{HF}: x}}", "/platforms/p/env/[redacted]"),
        (f"{HF}: x", "/platforms/p/[redacted]"),
    ],
)
def test_a_secret_is_found_wherever_it_stands_and_never_repeated(cli: Any, platform: str, pointer: str) -> None:
    path = experiment(platform)
    assert pointers(cli, path) == {pointer}
    for words in (
        ("lint",),
        ("lint", "--json"),
        ("lint", "--sarif"),
        ("lint", "--github"),
        ("plan",),
        ("plan", "--json"),
    ):
        told = cli(words[0], path, *words[1:])
        assert told.status == 2
        assert HF[:12] not in told.out + told.err
        assert HF[-12:] not in told.out + told.err
    assert "hf_token_file" in cli("plan", path).err


def test_a_secret_of_a_suite_s_config_is_found(cli: Any) -> None:
    content = filled(packaged_content(MEGATRON), 1)
    content["config"]["container_config"]["env_dict"] = {"WANDB_API_KEY": "hunter2"}
    content["config"]["_example_token"] = HF
    content["model_params"]["single_node"]["llama3_1_8b"]["mi300x"]["hf_token"] = HF
    path = Path("config.json")
    path.write_text(json.dumps(content))
    assert pointers(cli, path, *ONE) == {
        "/config/container_config/env_dict/WANDB_API_KEY",
        "/config/_example_token",
        "/model_params/single_node/llama3_1_8b/mi300x/hf_token",
    }
    told = cli("lint", path, "--json")
    assert "hunter2" not in told.out
    assert HF not in told.out


def test_a_secret_twice_in_a_mapping_is_not_repeated(cli: Any) -> None:
    for text in (f"env: {{X: {HF}, X: {HF}}}", "env: {DB_PASS: hunter22, DB_PASS: hunter22}"):
        told = cli("lint", experiment(text), "--json")
        assert [problem["code"] for problem in told.document["problems"]] == ["SY101"]
        assert HF not in told.out
        assert "hunter22" not in told.out
    path = Path("c.json")
    path.write_text(f'{{"node_dict": {{"a": {{}}}}, "{HF}": 1, "{HF}": 2}}')
    assert HF not in cli("lint", path, "--json").out


@pytest.mark.parametrize(
    "setting",
    [
        f"platform.env.FOO={HF}",
        f"platforms.p.env.FOO={HF}",
        "platform.env.DB_PASS=hunter22",
        "platform.env={DB_PASS: hunter22}",
        f"data.dataset={HF}",
        f"training.steps={HF}",
        f"{HF}=1",
        f"training.{HF}=1",
        "nothing.password=hunter22",
    ],
)
@pytest.mark.parametrize("verb", ["lint", "plan", "run"])
def test_a_secret_after_set_is_refused_before_anything_quotes_it(cli: Any, tiny: Path, verb: str, setting: str) -> None:
    for words in ((), ("--json",)):
        told = cli(verb, tiny, "--set", setting, *words)
        assert told.status == 2
        assert HF not in told.out + told.err
        assert "hunter22" not in told.out + told.err
        assert "hf_token_file" in told.out + told.err
    assert not Path("runs").exists()


def test_a_plan_holds_the_path_of_a_secret_and_not_the_secret(cli: Any) -> None:
    Path("token").write_text(HF)
    token = Path("token").resolve()
    path = experiment(
        f"framework: megatron, hf_token_file: {token}, secrets: {{DB_PASSWORD: {token}}}, container: {{image: i}}"
    )
    told = cli("plan", path, "--json")
    assert told.status == 0
    assert told.document["nodes"][0]["secrets"] == {"HF_TOKEN": str(token), "DB_PASSWORD": str(token)}
    assert told.document["nodes"][0]["env"]["DB_PASSWORD_FILE"] == "/steelyard/secrets/DB_PASSWORD"
    assert HF not in told.out


@pytest.mark.parametrize("name", list(packaged.DESCRIPTIONS))
def test_no_packaged_config_holds_a_secret(cli: Any, name: str) -> None:
    path = Path(packaged.file_name(name))
    path.write_text(packaged.text(name))
    assert pointers(cli, path) == set()
