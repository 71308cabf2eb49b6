"""The command line starts light and shows only what is built."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAVY = {
    "msgspec",
    "jinja2",
    "torch",
    "numpy",
    "scipy",
    "polars",
    "matplotlib",
    "pydantic",
    "rich",
    "ruamel",
    "psutil",
    "pynvml",
    "asyncio",
    "asyncssh",
}


@pytest.mark.processes
@pytest.mark.quick
def test_help_loads_nothing_heavy() -> None:
    probe = (
        "import sys\nfrom steelyard.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert "Usage: steelyard" in done.stdout
    assert not HEAVY & set(done.stderr.split())


def test_every_verb_says_what_it_ends_with() -> None:
    from steelyard.cli.main import app, runs

    page = (Path(__file__).parents[2] / "docs/reference/exit-statuses.md").read_text()
    verbs = [str(one.name) for one in app.registered_commands] + [
        f"runs {one.name}" for one in runs.app.registered_commands
    ]
    assert len(verbs) > 12
    assert [verb for verb in verbs if f"`{verb}`" not in page] == []


@pytest.mark.processes
@pytest.mark.quick
def test_the_trainer_s_tokens_import_without_torch() -> None:
    probe = "import sys, steelyard.trainer.tokens, steelyard.planning.plan; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.torch
@pytest.mark.processes
def test_the_trainer_imports_torch_numpy_and_itself_alone() -> None:
    """Of installed packages, only what torch and numpy bring along may be loaded."""

    def loaded_by(imports: str) -> set[str]:
        probe = f"import sys, {imports}; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    ours = loaded_by("steelyard.trainer.train, steelyard.trainer.__main__")
    theirs = loaded_by("torch, numpy, torch.distributed, torch.utils.checkpoint")
    packages = {name.partition(".")[0] for name in ours} - {name.partition(".")[0] for name in theirs}
    assert packages - set(sys.stdlib_module_names) == {"steelyard"}
    own = {name for name in ours if name.startswith("steelyard.")}
    assert {name for name in own if not f"{name}.".startswith("steelyard.trainer.")} == set()


@pytest.mark.parametrize(
    "verb", ["demo", "init", "lint", "plan", "diff", "preflight", "run", "check", "compare", "report", "verify", "runs"]
)
def test_every_verb_has_help_with_an_example(cli: Any, verb: str) -> None:
    shown = cli(verb, "--help")
    assert shown.status == 0
    assert "steelyard " + verb in shown.out.split("Examples:", 1)[1]


@pytest.mark.parametrize("verb", ["list", "show", "trend", "learn", "scaling"])
def test_every_verb_of_runs_has_help_with_an_example(cli: Any, verb: str) -> None:
    shown = cli("runs", verb, "--help")
    assert shown.status == 0
    assert f"steelyard runs {verb}" in shown.out.split("Examples:", 1)[1]


def test_verbs_that_are_not_built_are_absent(cli: Any) -> None:
    listed = cli("--help").out.split("Commands:")[1].split("\n\n")[0]
    assert re.findall(r"^  (\w+)", listed, re.MULTILINE) == [
        "demo",
        "init",
        "lint",
        "explain",
        "plan",
        "diff",
        "preflight",
        "run",
        "ingest",
        "check",
        "compare",
        "report",
        "verify",
        "data",
        "runs",
    ]


VERBS = [
    "demo",
    "init",
    "lint",
    "explain",
    "plan",
    "diff",
    "preflight",
    "run",
    "ingest",
    "check",
    "compare",
    "report",
    "verify",
]
VERBS += ["runs"]


@pytest.mark.parametrize("verb", ["", *VERBS, "runs list", "runs trend", "runs learn"])
def test_help_is_80_columns_wide_and_cuts_no_sentence(cli: Any, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = cli(*verb.split(), "--help").out
    assert "..." not in shown.replace("[ARGS]...", "").partition("Options:")[2].partition("Examples:")[0]
    assert not re.search(r"<\w|list\[|Path\]", shown)
    before, _, examples = shown.partition("Examples:")
    assert max(map(len, before.splitlines())) <= 80
    assert examples.count("steelyard ") >= 1


@pytest.mark.parametrize(
    ("verb", "usage"),
    [
        ("lint", "steelyard lint [OPTIONS] FILE..."),
        ("run", "steelyard run [OPTIONS] FILE"),
        ("plan", "steelyard plan [OPTIONS] FILE [BASELINE]"),
        ("init", "steelyard init [OPTIONS] [NAME]"),
        ("explain", "steelyard explain [OPTIONS] KEY|SYnnn|CODE"),
    ],
)
def test_usage_names_arguments_as_they_are_typed(cli: Any, verb: str, usage: str) -> None:
    shown = cli(verb, "--help").out
    assert shown.startswith(f"Usage: {usage}\n")
    assert f"Arguments:\n  {usage.partition('[OPTIONS] ')[2].partition(' ')[0]}  " in shown
    assert "Examples:\n    steelyard" in shown


def test_a_long_example_continues_on_the_next_line(cli: Any) -> None:
    shown = cli("plan", "--help").out.partition("Examples:\n")[2]
    assert all(line.startswith(("    steelyard ", "        ")) for line in shown.splitlines())
    assert max(map(len, shown.splitlines())) <= 80
    assert " \\\n" in shown


def test_no_verb_shows_the_help_and_is_wrong_usage(cli: Any) -> None:
    for words in ((), ("runs",)):
        shown = cli(*words)
        assert shown.status == 2
        assert "Usage: steelyard" in shown.out


@pytest.mark.parametrize(
    ("name", "meaning"), [("step_time_s", "Median step time"), ("mfu", "utilization"), ("config.nnodes", "nodes")]
)
def test_every_name_that_is_printed_is_explained(cli: Any, name: str, meaning: str) -> None:
    done = cli("explain", name)
    assert done.status == 0
    assert meaning in done.out
