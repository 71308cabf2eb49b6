"""The Python API: functions that do what their verbs do, however often and in whatever order they are called."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import steelyard
from steelyard.demo import RECORDED
from steelyard.errors import InputError

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "api.md"
LOG = Path(__file__).parent / "frameworks/logs/real/megatron_clean_int1.log.gz"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Any, cli: Any) -> Path:
    monkeypatch.chdir(tmp_path)
    recorded("baseline")
    recorded("again")
    cli("init", "tiny-llama")
    return tmp_path


def test_every_function_can_be_called_twice(here: Path) -> None:
    """A package of the same name would replace the function once something imported it."""
    for _ in range(2):
        assert steelyard.load("baseline").steps().loss.finite.all()
        assert steelyard.ingest(LOG, gpu="h100").status in ("completed", "interrupted", "failed")
        assert steelyard.lint("tiny-llama.yaml") == []
        assert steelyard.plan("tiny-llama.yaml", gpu="cpu", gpus=1).plan.nodes
        assert steelyard.check("baseline").status == "pass"
        assert steelyard.compare("again", "baseline").ratios["throughput"] is not None
        assert [path.name for path in steelyard.report("baseline", to="md")] == ["report.md"]


@pytest.mark.torch
def test_a_run_can_be_made_twice(here: Path) -> None:
    for _ in range(2):
        run = steelyard.run("tiny-llama.yaml", settings={"training.steps": 3}, gpu="cpu", gpus=1)
        assert (run.status, run.num_steps) == ("completed", 3)
    begun: list[Any] = []
    planned = steelyard.plan("tiny-llama.yaml", settings={"training.steps": 2}, gpu="cpu", gpus=1)
    run = steelyard.run(planned, begun=begun.append)
    assert (run.num_steps, [writer.directory for writer in begun]) == (2, [run.directory])


def test_settings_are_a_mapping_or_as_typed(here: Path) -> None:
    plans = [
        steelyard.plan("tiny-llama.yaml", settings=settings, gpu="cpu", gpus=1).plan
        for settings in ({"training.steps": 7}, ["training.steps=7"])
    ]
    assert plans[0] == plans[1]
    assert plans[0].job.steps == 7


def test_wrong_input_is_an_error_with_a_next_step(here: Path) -> None:
    with pytest.raises(InputError) as error:
        steelyard.plan("tiny-llama.yaml", gpu="mi300")
    assert (error.value.key, error.value.next) == ("--gpu", "--gpu mi300x")
    with pytest.raises(AttributeError, match="weigh"):
        steelyard.weigh  # noqa: B018


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"data.tokenizer": "hf_" + "a" * 34}, "data.tokenizer"),
        ({"steps": 7}, "--set"),
        ({"platform.gpu": "h100"}, None),
    ],
    ids=["a secret", "no group", "another option"],
)
def test_a_mapping_is_held_to_the_rules_of_set(here: Path, settings: dict[str, Any], key: str | None) -> None:
    with pytest.raises(InputError) as error:
        steelyard.plan("tiny-llama.yaml", settings=settings, gpu="cpu", gpus=1)
    assert key is None or error.value.key == key
    assert "hf_aaaa" not in str(error.value)
    assert error.value.next


def test_a_wrong_metric_mode_margin_or_loss_is_refused_before_anything_is_kept(here: Path) -> None:
    wrongs = ({"metrics": ["speed"]}, {"mode": "fair"}, {"target_loss": -1.0}, {"margin": 2.0}, {"margin": "200%"})
    for wrong in wrongs:
        with pytest.raises(InputError) as error:
            steelyard.compare("again", "baseline", **wrong)  # type: ignore[arg-type]
        assert error.value.next
    assert not Path("runs/comparisons").exists()


def test_a_margin_is_a_share_or_as_typed(here: Path) -> None:
    assert [steelyard.compare("again", "baseline", margin=given).margin for given in (0.03, "3%")] == [0.03, 0.03]


def test_an_unknown_framework_or_keyword_is_refused(here: Path) -> None:
    with pytest.raises(InputError) as error:
        steelyard.ingest(LOG, framework="megatron9")
    assert error.value.key == "--framework"
    for call, given in (
        (steelyard.ingest, LOG),
        (steelyard.lint, "tiny-llama.yaml"),
        (steelyard.run, "tiny-llama.yaml"),
    ):
        with pytest.raises(TypeError, match="gpuu"):
            call(given, gpuu="h100")  # type: ignore[operator]
    with pytest.raises(TypeError, match="plan"):
        steelyard.run(steelyard.plan("tiny-llama.yaml", gpu="cpu", gpus=1), gpus=2)


def test_of_several_files_one_that_cannot_be_read_is_a_problem(here: Path) -> None:
    problems = steelyard.lint("tiny-llama.yaml", "absent.yaml")
    assert [(problem.file, problem.stops) for problem in problems] == [("absent.yaml", True)]
    with pytest.raises(InputError):
        steelyard.lint("absent.yaml")


@pytest.mark.parametrize(
    "words",
    [
        ("ingest", str(LOG)),
        ("lint", "tiny-llama.yaml"),
        ("plan", "tiny-llama.yaml"),
        ("run", "tiny-llama.yaml", "--gpu", "cpu", "--gpus", "1"),
        ("check", "baseline"),
        ("compare", "again", "baseline"),
        ("report", "baseline"),
    ],
)
def test_a_verb_calls_the_function_of_its_name(
    here: Path, cli: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def called(*_: Any, **__: Any) -> None:
        raise InputError("called")

    monkeypatch.setattr(f"steelyard.api.{words[0]}", called)
    assert "called" in cli(*words).err


def test_a_comparison_is_kept_and_can_be_reported(here: Path) -> None:
    comparison = steelyard.compare(["again"], "baseline", metrics=["memory"], name="kept")
    assert comparison.directory == Path("runs/comparisons/kept")
    assert steelyard.report(comparison.directory, to="md")[0].is_file()


def test_a_run_is_given_by_its_name_its_directory_or_itself(here: Path) -> None:
    run = steelyard.load("baseline")
    again = steelyard.load("again")
    for name in ("baseline", Path("runs/baseline"), run):
        assert steelyard.load(name).directory == run.directory
        assert steelyard.check(name).status == "pass"
        assert steelyard.report(name, to="md")[0].is_file()
    assert steelyard.compare([again], run, metrics="throughput,memory").asked == ("throughput", "memory")


def test_a_name_with_a_comma_is_a_name(here: Path) -> None:
    Path("runs/again").rename("runs/b,0")
    assert [subject.run.directory.name for subject in steelyard.compare("baseline", ["b,0"]).baseline.subjects] == [
        "b,0"
    ]


def test_one_text_is_one_limit(here: Path) -> None:
    assert steelyard.check("baseline", thresholds="step_time_s<=1000").thresholds == ("step_time_s<=1000",)


def test_nothing_to_ingest_is_an_error(here: Path) -> None:
    with pytest.raises(InputError, match="no paths"):
        steelyard.ingest()


def test_the_functions_are_listed() -> None:
    assert set(steelyard.__all__) <= set(dir(steelyard))


def test_steps_are_a_frame_where_pandas_is_installed(here: Path) -> None:
    pytest.importorskip("pandas")
    frame = steelyard.load("baseline").steps().to_pandas()
    assert list(frame["step"][:3]) == [1, 2, 3]


def test_the_examples_of_the_page_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "logs").mkdir()
    for log in (here / "train.log", here / "logs" / "train.log"):
        log.write_bytes(RECORDED.joinpath("baseline", "logs", "node0.log").read_bytes())
    names = {"steelyard": steelyard}
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) >= 4
    for example in examples:
        exec(example, names)
    assert "settings" in PAGE.read_text()


@pytest.mark.processes
def test_the_examples_of_the_page_are_typed(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    script = tmp_path / "examples.py"
    script.write_text("import steelyard\n\n" + "\n".join(examples))
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", root / "pyproject.toml", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stdout


@pytest.mark.processes
def test_importing_it_loads_nothing_of_it() -> None:
    code = "import sys, steelyard; print([name for name in sys.modules if name.startswith('steelyard.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
