"""A framework is added by a folder and one line: it is then read, planned and judged with nothing else changed."""

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.experiment.platform import FRAMEWORKS
from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered
from steelyard.records import Event

FACTS = """
from steelyard.accounting import Convention
from steelyard.frameworks.facts import Facts

FACTS = Facts(
    name="acme",
    names={"training.learning_rate": "lr", "training.steps": "max_steps", "training.seed": "seed"},
    init_stds=(0.02,),
    flop_conventions=(Convention.CAUSAL,),
    flop_conventions_by_era={"": (Convention.CAUSAL,)},
    log_interval=1,
    memory_kind="torch_reserved_peak",
    end_marker=rb"acme: done",
)
"""
PLAN = """
from steelyard import accounting
from steelyard.frameworks.planner import Command


class Acme:
    def state_bytes(self, case):
        return accounting.state_bytes(case.resolved.experiment.precision, master_bytes=4)

    def decides(self, resolved):
        return {}

    def refusals(self, case):
        return iter(())

    def variables(self, case, node):
        return {"ACME_NODES": str(node.nodes)}

    def command(self, case, node):
        training = case.resolved.experiment.training
        return Command(["acme", f"--lr={training.learning_rate}"], self.variables(case, node), {})


PLANNER = Acme()
"""
LOG = """
import re

from acme_framework.facts import FACTS
from steelyard.frameworks.logs.dialect import Dialect, event
from steelyard.frameworks.logs.fields import Field

DIALECTS = (
    Dialect(
        name="acme",
        framework="acme",
        opening=rb"^acme update \\d",
        mark=re.compile(rb"%(mark)s (?P<step>\\d{1,12})/(?P<total>\\d{1,12}) (?=;)"),
        separator=b";",
        fields={
            b"nll": Field("loss"),
            b"loss": Field("loss"),
            b"seconds": Field("step_time_s"),
            b"batch": Field("global_batch_size"),
            b"length": Field("sequence_length"),
            b"gib": Field("memory_gib"),
        },
        required=("loss", "step_time_s"),
        memory_kind=FACTS.memory_kind,
        words=(rb"%(word)s",),
        telltales=(rb"acme",),
        others={FACTS.end_marker: event("finished")},
        companions=(rb"acme \\d+\\.\\d+ starts",),
    ),
)
"""
STEP = "acme update {step}/20 ; nll: {loss:.4f} ; seconds: {seconds:.3f} ; batch: 32 ; length: 128 ; gib: 12.5"


def lines(step_line: str = STEP) -> str:
    steps = (
        step_line.format(step=step, loss=2 + 4 * math.exp(-step / 5), seconds=0.5 + step % 3 / 1000)
        for step in range(1, 21)
    )
    return "\n".join(["acme 1.0 starts", *steps, "acme: done", ""])


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Write the folder of a framework, and put its line into the table."""

    def write(mark: str = "^acme update", word: str = "acme: done") -> None:
        folder = tmp_path / "packages" / "acme_framework"
        folder.mkdir(parents=True)
        log = LOG % {"mark": mark, "word": word}
        for name, text in {"__init__": "", "facts": FACTS, "plan": PLAN, "log": log}.items():
            (folder / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(folder.parent)
        monkeypatch.setitem(FRAMEWORKS, "acme", "acme_framework")

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme_framework"]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    """Each test has another `acme`, and the registry keeps what it has imported."""
    from steelyard.frameworks import registry

    remembered = (registry.facts, registry.is_planned, registry.dialects)
    for lookup in remembered:
        lookup.cache_clear()
    yield
    for lookup in remembered:
        lookup.cache_clear()


def test_it_is_read_planned_and_judged(add: Any, cli: Any, tiny: Path, tmp_path: Path) -> None:
    add()
    (tmp_path / "train.log").write_text(lines())
    read = cli("ingest", tmp_path / "train.log", "--name", "read", "--json")
    assert (read.status, read.document["framework"], read.document["steps"]) == (0, "acme", 20), read.err
    judged = cli("check", "runs/read", "--json")
    findings = {finding["check"]: finding["status"] for finding in judged.document["findings"]}
    assert findings["completed"] == findings["steps_present"] == findings["loss_finite"] == "pass"

    platform = "platforms: {p: {gpu: h100, gpus_per_node: 2, framework: acme}}\ndata:"
    tiny.write_text(tiny.read_text().replace("data:", platform, 1))
    planned = cli("plan", tiny, "--json")
    assert planned.status == 0, planned.err
    (node,) = planned.document["nodes"]
    assert node["argv"][0] == "acme"
    assert node["env"]["ACME_NODES"] == "1"


def test_a_name_that_is_not_in_the_table_is_no_framework(cli: Any, tiny: Path) -> None:
    tiny.write_text(tiny.read_text().replace("data:", "platforms: {p: {gpu: cpu, framework: acme}}\ndata:", 1))
    assert cli("plan", tiny).status == 2


@pytest.mark.parametrize("asked", [(), ("--framework", "acme")])
@pytest.mark.parametrize(
    "step_line",
    [
        pytest.param(STEP.replace("/20", " of 20"), id="begins as its step lines do"),
        pytest.param("[acme] step {step} of 20, loss = {loss:.4f}, {seconds:.3f} s", id="nothing declared fits"),
    ],
)
def test_step_lines_that_its_patterns_miss_are_unread_lines(
    add: Any, cli: Any, tmp_path: Path, step_line: str, asked: tuple[str, ...]
) -> None:
    add()
    sink = Gathered()
    log = LogReader("train.log", sink, only=asked[1] if asked else None)
    log.feed(lines(step_line).encode().split(b"\n"))
    log.end()
    assert log.unread == 20
    told = [one for one in sink.take() if isinstance(one, Event) and one.kind == "unread_line"]
    assert [one.source and one.source.line for one in told] == list(range(2, 22))

    (tmp_path / "train.log").write_text(lines(step_line))
    refused = cli("ingest", tmp_path / "train.log", "--json", *asked)
    assert refused.status == 2
    assert "no step of acme could be read, but 20 lines look like steps" in refused.document["error"]["message"]
    assert refused.document["error"]["next"].startswith("steelyard ingest ")


def test_step_lines_of_which_only_the_mark_is_declared_are_read(add: Any, cli: Any, tmp_path: Path) -> None:
    """The filter holds every mark, so that a word its dialect forgot drops no step."""
    add(word="nothing that is printed")
    (tmp_path / "train.log").write_text(lines())
    read = cli("ingest", tmp_path / "train.log", "--name", "read", "--json")
    assert read.document["steps"] == 20
