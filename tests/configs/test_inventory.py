"""Cluster files: hosts in rank order."""

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.configs.inventory import Inventory, expanded, read_inventory
from steelyard.errors import InputError
from steelyard.experiment import InvalidExperimentError, packaged


def read(tmp_path: Path, content: Any, name: str = "cluster.json") -> Inventory:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_inventory(path)


def test_the_suite_s_file_gives_hosts_in_its_order(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {
            "username": "{user-id}",
            "priv_key_file": "/home/{user-id}/.ssh/id_rsa",
            "head_node_dict": {"mgmt_ip": "10.0.0.9"},
            "env_vars": {"A": "1"},
            "home_mount_dir_name": "nfs",
            "node_dict": {"10.0.0.2": {"bmc_ip": "NA"}, "_10.0.0.5": {}, "10.0.0.1": {"vpc_ip": "10.0.0.1"}},
        },
    )
    assert found.addresses == ("10.0.0.2", "10.0.0.1")
    assert found.env == {"A": "1"}
    assert found.placeholders == (("home-mount-dir", "nfs"),)


def test_ours_spells_ranges_out(tmp_path: Path) -> None:
    found = read(tmp_path, "hosts: ['gpu[01-03]', login, 10.0.0.9-11]\nuser: me\nport: 2222\n", "cluster.yaml")
    assert found.addresses == ("gpu01", "gpu02", "gpu03", "login", "10.0.0.9", "10.0.0.10", "10.0.0.11")
    assert (found.user, found.port) == ("me", 2222)
    assert read(tmp_path, packaged.text(packaged.CLUSTER), "cluster.yaml").addresses == (
        "gpu01",
        "gpu02",
        "gpu03",
        "gpu04",
    )


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[098-101].x", ["n098.x", "n099.x", "n100.x", "n101.x"]),
        ("n[1,3-4]", ["n1", "n3", "n4"]),
        ("gpu-a-4", ["gpu-a-4"]),
        ("::1", ["::1"]),
        ("gpu1:22", []),
        ("10.0.0.1-10.0.0.4", []),
        ("10.0.0.300", []),
        ("gpu01..04", []),
        ("X.X.X.X", []),
    ],
)
def test_ranges(text: str, hosts: list[str]) -> None:
    if hosts:
        assert expanded(text) == hosts
    else:
        with pytest.raises(ValueError, match="address"):
            expanded(text)


@pytest.mark.parametrize(
    ("content", "code", "key"),
    [
        ({"node_dict": {}}, "SY104", "node_dict"),
        ({"node_dict": []}, "SY103", "node_dict"),
        ({"node_dict": {"<changeme>": {}}}, "SY110", "node_dict.<changeme>"),
        ({"node_dict": {"a": {}}, "username": "<changeme>"}, "SY110", "username"),
        ({"node_dict": {"a": {}}, "password": "x"}, "SY119", "password"),
        (
            {"node_dict": {"a": {}}, "racks": {"r": {"switch_ssh_password": "x"}}},
            "SY119",
            "racks.r.switch_ssh_password",
        ),
        ({"node_dict": {"a": {}}, "usernam": "x"}, "SY102", "usernam"),
        ({"node_dict": {"a": {}}, "priv_key_file": "{nobody}/x"}, "SY110", "priv_key_file"),
        ('{"node_dict": {"a": {}, "a": {}}}', "SY109", "node_dict.a"),
        ({"hosts": ["a", "a"]}, "SY103", "hosts"),
        ({"hosts": ["n[3-1]"]}, "SY103", "hosts.0"),
        ({"hosts": ["n[1-999999]"]}, "SY103", "hosts.0"),
        ({"hosts": ["10.0.0.1-300"]}, "SY103", "hosts.0"),
        ({"hosts": ["a b"]}, "SY103", "hosts.0"),
        ({"hosts": "a;rm"}, "SY103", "hosts"),
        ({"hosts": 3}, "SY103", "hosts"),
        ({"hosts": ["a"], "port": 70000}, "SY103", "port"),
        ({"hosts": ["a"], "user": 3}, "SY103", "user"),
        ({"hosts": ["a"], "hots": 3}, "SY102", "hots"),
        ({"nodes": 3}, "SY104", "hosts"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path: Path, content: Any, code: str, key: str) -> None:
    with pytest.raises(InvalidExperimentError) as error:
        read(tmp_path, content)
    assert "\n" not in str(error.value)
    assert (error.value.problems[0].code, error.value.problems[0].key) == (code, key)


def test_a_misspelled_key_of_a_cluster_file_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InvalidExperimentError) as error:
        read(tmp_path, {"node_dict": {"a": {}}, "usernam": "x"})
    assert error.value.expected == "'username'"


def test_lint_takes_a_cluster_file_too(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"node_dict": {"a": {}, "<changeme>": {}}, "pasword": "x"}, indent=1))
    found = cli("lint", path, "--json")
    assert found.status == 2
    problems = found.document["problems"]
    assert [(problem["code"], problem["pointer"], problem["line"]) for problem in problems] == [
        ("SY102", "/pasword", 6),
        ("SY110", "/node_dict/<changeme>", 4),
    ]


