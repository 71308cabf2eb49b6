"""What is true of one framework stands in its folder: nothing else goes by its name."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import steelyard
from steelyard.experiment.platform import FRAMEWORKS
from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered
from steelyard.frameworks.registry import dialects

SOURCE = Path(steelyard.__file__).parent
MAY_NAME = ("frameworks", "configs", "experiment", "cli", "demo")
"""Packages that hold the frameworks, read files that name them, or take their names from a person."""


WORDS = re.compile(
    r"lm loss|deepspeed|jax|xla(?!bel)|mcore|eod_mask|megatron|maxtext|(?<![a-z])nemo(?![a-z])|torchtitan|primus",
    re.IGNORECASE,
)
EXCEPTIONS = {
    "xla": "a kind of failure, stored in the events of runs",
    "data.eod_mask_loss": "a key of our registry of keys",
    "JAX": "a family of config files, which configs/ defines",
}
"""Texts that may stand anywhere, each with the reason."""


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a module that is no docstring or remark, with its line."""
    tree = ast.parse(path.read_text())
    remarks = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in remarks:
            yield node.lineno, node.value if isinstance(node.value, str) else node.value.decode("utf-8", "replace")


def identifiers(path: Path) -> Iterator[tuple[int, str]]:
    """Every name a module declares, imports or uses (enum members, functions, constants, arguments), with its line."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.ImportFrom(module=str(module)) if module.startswith("steelyard.frameworks."):
                yield node.lineno, module
            case ast.alias(name=name, asname=called):
                yield node.lineno, called or name


def others() -> Iterator[Path]:
    return (path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] not in MAY_NAME)


def test_no_other_module_names_a_framework() -> None:
    """Neither by the name it goes by here nor, in a sentence or a name, by words that belong to one."""
    names = {*FRAMEWORKS, *(name.replace("-", "_") for name in FRAMEWORKS), *(each.name for each in dialects())}
    named = [
        f"{path.relative_to(SOURCE)}:{line} {text}"
        for path in others()
        for line, text in (*literals(path), *identifiers(path))
        if (text in names or WORDS.search(text)) and text not in EXCEPTIONS
    ]
    assert named == []


@pytest.mark.parametrize(
    "code",
    [
        "class Convention(StrEnum):\n    MEGATRON_DEEPSPEED = auto()",
        "NEMO_VOCABULARY = {}",
        "def _megatron(): ...",
        "rule(jax_port=1)",
        "from steelyard.frameworks.megatron_family import FLOOR",
        "label = 'lm loss'",
        "kind = f'{x} of xla'",
    ],
)
def test_a_framework_is_seen_in_every_form(tmp_path: Path, code: str) -> None:
    (tmp_path / "module.py").write_text(code)
    texts = [text for _, text in (*literals(tmp_path / "module.py"), *identifiers(tmp_path / "module.py"))]
    assert any(WORDS.search(text) for text in texts)


def test_every_exception_is_needed() -> None:
    used = {text for path in others() for _, text in (*literals(path), *identifiers(path))}
    assert used >= EXCEPTIONS.keys()


def test_no_lint_rule_names_a_family_of_configs() -> None:
    rules = sorted((SOURCE / "linting").rglob("*.py"))
    assert [str(path) for path in rules for _, text in literals(path) if text == "jax"] == []


def test_the_shared_readers_name_no_framework_either() -> None:
    shared = [*(SOURCE / "frameworks" / "logs").glob("*.py"), *(SOURCE / "frameworks").glob("*.py")]
    named = [f"{path.name}: {text}" for path in shared for _, text in literals(path) if text in FRAMEWORKS]
    assert named == []


@pytest.mark.processes
def test_a_shared_module_loads_no_framework() -> None:
    code = "import sys, steelyard.secrets, steelyard.frameworks.logs; print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    ours = [name for name in ast.literal_eval(loaded) if name.startswith("steelyard")]
    assert ours == ["steelyard", "steelyard.frameworks", "steelyard.frameworks.logs", "steelyard.secrets"]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_framework_has_samples_that_are_read_as_its_own(name: str) -> None:
    samples = sorted((SOURCE.parent / FRAMEWORKS[name].replace(".", "/") / "samples").glob("*.log"))
    assert samples
    for sample in samples:
        log = LogReader(sample.name, Gathered())
        log.feed(sample.read_bytes().split(b"\n"))
        log.end()
        told = [one for one in dialects() if one.name in {*log.seen, *log.hinted}]
        assert name in {one.framework for one in told}, sample
        assert (log.steps_read > 1, log.unread) == (True, 0), sample
