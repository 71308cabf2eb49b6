"""Whatever is done to a cluster file, it is read or refused in words: 500 mutations here, 20,000 in `make fuzz`."""

import json
import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bounds import bounded
from steelyard.configs.choose import Asked
from steelyard.configs.inventory import read_inventory
from steelyard.errors import SteelyardError
from steelyard.hardware.machine import Machine
from steelyard.hardware.sizes import MAX_NODES
from steelyard.linting import lint_file

pytestmark = pytest.mark.fuzz

EXAMPLES = int(os.environ.get("STEELYARD_FUZZ_EXAMPLES", "500"))
LAPTOP = Machine((), cpu_count=2)

BASES: list[Any] = [
    {
        "username": "{user-id}",
        "priv_key_file": "/home/{user-id}/.ssh/id_rsa",
        "head_node_dict": {"mgmt_ip": "10.0.0.9"},
        "env_vars": {"A": "1", "B": "x y"},
        "home_mount_dir_name": "nfs",
        "node_dir_name": "root",
        "node_dict": {"10.0.0.2": {"bmc_ip": "NA", "vpc_ip": "10.1.0.2"}, "_10.0.0.5": {}, "10.0.0.1": {}},
    },
    {"schema_version": 1, "hosts": ["gpu[01-03]", "10.0.0.9-11"], "user": "me", "key_file": "~/.ssh/id", "port": 22},
    {"hosts": "gpu[1-4,7].lab.example"},
]
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    2**62,
    2**70,
    1e308,
    "",
    " ",
    "-",
    "-oProxyCommand=touch x",
    "a\nb",
    "a\x00b",
    "\x1b[2J",
    "\ud800",
    "\u00b2",
    "\u0661",
    "gpu[\u00b2-\u0663]",
    "gpu[1-99999999999]",
    "gpu[1-20000,1-20000,1-20000]",
    "gpu[" + "0" * 5000 + "1-2]",
    "gpu[" + "1," * 30000 + "1]",
    "gpu[3-1]",
    "gpu[]",
    "gpu[-]",
    "gpu[1-]",
    "1.1.1.0-" + "9" * 5000,
    "1.1.1.\u0660-\u0663",
    "fe80::1%eth0",
    "::1",
    "<changeme>",
    "X.X.X.X",
    "{user-id}",
    "{nobody}",
    "{{user-id}}",
    "x" * 5000,
    "hf_" + "a1" * 12,
    [],
    {},
    [[]],
    [{}],
    {"a": {"b": []}},
    ["x", 3, None],
    [f"h{number}" for number in range(300)],
]
TEXTS = [
    "hosts: &a [*a]\n",
    "hosts: [a]\n<<: {user: b}\n",
    "a: &a {x: 1}\nb: &b {<<: [*a, *a]}\nhosts: [*a]\n",
    "hosts: [2026-01-01, .nan, .inf, 0x10, 1e400, 0o7]\n",
    "hosts: {? [a] : b}\n",
    "1: 2\nnull: 3\ntrue: 4\nhosts: [a]\n",
    "hosts: [a]\nhosts: [b]\n",
    "hosts: !!python/object:os.system x\n",
    "hosts: " + "[" * 3000,
    "hosts: [a]\n" + "".join(f"k{number}: 1\n" for number in range(300)),
]

values = st.one_of(st.sampled_from(ODD), st.integers(-(2**40), 2**40), st.text(max_size=8), st.floats()).map(deepcopy)
names = st.one_of(
    st.text(max_size=6), st.sampled_from(["hosts", "node_dict", "user", "env_vars", "password", "training", "A["])
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([at] if at else []), *(path for key, one in inner for path in paths(one, (*at, key)))]


@st.composite
def mutated(draw: Any) -> tuple[str, str]:
    """A cluster file with one to four things done to its tree, or to its text."""
    if draw(st.integers(0, 9)) == 0:
        return "cluster.yaml", draw(st.sampled_from(TEXTS))
    content = json.loads(json.dumps(draw(st.sampled_from(BASES))))
    for _ in range(draw(st.integers(1, 4))):
        places = paths(content)
        if not places:
            break
        *around, last = draw(st.sampled_from(places))
        here = content
        for key in around:
            here = here[key]
        doing = draw(st.sampled_from(["set", "set", "delete", "add"]))
        if doing == "set":
            here[last] = draw(values)
        elif doing == "delete":
            del here[last]
        elif isinstance(here, dict):
            here[draw(names)] = draw(values)
        else:
            here.append(draw(values))
    text = json.dumps(content)
    if draw(st.integers(0, 4)) == 0:
        at, cut = draw(st.integers(0, len(text))), draw(st.integers(0, 6))
        text = text[:at] + draw(st.text(alphabet='{}[]",:0a\\\n\t <-&*', max_size=4)) + text[at + cut :]
    return draw(st.sampled_from(["cluster.json", "cluster.yaml"])), text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clusters")


@pytest.mark.quick
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES == 500,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(named=mutated())
def test_a_cluster_file_is_read_or_refused_in_words(folder: Path, named: tuple[str, str]) -> None:
    path = folder / named[0]
    path.write_text(named[1], encoding="utf-8", errors="surrogatepass")
    try:
        with bounded():
            problems = lint_file(path, Asked(user="alice"), LAPTOP)
    except SteelyardError:
        return
    for problem in problems:
        assert problem.message
        assert problem.fix
    try:
        with bounded():
            inventory = read_inventory(path)
    except SteelyardError:
        assert any(problem.severity == "error" for problem in problems)
        return
    assert 1 <= len(inventory.addresses) <= MAX_NODES
    words = [word for word in (*inventory.addresses, inventory.user, inventory.key_file) if word is not None]
    assert all(word.isprintable() and not word.startswith("-") for word in words)
    assert all("\n" not in f"{name}{value}" for name, value in inventory.env.items())