def test_a_plan_takes_hosts_user_and_rank_order_from_the_cluster(cli: Any, tmp_path: Path) -> None:
    from seeds import filled, packaged_content

    name = "mi3xx_megatron_llama_distributed.json"
    config = tmp_path / name
    config.write_text(json.dumps(filled(packaged_content(name), 2, master_address="10.0.0.7")))
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("hosts: [10.0.0.7, 10.0.0.3]\nuser: carol\n")
    words = ("--model", "llama3_1_8b", "--gpu", "mi300x", "--cluster", cluster, "--json")
    planned = cli("plan", config, *words).document
    assert [(node["host"], node["rank"]) for node in planned["nodes"]] == [("10.0.0.7", 0), ("10.0.0.3", 1)]
    assert planned["nodes"][1]["env"]["MASTER_ADDR"] == "10.0.0.7"
    assert planned["nodes"][1]["secrets"] == {"HF_TOKEN": "/home/carol/.hf_token"}
    cluster.write_text("hosts: [10.0.0.3, 10.0.0.7]\n")
    error = cli("plan", config, *words).document["error"]
    assert (error["key"], error["value"]) == ("platform.network.head", "10.0.0.7")
    cluster.write_text("hosts: [10.0.0.7, b, c]\n")
    error = cli("plan", config, *words).document["error"]
    assert (error["key"], error["value"], error["expected"]) == ("platform.nodes", 2, "3")
    assert "the cluster file has 3 hosts and the job 2 nodes, expected 3; next: --nodes 3 " in error["message"]
    assert len(cli("plan", config, *words, "--nodes", "2").document["nodes"]) == 2


def test_a_single_node_config_on_a_cluster_is_a_fleet(cli: Any, tmp_path: Path) -> None:
    from seeds import filled, packaged_content

    name = "mi300x_singlenode_llama3_1_70b.json"
    config = tmp_path / name
    config.write_text(json.dumps(filled(packaged_content(name), 1, nnodes="<changeme>")))
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("hosts: ['g[1-3]']\n")
    planned = cli("plan", config, "--cluster", cluster, "--json").document
    assert planned["fleet"] is True
    assert [(node["host"], node["rank"], node["env"]["NNODES"]) for node in planned["nodes"]] == [
        ("g1", 0, "1"),
        ("g2", 0, "1"),
        ("g3", 0, "1"),
    ]


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"hosts": ["a"], "user": "-oProxyCommand=x"}, "user"),
        ({"hosts": ["a"], "user": "a\x1bb"}, "user"),
        ({"hosts": ["a"], "key_file": "-x"}, "key_file"),
        ({"node_dict": {"a": {}}, "username": "-l"}, "username"),
        ({"node_dict": {"a": {}}, "priv_key_file": "a\nb"}, "priv_key_file"),
        ({"node_dict": {"-a": {}}}, "node_dict.-a"),
        ({"hosts": ["-a"]}, "hosts.0"),
        ({"hosts": ["gpu[1-99999999999]"]}, "hosts.0"),
        ({"hosts": ["gpu[1-20000,1-20000]"]}, "hosts.0"),
        ({"hosts": ["gpu[\u0661-\u0663]"]}, "hosts.0"),
        ({"hosts": ["10.0.0.1-" + "9" * 5000]}, "hosts.0"),
        ({"hosts": ["a[1-15000]", "b[1-15000]"]}, "hosts"),
        ({"node_dict": {"a": {}}, "env_vars": {"X": "hf_" + "a1" * 12}}, "env_vars.X"),
    ],
)
def test_what_would_be_an_option_a_flood_or_a_secret_is_refused(tmp_path: Path, content: Any, key: str) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, content)
    assert refused.value.key == key
    assert "a1a1a1" not in str(refused.value.document())


def test_a_login_of_a_directory_service_is_a_user(tmp_path: Path) -> None:
    assert read(tmp_path, {"hosts": ["a"], "user": "me@lab.example"}).user == "me@lab.example"
    assert read(tmp_path, {"hosts": ["a"], "user": "LAB\\me"}).user == "LAB\\me"
