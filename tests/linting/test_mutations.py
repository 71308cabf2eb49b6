"""Whatever is done to a config, lint and plan answer in words: 500 mutations here, 20,000 in `make fuzz`."""

import json
import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from bounds import bounded
from seeds import SEEDS, filled, original, packaged_content
from steelyard.configs.cells import cells_of
from steelyard.configs.choose import Asked, readings
from steelyard.configs.files import ConfigFile, read_config
from steelyard.errors import SteelyardError
from steelyard.experiment import InvalidExperimentError, Reading, packaged, resolve
from steelyard.experiment.cells import SUITE as SECTION
from steelyard.experiment.problems import raise_errors
from steelyard.frameworks.registry import planned
from steelyard.hardware.machine import Machine
from steelyard.linting import lint_file
from steelyard.linting.explain import explanations
from steelyard.linting.formats import github, sarif
from steelyard.planning.make import make_plan
from steelyard.planning.script import script
from steelyard.records.suite import cell_directories

pytestmark = pytest.mark.fuzz

EXAMPLES = int(os.environ.get("STEELYARD_FUZZ_EXAMPLES", "500"))
LAPTOP = Machine((), cpu_count=2)
CODES = set(explanations())

PLATFORMS = {"a": {"gpu": "cpu", "gpus_per_node": 1}, "b": {"gpu": "cpu", "gpus_per_node": 2}}
SUITE = {
    "axes": {
        "training.micro_batch_size": [2, 4],
        "model.preset": ["tiny-llama", "tiny-gpt"],
        "gpus": [1, 2],
        "length": {"short": {"training.sequence_length": 64}, "long": {"training.sequence_length": 128}},
    },
    "exclude": [{"training.micro_batch_size": 4, "length": "long"}],
    "include": [{"length": "short", "training.steps": 9}, {"training.micro_batch_size": 8, "expect": "oom"}],
    "repeats": 2,
}
BASES = [
    *(json.dumps(filled(packaged_content(name), 4), indent=1) for name in SEEDS),
    *(json.dumps(original(name)) for name in SEEDS),
    *(
        json.dumps(YAML(typ="safe", pure=True).load(packaged.text(name)))
        for name in ("apples-to-apples", "gpt3_6.7b_megatron_deepspeed", "tiny-llama")
    ),
    json.dumps(
        {
            "schema_version": 1,
            "name": "whole",
            "model": {"preset": "llama3.1-8b"},
            "training": {
                "micro_batch_size": 1,
                "global_batch_size": 16,
                "sequence_length": 2048,
                "steps": 4,
                "learning_rate": 1e-4,
            },
            "data": {"source": "counting", "seed": 1},
            "thresholds": ["step_time_s<=12"],
            "platforms": {
                "p": {
                    "gpu": "mi300x",
                    "nodes": 2,
                    "gpus_per_node": 8,
                    "framework": "megatron",
                    "container": {
                        "image": "rocm/megatron-lm:v25.9",
                        "devices": ["/dev/kfd"],
                        "volumes": {"/data": "/data", "/home/alice": "/h"},
                        "env": {"A": "b"},
                        "shm_size": "16G",
                        "privileged": False,
                    },
                    "network": {"nic": "thor2", "hcas": ["bnxt_re0"], "socket_interface": "eth0", "port": 1234},
                    "env": {"NCCL_DEBUG": "INFO"},
                    "options": {"num_workers": 2},
                    "hf_token_file": "/run/token",
                    "secrets": {"WANDB_API_KEY": "/run/wandb"},
                    "cache_dir": "/cache",
                    "log_dir": "/logs",
                    "allow": ["SY121"],
                    "overrides": {"training": {"seed": 3}},
                }
            },
        }
    ),
    json.dumps(
        YAML(typ="safe", pure=True).load(packaged.text("tiny-llama")) | {"platforms": PLATFORMS, "suite": SUITE}
    ),
]

YAML_TAILS = [
    "a: &a [1]\nb: &b [*a, *a]\n" + "".join(f"c{n}: &c{n} [*{'b' if not n else f'c{n - 1}'}, *b]\n" for n in range(40)),
    "m0: &m0 {x: 1}\n" + "".join(f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 9)}]}}\n" for n in range(1, 30)),
    "? [1, 2]\n: 3\n",
    "? {a: b}\n: 3\n",
    "1: 2\nnull: 3\ntrue: 4\n2026-01-01: 5\n.nan: 6\n",
    "loop: &l {self: *l}\n",
    "when: 2026-01-01T00:00:00Z\nnum: [.nan, .inf, 0x7fffffffffffffff, 1e400, 0o17, 1_000]\n",
    "big: 1" + "0" * 5000 + "\n",
    "deep: " + "{a: " * 60 + "1" + "}" * 60 + "\n",
    "deep: " + "[" * 5000 + "\n",
    "name: again\n",
    "".join(f"k{n}: 1\n" for n in range(300)),
    "'[': 1\n'a[b]': 2\n'function-after[x]': 3\n",
    "x: !!set {a, b}\ny: !!omap [a: 1]\nz: !!binary aGY=\nw: !!timestamp 2026-01-01\n",
    "x: !!python/object/apply:os.system [id]\n",
    "---\nname: another\n",
]
"""What YAML can say and JSON cannot."""

