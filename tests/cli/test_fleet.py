"""check, report, runs list and compare on a fleet, made of recorded runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from steelyard.records.fleet import Fleet, FleetRun, PreflightFinding, load_fleet, new_fleet

HOSTS = ("g1", "g2", "g3", "g4", "g5")
Make = Callable[..., Path]


@pytest.fixture
def fleet(recorded: Any, tmp_path: Path) -> Make:
    """runs/nightly, five hosts: steps of the last take `slow` times as long, some are `lost`, some never began."""

    def make(slow: float = 1.0, lost: tuple[str, ...] = (), absent: tuple[str, ...] = ()) -> Path:
        made = new_fleet(tmp_path / "runs", "nightly", "", HOSTS)
        for at, host in enumerate(HOSTS):
            if host in absent:
                continue
            run = recorded(to=f"nightly/{host}")
            factor = 1 + at / 1000 if host != "g5" else slow
            run.edit_steps(lambda step, factor=factor: scaled(step, factor))
            if host in lost:
                run.edit_steps(lambda step: None).set("status", "failed").set("steps", 0)
                run.set("failure", {"kind": "reach", "message": "no route to host", "node": host, "phase": "reach"})
        return made.directory

    return make


def scaled(step: dict[str, Any], factor: float) -> dict[str, Any]:
    times = {"step_time_s": step["step_time_s"] * factor}
    rates = ("tokens_per_s_per_gpu", "tflops_per_gpu", "reported_tokens_per_s_per_gpu")
    return {**step, **times, **{name: step[name] / factor for name in rates if name in step}}


def test_a_fleet_of_runs_that_pass_passes(cli: Any, fleet: Make) -> None:
    directory = fleet()
    done = cli("check", "nightly", "--json")
    assert done.status == 0, done.out
    assert (done.document["fleet"], done.document["verdict"]) == (str(directory), "pass")
    assert [(one["host"], one["verdict"]) for one in done.document["runs"]] == [(host, "pass") for host in HOSTS]
    assert done.document["outliers"] == []
    kept = load_fleet(directory).manifest
    assert (kept.verdict, {one.verdict for one in kept.runs}) == ("pass", {"pass"})
    assert json.loads((directory / "g1" / "verdict.json").read_text())["verdict"] == "pass"


def test_an_outlier_is_named_and_fails_nothing(cli: Any, fleet: Make) -> None:
    directory = fleet(slow=1.08)
    done = cli("check", "nightly")
    assert done.status == 0, done.out
    assert done.out.startswith("fleet: PASS  5 of 5 hosts passed, 1 slow host  ")
    assert "slow host  g5: throughput 7.2% below the median, step time 7.8% above the median" in done.out
    named = {(one.host, one.metric) for one in load_fleet(directory).manifest.outliers}
    assert named == {("g5", "step_time_s"), ("g5", "tokens_per_s_per_gpu")}


def test_a_host_18_percent_below_its_fleet_fails(cli: Any, fleet: Make, tmp_path: Path) -> None:
    directory = fleet(slow=1 / 0.82)
    done = cli("check", "nightly", "--junit", tmp_path / "fleet.xml")
    assert done.status == 1, done.out
    assert done.out.startswith("fleet: FAIL  4 of 5 hosts passed, 1 slow host  ")
    assert "fail  g5: slow_host: g5: tokens_per_s_per_gpu is" in done.out
    assert "slow_host" in (tmp_path / "fleet.xml").read_text()
    runs = cli("check", "nightly", "--json").document["runs"]
    codes = {one["host"]: [each["code"] for each in one["findings"] if each["status"] == "fail"] for one in runs}
    assert codes == {host: ["slow_host"] if host == "g5" else [] for host in HOSTS}
    assert load_fleet(directory).manifest.verdict == "fail"
    assert cli("check", "nightly/g5").status == 0  # by itself it is healthy


def test_a_host_that_was_lost_ends_with_3_whatever_the_others_came_to(cli: Any, fleet: Make) -> None:
    fleet(lost=("g2",))
    done = cli("check", "nightly")
    assert done.status == 3
    assert "fleet: FAIL" in done.out
    assert "g2: reach: no route to host (phase: reach)" in done.out


def test_a_threshold_is_asked_of_every_run(cli: Any, fleet: Make) -> None:
    fleet()
    done = cli("check", "nightly", "--threshold", "step_time_s<=1e-9", "--json")
    assert (done.status, done.document["verdict"]) == (1, "fail")
    assert {one["verdict"] for one in done.document["runs"]} == {"fail"}


def test_junit_has_a_suite_a_run_and_one_that_never_began_is_an_error(cli: Any, fleet: Make, tmp_path: Path) -> None:
    fleet(lost=("g2",), absent=("g4",))
    cli("check", "nightly", "--junit", "check.xml")
    root = ElementTree.parse(tmp_path / "check.xml").getroot()
    suites = {suite.get("name"): suite for suite in root}
    assert set(suites) == set(HOSTS)
    assert suites["g2"].get("failures") != "0"
    assert (suites["g4"].get("errors"), suites["g4"].get("tests")) == ("1", "1")
    for count in ("tests", "failures", "errors", "skipped"):
        assert int(root.get(count, "")) == sum(int(suite.get(count, "")) for suite in root)


def test_the_report_has_a_row_a_host_and_links_to_the_runs_own(cli: Any, fleet: Make, tmp_path: Path) -> None:
    directory = fleet(slow=1.3, lost=("g2",))
    assert cli("report", "nightly/g1").status == 0
    assert cli("report", "nightly", "--to", "html,md").status == 0
    html, markdown = ((directory / f"report.{end}").read_text() for end in ("html", "md"))
    assert '<a href="g1/report.html">g1</a>' in html
    assert 'href="g3/report.html"' not in html
    assert "[g1](<g1/report.html>)" in markdown
    assert "slow: throughput -22.9%" in html
    assert "no route to host" in markdown
    assert cli("report", "nightly", "-o", "elsewhere.html").status == 0
    assert 'href="g1/report.html"' not in (tmp_path / "elsewhere.html").read_text()


def test_hosts_that_say_the_same_are_one_reason_and_too_few_runs_have_no_outliers(cli: Any, fleet: Make) -> None:
    directory = fleet(lost=("g2", "g3"))
    assert cli("report", "nightly", "--to", "md").status == 0
    page = (directory / "report.md").read_text()
    assert "g2, g3: reach: no route to host (in reach)" in page
    assert "3 completed runs; at least 4 are needed" in page
    assert "Preflight" not in page


def test_what_preflight_found_is_shown_wherever_the_fleet_is(cli: Any, fleet: Make) -> None:
    directory = fleet()
    made = load_fleet(directory)
    odd = PreflightFinding(
        host="g3", check="driver_version", status="fail", required=False, message="the driver is 550", fix="install 570"
    )
    Fleet(directory, made.manifest.model_copy(update={"preflight": [odd]})).save()
    done = cli("check", "nightly")
    assert (done.status, "preflight  g3: driver_version: the driver is 550" in done.out) == (0, True)
    for words in (("check", "nightly"), ("runs", "show", "nightly")):
        assert [one["host"] for one in cli(*words, "--json").document["preflight"]] == ["g3"]
    assert "preflight  g3: driver_version" in cli("runs", "show", "nightly").out
    assert cli("report", "nightly").status == 0
    assert "install 570" in (directory / "report.html").read_text()


def test_the_list_of_runs_shows_a_fleet_as_one_line(cli: Any, fleet: Make, recorded: Any) -> None:
    directory = fleet(lost=("g2",), absent=("g4",))
    recorded(to="alone")
    cli("check", "nightly")
    listed = cli("runs", "list", "--json").document
    assert [one["name"] for one in listed["runs"]] == ["alone"]
    (row,) = listed["fleets"]
    assert (row["name"], row["status"], row["verdict"], row["hosts"]) == ("nightly", "failed", "fail", list(HOSTS))
    assert len([line for line in cli("runs", "list").out.splitlines() if "nightly" in line]) == 1
    (directory / "fleet.json").write_text("{")
    assert cli("runs", "list", "--json").document["fleets"][0]["status"] == "unreadable"


def test_a_fleet_is_shown_host_by_host(cli: Any, fleet: Make) -> None:
    directory = fleet(slow=1.3, lost=("g2",), absent=("g4",))
    unjudged = cli("runs", "show", "nightly", "--json").document
    assert (unjudged["verdict"], unjudged["runs"][0]["figures"]["step_time_s"]) == (None, None)
    assert cli("runs", "show", "nightly").out.endswith("next: steelyard check runs/nightly\n")
    assert cli("check", "nightly").status == 3
    told = cli("runs", "show", "nightly", "--json").document
    assert (told["fleet"], told["status"], told["verdict"]) == (str(directory), "failed", "fail")
    assert told["hosts"] == list(HOSTS)
    assert [(one["host"], one["status"], one["verdict"]) for one in told["runs"]] == [
        ("g1", "completed", "pass"),
        ("g2", "failed", "fail"),
        ("g3", "completed", "pass"),
        ("g4", "interrupted", None),
        ("g5", "completed", "pass"),
    ]
    assert told["runs"][3]["run"] is None
    assert told["runs"][1]["failure"]["message"] == "no route to host"
    first = cli("check", "nightly/g1", "--json").document["figures"]
    assert told["runs"][0]["figures"] == {name: first[name] for name in told["runs"][0]["figures"]}
    text = cli("runs", "show", "runs/nightly").out
    assert "g2: reach: no route to host" in text
    hosts = {line.split()[1]: line.split()[0] for line in text.splitlines() if line.startswith(("  pass", "  fail  "))}
    assert [hosts[host] for host in ("g1", "g3", "g5")] == ["pass"] * 3
    assert text.splitlines()[-3].startswith("  fail  g2: reach")
    assert text.splitlines()[-2] == "  fail  g4: not started"


def test_an_outlier_is_shown_with_its_fleet(cli: Any, fleet: Make) -> None:
    fleet(slow=1.3)
    cli("check", "nightly")
    assert "slow host  g5: throughput" in cli("runs", "show", "nightly").out
    named = {one["host"] for one in cli("runs", "show", "nightly", "--json").document["outliers"]}
    assert named == {"g5"}


def test_a_fleet_is_one_point_of_a_trend_the_median_of_its_runs(cli: Any, fleet: Make, recorded: Any) -> None:
    fleet(slow=1.3, lost=("g2",))
    recorded(to="alone")
    cli("check", "nightly")
    document = cli("runs", "trend", "step_time_s", "--json").document
    (alone,), (point,) = document["runs"], document["fleets"]
    keys = {"run", "name", "platform", "started", "verdict", "value", "reason", "reason_code", "differs"}
    assert set(alone) == keys
    assert (point["name"], point["hosts"], point["runs"], point["verdict"]) == ("nightly", 5, 4, "fail")
    assert point["lowest"] == pytest.approx(alone["value"])
    assert point["highest"] == pytest.approx(1.3 * alone["value"])
    assert point["lowest"] < point["value"] < point["highest"]
    assert point["differs"] == alone["differs"] == []
    text = cli("runs", "trend", "step_time_s").out
    assert "nightly: median of 4 of 5 hosts" in text
    assert "1 left out" in text.splitlines()[0]
    assert cli("runs", "trend", "step_time_s", "--html", "trend.html").status == 0
    assert "median of 4 of 5 hosts" in Path("trend.html").read_text()


def test_a_fleet_that_cannot_be_read_is_left_out_of_a_trend_by_name(cli: Any, fleet: Make, recorded: Any) -> None:
    directory = fleet()
    recorded(to="alone")
    (directory / "g1" / "run.json").write_text("{")
    done = cli("runs", "trend", "--json")
    assert (done.status, done.document["fleets"], len(done.document["runs"])) == (0, [], 1)
    assert "left out: runs/nightly/g1/run.json" in done.err


def test_a_fleet_is_a_side_of_a_comparison_by_the_latest_run_of_each_host(cli: Any, fleet: Make, recorded: Any) -> None:
    directory = fleet()
    recorded(to="nightly/g1-2").slower(1.007)
    made = load_fleet(directory)
    runs = [FleetRun(host="g1", directory="g1-2"), *made.manifest.runs[1:]]
    (directory / "fleet.json").write_text(made.manifest.model_copy(update={"runs": runs}).model_dump_json())
    target = cli("compare", "nightly", "nightly/g2", "--json").document["target"]
    assert [Path(one).name for one in target] == ["g1-2", "g2", "g3", "g4", "g5"]
    assert cli("compare", "nightly", "nightly/g2").out.startswith("nightly runs at 7,734 tokens/s per GPU, g2 at 7,746")


CONTAINED = """
platforms:
  lab: {gpu: cpu, gpus_per_node: 1, container: {image: none}}
  spans: {gpu: cpu, nodes: 2, gpus_per_node: 1, container: {image: none}}
