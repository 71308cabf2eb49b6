"""A bundle is verified by making its report again: whatever was changed in it is found."""

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bundles
import steelyard
from steelyard.errors import NotInstalledError
from steelyard.reporting import verify
from steelyard.reporting.verify import Verification

Files = dict[str, bytes]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The bundle of a kind, made once."""
    known: dict[str, Path] = {}

    def call(kind: str) -> Path:
        if kind not in known:
            known[kind] = bundles.make(kind, tmp_path_factory.mktemp(kind))
        return known[kind]

    return call


@pytest.fixture
def verified(made: Callable[[str], Path], tmp_path: Path) -> Callable[..., Verification]:
    """The verification of a bundle whose files were edited."""

    def call(kind: str, edit: Callable[[Files], Files | None], with_checksums: bool = True) -> Verification:
        files = bundles.files_of(made(kind))
        edited = edit(files)
        bundles.pack(tmp_path / "edited.zip", files if edited is None else edited, with_checksums)
        return steelyard.verify(tmp_path / "edited.zip")

    return call


def codes(verification: Verification, *statuses: str) -> set[str]:
    return {finding.code.name for finding in verification.findings if finding.status in (statuses or ("fail",))}


@pytest.mark.parametrize("kind", bundles.KINDS)
def test_a_bundle_verifies_from_another_directory_and_after_it_was_moved(
    cli: Any, made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(made(kind), elsewhere / "evidence.zip")
    monkeypatch.chdir(elsewhere)
    done = cli("verify", "evidence.zip", "--json")
    assert (done.status, done.document["verdict"], done.document["kind"]) == (0, "pass", kind)
    assert {finding["code"] for finding in done.document["findings"]} == {
        *("files_complete", "derived_again", "rendered_again")
    }
    assert list(done.document["reports"]) == ["report/report.html", "report/report.md"]


@pytest.mark.parametrize("kind", bundles.KINDS)
def test_the_same_records_give_the_same_bytes_wherever_they_are(made: Any, tmp_path: Path, kind: str) -> None:
    name = json.loads(bundles.files_of(made(kind))[bundles.MANIFEST])["home"].rpartition("/")[2]
    shutil.copytree(made(kind).parent / "runs", tmp_path / "a/b/runs")
    steelyard.report(name, to="html,md", bundle=tmp_path / "second.zip", out=tmp_path / "a/b/runs")
    assert (tmp_path / "second.zip").read_bytes() == made(kind).read_bytes()


@pytest.mark.parametrize("kind", bundles.KINDS)
@pytest.mark.parametrize("with_checksums", [False, True])
def test_a_random_change_is_found_whether_checksums_are_made_again_or_not(
    made: Any, tmp_path: Path, kind: str, with_checksums: bool
) -> None:
    """More of them are in test_spoilt_bundles.py."""
    files, name = bundles.changed(bundles.files_of(made(kind)), random.Random(kind))
    bundle = bundles.pack(tmp_path / "changed.zip", files, with_checksums)
    assert steelyard.verify(bundle).status == "fail", name


def test_a_changed_digit_is_named_by_file_line_column_and_both_texts(verified: Any) -> None:
    def edit(files: Files) -> None:
        text = files["report/report.md"]
        at = text.index(b" tokens/s")
        files["report/report.md"] = text[: at - 3] + b"999" + text[at:]

    findings = [finding for finding in verified("run", edit).findings if finding.status == "fail"]
    assert [finding.code.name for finding in findings] == ["rendered_otherwise"]
    (finding,) = findings
    assert finding.evidence is not None
    assert finding.evidence.file == "report/report.md"
    assert "999" in finding.observed
    assert "999" not in finding.expected
    assert f"line {finding.evidence.line}, column " in finding.message


def edit_step(number: int, **values: Any) -> Callable[[Files], None]:
    def edit(files: Files) -> None:
        lines = files["runs/first/steps.jsonl"].splitlines(keepends=True)
        lines[number] = json.dumps({**json.loads(lines[number]), **values}).encode() + b"\n"
        files["runs/first/steps.jsonl"] = b"".join(lines)

    return edit


@pytest.mark.parametrize("kind", ["run", "comparison"])
@pytest.mark.parametrize("values", [{"learning_rate": 0.125}, {"step_time_s": 9.5}, {"grad_norm": 0.0}, {"node": "g9"}])
def test_a_step_outside_of_the_steady_window_is_vouched_for(verified: Any, kind: str, values: dict[str, Any]) -> None:
    verification = verified(kind, edit_step(0, **values))
    assert verification.status == "fail"
    assert "other_records" in codes(verification)


@pytest.mark.parametrize(
    "name", ["plan.json", "logs/node0.log", "telemetry.jsonl", "events.jsonl", "run.json", "verdict.json"]
)
def test_each_file_of_a_run_is_vouched_for(verified: Any, name: str) -> None:
    assert verified("comparison", lambda files: files.pop(f"runs/first/{name}") and None).status == "fail"
    assert verified("comparison", lambda files: files.update({f"runs/first/{name}": b"\n"})).status == "fail"


def test_a_run_that_is_replaced_with_its_verdict_is_another_run(verified: Any, made: Any) -> None:
    """The verdict follows from the records; the digest in the report does not."""
    others = bundles.files_of(made("fleet"))

    def edit(files: Files) -> None:
        for name in [name for name in files if name.startswith("runs/first/")]:
            files[name] = others[name.replace("runs/first", "runs/nightly/g2")]

    assert "other_records" in codes(verified("comparison", edit))


@pytest.mark.parametrize(
    ("edit", "code", "checks"),
    [
        (lambda files: files.update({"runs/first/notes.txt": b"?"}), "file_extra", True),
        (lambda files: files.update({"runs/first/notes.txt": b"?"}), "file_extra", False),
        (lambda files: files.update({"runs/first/logs/other.log": b"?"}), "other_records", True),
        (lambda files: files.pop("report/report.md") and None, "file_missing", True),
        (lambda files: files.pop("runs/first/verdict.json") and None, "file_missing", True),
        (lambda files: files.update({"runs/first/plan.json": b"{}"}), "file_changed", False),
        (lambda files: files.update({"runs/first/steps.jsonl": b"{}\n"}), "not_derived", True),
        (lambda files: files.update({"runs/first/run.json": b"[" * 10**5}), "not_derived", True),
    ],
)
def test_what_was_changed_has_a_code(verified: Any, edit: Any, code: str, checks: bool) -> None:
    assert code in codes(verified("run", edit, checks))


def manifest_with(**values: Any) -> Callable[[Files], None]:
    def edit(files: Files) -> None:
        manifest = json.loads(files[bundles.MANIFEST])
        for dotted, value in values.items():
            at = manifest
            *above, last = dotted.split("__")
            for key in above:
                at = at[key]
            at[last] = value
        files[bundles.MANIFEST] = json.dumps(manifest).encode()

    return edit


def all_of(*edits: Callable[[Files], Any]) -> Callable[[Files], None]:
    def edit(files: Files) -> None:
        for each in edits:
            each(files)

    return edit


OTHER_VERSION = manifest_with(environment__steelyard="0.0.9")


def replaced(name: str, old: bytes, new: bytes) -> Callable[[Files], None]:
    def edit(files: Files) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)

    return edit


def test_other_words_of_another_version_are_unknown_and_lead_to_it(verified: Any) -> None:
    edit = all_of(OTHER_VERSION, replaced("report/report.md", b"Made by steelyard", b"By steelyard"))
    verification = verified("run", edit)
    assert verification.status == "unknown"
    (finding,) = [finding for finding in verification.findings if finding.status == "unknown"]
    assert (finding.code.name, finding.reason.values["file"]) == ("other_version", "report/report.md")
    assert "pip install steelyard==0.0.9" in finding.message


def test_another_version_that_gives_equal_files_passes(verified: Any) -> None:
    assert verified("run", OTHER_VERSION).status == "pass"


def test_other_words_in_a_verdict_of_another_version_are_no_pass(verified: Any) -> None:
    edit = all_of(OTHER_VERSION, replaced("runs/first/verdict.json", b"required", b"needed"))
    assert verified("run", edit).status == "unknown"


def test_a_report_that_another_version_lacks_is_no_pass(verified: Any) -> None:
    def edit(files: Files) -> None:
        OTHER_VERSION(files)
        del files["report/report.html"], files["report/report.md"]

    assert verified("run", edit).status == "unknown"


@pytest.mark.parametrize("kind", ["run", "comparison"])
def test_a_figure_of_another_version_must_agree(verified: Any, kind: str) -> None:
    place = "runs/first/verdict.json"

    def edit(files: Files) -> None:
        OTHER_VERSION(files)
        content = json.loads(files[place])
        content["figures"]["step_time_s"] *= 1 + 1e-9
        files[place] = json.dumps(content, indent=2).encode()

    verification = verified(kind, edit)
    assert codes(verification) == {"figures_differ"}
    assert verification.status == "fail"


def test_records_of_another_version_that_were_changed_are_found(verified: Any) -> None:
    verification = verified("run", all_of(OTHER_VERSION, edit_step(0, learning_rate=0.125)))
    assert codes(verification) == {"other_records"}


def last_digit(place: str) -> Callable[[Files], None]:
    """Change the last digit of a figure with sixteen."""

    def edit(files: Files) -> None:
        text = files[place].decode()
        figure = next(match for match in re.finditer(r"\d\.\d{14,}", text))
        digit = "3" if figure[0][-1] != "3" else "4"
        files[place] = (text[: figure.end() - 1] + digit + text[figure.end() :]).encode()

    return edit


def test_last_digits_may_differ_on_another_processor_only(verified: Any) -> None:
    edit = last_digit("comparisons/fair/comparison.json")
    assert codes(verified("comparison", edit)) == {"derived_otherwise"}
    elsewhere = verified("comparison", all_of(edit, manifest_with(environment__machine="aarch64 NEON")))
    assert elsewhere.status == "pass"
    assert "last_digits" in codes(elsewhere, "pass")


def test_a_file_that_cannot_be_made_here_is_unknown(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tmp_path / "figures.zip"
    steelyard.report("first", figures="png", bundle=bundle, out=made("run").parent / "runs")
    assert steelyard.verify(bundle).status == "pass"
    other = bundles.files_of(bundle)
    manifest_with(environment__tools={"matplotlib": "1.0"})(other)
    name = next(name for name in other if name.endswith(".png"))
    other[name] += b"\0"
    assert codes(steelyard.verify(bundles.pack(tmp_path / "other.zip", other, True)), "unknown") == {"other_tools"}

    def absent(*_: Any) -> bytes:
        raise NotInstalledError("absent", next="pip install 'steelyard[paper]'")

    monkeypatch.setattr("steelyard.reporting.rendering.draw", absent)
    verification = steelyard.verify(bundle)
    assert verification.status == "unknown"
    assert codes(verification, "unknown") == {"not_rendered"}


def test_every_format_follows_from_the_records(made: Any, tmp_path: Path) -> None:
    bundle = tmp_path / "paper.zip"
    runs = made("comparison").parent / "runs"
    steelyard.report("fair", to="md,pdf,csv", bundle=bundle, out=runs)
    verification = steelyard.verify(bundle)
    assert verification.status == "pass"
    assert {name.rpartition(".")[2] for name in verification.reports} == {"md", "pdf", "csv"}
    files = bundles.files_of(bundle)
    edit_step(0, learning_rate=0.125)(files)
    differing = steelyard.verify(bundles.pack(tmp_path / "other.zip", files, with_checksums=True))
    apart = {
        str(finding.reason.values["file"]) for finding in differing.findings if finding.code is verify.BYTES_DIFFER
    }
    assert apart == {"report/report.pdf"}


def test_a_table_alone_would_name_no_records_so_a_page_goes_with_it(made: Any, tmp_path: Path) -> None:
    bundle = tmp_path / "rows.zip"
    steelyard.report("first", to="csv", bundle=bundle, out=made("run").parent / "runs")
    files = bundles.files_of(bundle)
    assert {"report/report.csv", "report/report.html"} <= files.keys()
    del files["report/report.html"]
    manifest_with(formats=["csv"])(files)
    verification = steelyard.verify(bundles.pack(tmp_path / "other.zip", files, with_checksums=True))
    assert codes(verification, "unknown") == {"records_not_named"}
    assert verification.status == "unknown"


@pytest.mark.parametrize(
    ("text", "status"), [("We train {model}.", "pass"), ("{target} is 9 times as fast.", "unknown")]
)
def test_a_figure_that_the_author_typed_is_not_verified(made: Any, tmp_path: Path, text: str, status: str) -> None:
    (tmp_path / "texts.yaml").write_text(f'introduction: "{text}"\n')
    bundle = tmp_path / "paper.zip"
    runs = made("comparison").parent / "runs"
    steelyard.report("fair", to="latex", text=tmp_path / "texts.yaml", bundle=bundle, out=runs)
    verification = steelyard.verify(bundle)
    assert (verification.status, codes(verification, "unknown")) == (status, {"text_of_author"})
    files = bundles.files_of(bundle)
    manifest_with(texts={})(files)
    assert steelyard.verify(bundles.pack(tmp_path / "other.zip", files)).status == "fail"


def test_a_ladder_is_bundled_with_the_runs_of_its_sides(made: Any, verified: Any, tmp_path: Path) -> None:
    files = bundles.files_of(made("ladder"))
    assert {"runs/layers/suite.json", "runs/h100/first/run.json", "runs/a100/first/run.json"} <= files.keys()
    assert steelyard.verify(made("ladder")).status == "pass"
    assert "other_records" in codes(
        verified("ladder", lambda files: files.update({"runs/a100/first/plan.json": b"{}"}))
    )
    steelyard.report("layers", target="a100/first", bundle=tmp_path / "other.zip", out=made("ladder").parent / "runs")
    other = bundles.files_of(tmp_path / "other.zip")
    assert json.loads(other["runs/layers/suite.json"])["ladder"]["target_runs"] == ["../a100/first"]
    assert "runs/h100/first/run.json" not in other
    assert steelyard.verify(tmp_path / "other.zip").status == "pass"


@pytest.mark.processes
def test_neither_time_zone_nor_hash_seed_nor_terminal_changes_a_report(shell: Any, made: Any) -> None:
    for seed, zone, columns in (("1", "Asia/Tokyo", "40"), ("2", "America/New_York", "300")):
        done = shell("verify", made("comparison"), PYTHONHASHSEED=seed, TZ=zone, COLUMNS=columns, LC_ALL="C", HOME="/")
        assert done.status == 0, done.out


def test_a_difference_ends_with_1_and_an_unknown_with_5(cli: Any, made: Any, tmp_path: Path) -> None:
    files = bundles.files_of(made("run"))
    edit_step(0, loss=1.0)(files)
    differing = cli("verify", bundles.pack(tmp_path / "a.zip", files))
    assert (differing.status, differing.out.startswith(f"{tmp_path}/a.zip: fail")) == (1, True)
    files = bundles.files_of(made("run"))
    all_of(OTHER_VERSION, replaced("report/report.md", b"Made by", b"By"))(files)
    assert cli("verify", bundles.pack(tmp_path / "b.zip", files, True)).status == 5


def test_nothing_is_left_behind(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(tmp_path.iterdir())
    steelyard.verify(made("run"))
    steelyard.report("first", bundle="again.zip", out=made("run").parent / "runs")
    Path("again.zip").unlink()

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verify, "_made_again", interrupted)
    with pytest.raises(KeyboardInterrupt):
        steelyard.verify(made("run"))
    assert set(tmp_path.iterdir()) == before