ODD: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    7,
    2**62,
    -(2**62),
    0.5,
    1e308,
    "",
    " ",
    "''",
    "0",
    "-1",
    "-8",
    "3",
    "8",
    "16",
    "1e9",
    "9999999999999999999999",
    "1_0",
    "nan",
    "inf",
    "True",
    "<changeme>",
    "{user-id}",
    "{nobody}",
    "{",
    "a\nb",
    "a\x00b",
    "\ud800",
    "\u202e",
    "é" * 50,
    "x" * 5000,
    "$(rm -rf /)",
    "'; echo",
    "TE_FP16",
    "hf",
    "mi300x",
    [],
    {},
    [[]],
    {"a": {"b": []}},
    ["x", 3, None],
    {"result_dict": {}},
    "-x",
    "--privileged",
    "\x1b[2J",
    "\u00b2",
    "1" * 5000,
    "\u0663",
    "hf_" + "a1" * 12,
    "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----",
    "/",
    "//etc/../",
    "/var/run/docker.sock",
    "/dev/../etc/shadow",
    "/home/bob",
    {"[": 1, "framework": {}},
    {"/": "/", "/x": {}},
    {"HF_TOKEN": "abc"},
    [{}],
    ["SY121", "SY999", 7],
    ["/dev/sda", "/dev"],
    list(range(200)),
    {f"k{number}": number for number in range(150)},
]

values = st.one_of(
    st.sampled_from(ODD), st.integers(-(2**40), 2**40), st.integers(0, 512).map(str), st.text(max_size=8)
).map(deepcopy)
names = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        [
            "config",
            "model_params",
            "single_node",
            "multi_node",
            "nnodes",
            "fsdp",
            "precision",
            "mi325",
            "h100",
            "schema_version",
            "platforms",
            "allow",
            "a[b]",
            "password",
            "-x",
            "suite",
            "axes",
            "include",
            "training.steps",
            "nodes",
            "platform",
        ]
    ),
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at] if at else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += paths(inner, (*at, key))
    return found


@st.composite
def mutated(draw: Any) -> str:
    """A config with one to four things done to its tree, or to its text."""
    text = draw(st.sampled_from(BASES))
    if draw(st.integers(0, 4)) == 0:
        for _ in range(draw(st.integers(1, 4))):
            at = draw(st.integers(0, len(text)))
            cut = draw(st.integers(0, 6))
            text = text[:at] + draw(st.text(alphabet='{}[]",:0a\\\n\t <', max_size=4)) + text[at + cut :]
        return str(text)
    content = json.loads(text)
    for _ in range(draw(st.integers(1, 4))):
        places = paths(content)
        if not places:
            break
        path = draw(st.sampled_from(places))
        here = content
        for key in path[:-1]:
            here = here[key]
        doing = draw(st.sampled_from(["set", "set", "set", "delete", "rename", "add"]))
        if doing == "set":
            here[path[-1]] = draw(values)
        elif doing == "delete":
            del here[path[-1]]
        elif doing == "rename":
            here[draw(names)] = here.pop(path[-1])
        else:
            here[draw(names)] = draw(values)
    return json.dumps(content)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutations")


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES == 500,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(text=mutated(), nodes=st.sampled_from([None, None, 1, 2, 4]), suffix=st.sampled_from(["json", "json", "yaml"]))
def test_lint_and_plan_answer_in_words(folder: Path, text: str, nodes: int | None, suffix: str) -> None:
    path = folder / f"mutated.{suffix}"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    answered_in_words(path, Asked(nodes=nodes, user="alice"))


@pytest.mark.parametrize("name", ["tiny-llama", "apples-to-apples"])
@pytest.mark.parametrize("at", range(len(YAML_TAILS)))
def test_what_only_yaml_can_say_is_answered_in_words(folder: Path, name: str, at: int) -> None:
    path = folder / "tail.yaml"
    path.write_text(f"{packaged.text(name)}\n{YAML_TAILS[at]}")
    answered_in_words(path, Asked(user="alice"))