"""


@pytest.fixture
def contained(tiny: Path, tmp_path: Path) -> tuple[str, ...]:
    """A config of one node, with a cluster of three hosts that nobody reaches."""
    tiny.write_text(tiny.read_text() + CONTAINED)
    (tmp_path / "cluster.yaml").write_text("hosts: ['g[1-3]']\n")
    return str(tiny), "--cluster", "cluster.yaml", "--platform", "lab"


def test_a_platform_of_one_node_on_a_cluster_is_a_fleet_of_as_many_as_asked(cli: Any, contained: Any) -> None:
    def hosts(*words: str) -> tuple[bool, list[str]]:
        document = cli("plan", *contained, "--json", *words).document
        return document["fleet"], [node["host"] for node in document["nodes"]]

    assert hosts() == (True, ["g1", "g2", "g3"])
    assert hosts("--nodes", "2") == (True, ["g1", "g2"])
    assert hosts("--nodes", "1") == (False, ["g1"])
    assert hosts("--platform", "spans", "--nodes", "2") == (False, ["g1", "g2"])
    assert "--nodes 3" in cli("plan", *contained, "--nodes", "4", "--json").document["error"]["next"]


def test_a_plan_without_a_cluster_says_where_run_would_make_a_fleet(cli: Any, contained: Any) -> None:
    file = contained[0]
    scaled = cli("plan", file, "--platform", "lab", "--nodes", "2", "--json")
    assert scaled.status == 0, scaled.out
    assert (scaled.document["fleet"], scaled.document["job"]["nodes"]) == (False, 2)
    assert "one job over 2 nodes" in scaled.err
    assert "`run --cluster` would start 2 separate runs (a fleet)" in scaled.err
    for words in (
        ("--platform", "lab"),
        ("--platform", "spans"),
        ("--platform", "spans", "--nodes", "2"),
        ("--platform", "lab", "--cluster", "cluster.yaml", "--nodes", "2"),
    ):
        assert "(a fleet)" not in cli("plan", file, *words).err


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("--resume", "nowhere"), "--resume"),
        (("--resume", "nightly", "--name", "other"), "--name"),
        (("--resume", "nightly", "--platform", "spans", "--nodes", "2"), "--resume"),
        (("--resume", "nightly"), "--cluster"),
        (("--required", "nonsense"), "--required"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_made(
    cli: Any, contained: Any, tmp_path: Path, words: tuple[str, ...], key: str
) -> None:
    new_fleet(tmp_path / "runs", "nightly", "", ["g1", "g9"])
    before = sorted(tmp_path.rglob("*"))
    done = cli("run", *contained, *words, "--json")
    assert (done.status, done.document["error"]["key"]) == (2, key), done.out
    assert sorted(tmp_path.rglob("*")) == before


def test_a_fleet_of_another_experiment_is_not_run_again(cli: Any, contained: Any, fleet: Make) -> None:
    fleet(lost=("g2",))
    error = cli("run", *contained, "--resume", "nightly", "--json").document["error"]
    assert error["next"] == "the same command without --resume, for a new directory"
