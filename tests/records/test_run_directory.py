"""The run directory: made whole, readable at any byte, honest about its state."""

import json
import resource
from pathlib import Path

import pytest

from steelyard import records
from steelyard.errors import InputError
from steelyard.records import Event, Failure, Provenance, RunManifest, RunPlatform, RunWriter, Step


def manifest(name: str = "20260101T000000-tiny-cpu") -> RunManifest:
    platform = RunPlatform(
        name="cpu", gpu=None, gpu_name="cpu", nodes=1, gpus_per_node=1, world_size=1, peak_tflops_per_gpu=None
    )
    provenance = Provenance(
        steelyard="0", command=["steelyard"], file=None, sha256=None, host="h", python="3", system="s", started="now"
    )
    return RunManifest(
        name=name,
        framework="native",
        experiment={"name": "tiny"},
        sources={},
        platform=platform,
        expected={},
        provenance=provenance,
    )


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return records.create_run(tmp_path / "runs", manifest(), {"nodes": []}, None)


def test_a_run_is_running_while_it_is_held_and_interrupted_after(writer: RunWriter) -> None:
    assert records.load(writer.directory).status == "running"
    writer._heartbeat.stop(writer.directory)  # as when the process dies
    assert records.load(writer.directory).status == "interrupted"
    assert json.loads((writer.directory / "run.json").read_text())["status"] == "running"


def test_the_end_is_written_with_its_reason(writer: RunWriter) -> None:
    writer.append_step(Step(step=1, loss=2.0))
    writer.append_event(Event(kind="oom", message="out of memory"))
    writer.finish("failed", 1, Failure(kind="oom", message="out of memory"))
    run = records.load(writer.directory)
    assert (run.status, run.num_steps, run.manifest.exit_status) == ("failed", 1, 1)
    assert run.manifest.failure is not None
    assert [event.kind for event in records.events(writer.directory)] == ["oom"]
    assert not (writer.directory / "heartbeat").exists()


def test_a_line_cut_at_any_byte_leaves_the_steps_before_it(writer: RunWriter) -> None:
    for number in (1, 2, 3):
        writer.append_step(Step(step=number, loss=1 / number))
    path = writer.directory / "steps.jsonl"
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        assert [step.step for step in records.steps(writer.directory)] == [1, 2]
        assert records.load(writer.directory).num_steps == 2


def test_a_broken_line_inside_is_an_error_and_not_a_gap(writer: RunWriter) -> None:
    (writer.directory / "steps.jsonl").write_text('{"step": 1}\n{"step"\n{"step": 3}\n')
    with pytest.raises(InputError, match="line 2 cannot be read"):
        list(records.steps(writer.directory))


def test_an_existing_name_is_refused_and_a_made_one_numbered(writer: RunWriter, tmp_path: Path) -> None:
    again = records.create_run(tmp_path / "runs", manifest(), {}, None)
    assert again.directory.name == "20260101T000000-tiny-cpu-2"
    assert records.load(again.directory).manifest.name == again.directory.name
    with pytest.raises(InputError, match="already exists"):
        records.create_run(tmp_path / "runs", manifest(), {}, writer.directory.name)


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "x" * 300])
def test_a_name_that_is_no_directory_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a valid directory name"):
        records.create_run(tmp_path / "runs", manifest(), {}, name)
    assert not (tmp_path / "runs").exists()


def test_an_unwritable_parent_is_refused_and_nothing_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(InputError, match="is not writable"):
        records.create_run(tmp_path / "file" / "runs", manifest(), {}, None)


def test_nothing_hidden_is_left_beside_a_run(writer: RunWriter) -> None:
    assert [path.name for path in writer.directory.parent.iterdir()] == [writer.directory.name]
    assert {path.name for path in writer.directory.iterdir()} == {
        "run.json",
        "plan.json",
        "steps.jsonl",
        "events.jsonl",
        "telemetry.jsonl",
        "logs",
        "heartbeat",
    }


@pytest.mark.parametrize("version", [2, 0, "1", None, True])
def test_a_version_we_do_not_know_is_refused(writer: RunWriter, version: object) -> None:
    path = writer.directory / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": version}))
    with pytest.raises(InputError, match=r"schema_version is .*expected 1 to 1; next: pip install --upgrade steelyard"):
        records.load(writer.directory)


def test_a_missing_run_is_named_with_the_nearest_names(writer: RunWriter, tmp_path: Path) -> None:
    out = writer.directory.parent
    with pytest.raises(InputError, match="is not a run"):
        records.load(tmp_path)
    with pytest.raises(InputError) as missing:
        records.find("zebra", out)
    assert str(missing.value) == (
        f"Run 'zebra' not found (looked in {out}/), expected a run directory; next: steelyard runs list --out {out}"
    )
    name = writer.directory.name
    with pytest.raises(InputError) as missing:
        records.find("tiny-cqu", out)
    assert missing.value.near == (name,)
    assert str(missing.value) == f"Run 'tiny-cqu' not found (looked in {out}/). Did you mean {name!r}?"
    assert missing.value.next == f"steelyard runs list --out {out}"


def test_a_run_is_found_by_path_and_by_name(writer: RunWriter, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    assert records.find(writer.directory.name, out).directory == writer.directory
    assert records.find(str(writer.directory), tmp_path / "elsewhere").directory == writer.directory
    assert list(records.runs_under(out)) == [writer.directory]


def test_a_line_that_does_not_fit_the_disk_is_not_half_written(writer: RunWriter) -> None:
    writer.append_step(Step(step=1, loss=1.0))
    whole = (writer.directory / "steps.jsonl").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            writer.append_step(Step(step=2, loss=1.0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (writer.directory / "steps.jsonl").read_bytes() == whole
    assert writer.steps == 1
    writer.append_step(Step(step=2, loss=0.5))
    assert [step.step for step in records.steps(writer.directory)] == [1, 2]


@pytest.mark.parametrize(
    "line",
    ['{"loss": 3}', '{"step": "1"}', '{"step": 1, "nonfinite": {"loss": "nan"}}', '{"step": 1, "source": 3}', "[1]"],
)
def test_a_line_that_is_no_step_is_named(writer: RunWriter, line: str) -> None:
    (writer.directory / "steps.jsonl").write_text(f'{{"step": 1}}\n{line}\n')
    with pytest.raises(InputError, match=r"steps.jsonl: line 2 cannot be read"):
        list(records.steps(writer.directory))


def test_a_key_of_a_later_version_is_passed_over(writer: RunWriter) -> None:
    (writer.directory / "steps.jsonl").write_text('{"step": 1, "loss": 2.0, "dreams": 3}\n')
    assert [step.loss for step in records.steps(writer.directory)] == [2.0]


def test_a_run_may_be_named_as_text(writer: RunWriter, tmp_path: Path) -> None:
    assert list(records.steps(str(writer.directory))) == []
    with pytest.raises(InputError, match="is not a run"):
        list(records.steps(tmp_path))