def answered_in_words(path: Path, asked: Asked) -> None:
    try:
        with bounded():
            problems = lint_file(path, asked, LAPTOP)
    except SteelyardError:  # a selection that the file does not have
        return
    json.dumps(sarif(problems))
    for problem in problems:
        assert problem.code in CODES
        assert problem.message
        assert problem.fix
        assert "\n" not in github(problem)
        assert problem.line is None or problem.line >= 1
    try:
        selections = selected(read_config(path), asked)
    except InvalidExperimentError:
        assert any(problem.severity == "error" for problem in problems)
        return
    for reading, own in selections:
        try:
            raise_errors(reading.problems)
            with bounded():
                planned = make_plan(resolve(reading, own.settings, own.gpu, own.gpus), LAPTOP, own).plan
        except SteelyardError:
            assert any(problem.severity == "error" for problem in problems)
        else:
            script(planned)
            assert planned.model_dump_json()


def selected(file: ConfigFile, asked: Asked) -> list[tuple[Reading, Asked]]:
    """The first two selections of a file, or cells of its suite."""
    if SECTION not in file.content:
        return [(reading, asked) for reading in readings(file, asked)[:2]]
    cells = cells_of(file, asked)
    assert len({directory.casefold() for directory in cell_directories([(None, c.name) for c in cells.cells])}) == len(
        cells.cells
    )
    every = [cells.asked_of(cell) for cell in (cells.cells[0], cells.cells[-1])]
    return [(reading, own) for own in every for reading in readings(cells.file, own)]


@st.composite
def experiments(draw: Any) -> str:
    """An experiment for one of the frameworks, of odd sizes and choices."""
    size = st.sampled_from([1, 1, 1, 2, 3, 4, 8, 16])
    flag = st.booleans()
    kernel = st.sampled_from([None, True, False])
    dtype = draw(st.sampled_from(["bf16", "fp16", "fp32"]))
    document = {
        "schema_version": 1,
        "name": "odd",
        "model": {
            "preset": draw(st.sampled_from(["tiny-llama", "llama3.1-8b", "llama3.1-70b", "gpt3-6.7b", "qwen2.5-7b"]))
        },
        "training": {
            "micro_batch_size": draw(size),
            "global_batch_size": draw(st.sampled_from([1, 8, 24, 64, 100])),
            "sequence_length": draw(st.sampled_from([7, 64, 2048])),
            "steps": draw(st.integers(1, 40)),
            "learning_rate": 1e-4,
            "warmup_steps": draw(st.integers(0, 10)),
            "seed": draw(st.sampled_from([0, 7])),
            "recompute": draw(st.sampled_from(["none", "selective", "full"])),
            "checkpointing": draw(flag),
        },
        "parallelism": {
            "tensor_parallel_size": draw(size),
            "pipeline_parallel_size": draw(size),
            "context_parallel_size": draw(size),
            "fsdp_size": draw(size),
            "sequence_parallel": draw(flag),
            "distributed_optimizer": draw(flag),
            "overlap_grad_reduce": draw(flag),
        },
        "precision": {
            "dtype": dtype,
            "loss_scale": "dynamic" if dtype == "fp16" else None,
            "fp8": draw(st.sampled_from([None, "hybrid"])),
            "grad_reduce_in_fp32": draw(flag),
        },
        "kernels": {"use_flash_attn": draw(kernel), "masked_softmax_fusion": draw(kernel)},
        "data": draw(
            st.sampled_from(
                [
                    {"source": "counting", "seed": 7},
                    {"source": "uniform", "seed": 7},
                    {"source": "tokens", "path": "/d/c", "seed": 7, "tokenizer": "meta-llama/Llama-3.1-8B"},
                ]
            )
        ),
        "platforms": {
            "p": {
                "gpu": draw(st.sampled_from(["mi300x", "h100", "a100", "cpu"])),
                "nodes": draw(st.sampled_from([1, 1, 2, 3])),
                "gpus_per_node": draw(st.sampled_from([1, 8, 8, 8])),
                "framework": draw(st.sampled_from(planned())),
                "network": draw(st.sampled_from([{}, {"nic": "thor2", "socket_interface": "eth0"}, {"nic": "ainic"}])),
                **draw(st.sampled_from([{}, {"container": {"image": "i", "shm_size": "1G"}}])),
            }
        },
    }
    return json.dumps(document)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES == 500, database=None)
@given(text=experiments())
def test_an_experiment_of_odd_sizes_is_planned_or_refused_in_words(folder: Path, text: str) -> None:
    path = folder / "odd.json"
    path.write_text(text)
    problems = lint_file(path, Asked(), LAPTOP)
    (reading,) = readings(read_config(path), Asked())
    try:
        planned = make_plan(resolve(reading), LAPTOP).plan
    except SteelyardError:
        assert any(problem.severity == "error" for problem in problems)
    else:
        assert not any(problem.severity == "error" for problem in problems)
        assert script(planned)
        assert planned.model_dump_json()
