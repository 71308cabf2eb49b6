"""The page of JSON documents names keys that are there."""

import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LOG = ROOT / "tests/frameworks/logs/real/megatron_clean_int1.log.gz"


def keys(name: str) -> set[str]:
    page = (ROOT / "docs" / "reference" / "json.md").read_text()
    row = re.search(rf"^\| (?:`\w+`, )?`?{re.escape(name)}`?(?:, `\w+`)? \| (.+) \|$", page, re.MULTILINE)
    assert row is not None, name
    return set(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", row[1])))


def test_documents_have_the_keys_of_the_page(cli: Any, recorded: Any) -> None:
    recorded("baseline"), recorded("half-batch")
    cli("init", "tiny-llama")
    Path("logs").mkdir()
    shutil.copy(LOG, "logs")
    for name, arguments in {
        "init": ("init",),
        "lint": ("lint", "tiny-llama.yaml"),
        "plan": ("plan", "tiny-llama.yaml", "--gpu", "cpu"),
        "ingest": ("ingest", LOG, "--gpu", "h200", "--name", "log"),
        "ingest --suite": ("ingest", "--suite", "logs", "--name", "imported"),
        "check": ("check", "log"),
        "compare": ("compare", "half-batch", "baseline"),
        "report": ("report", "log", "--bundle", "log.zip"),
        "verify": ("verify", "log.zip"),
        "runs list": ("runs", "list"),
        "runs show": ("runs", "show", "log"),
        "runs learn": ("runs", "learn", "baseline"),
    }.items():
        assert keys(name) <= set(cli(*arguments, "--json").document), name


def test_suites_have_the_keys_of_the_page(cli: Any, tiny: Path, trains: Any) -> None:
    tiny.write_text(tiny.read_text() + "\nsuite: {axes: {training.seed: [1, 2]}}\n")
    trains("passes", "passes")
    made = cli("run", tiny, "--suite", "--name", "s", "--json").document
    checked = cli("check", "s", "--json").document
    for document in (made, checked):
        assert keys("a suite") <= set(document)
        assert keys("cell") == set(document["cells"][0])
        assert {"cell", "name", "run", "status", "verdict"} <= set(document["runs"][0])
    assert keys("`run --suite` also") <= set(made)
    (row,) = cli("runs", "list", "--json").document["suites"]
    assert {"suite", "name", "status", "cells", "verdict"} <= set(row)


def test_parts_have_the_keys_of_the_page(cli: Any, recorded: Any) -> None:
    recorded("baseline"), recorded("half-batch"), recorded("again")
    cli("init", "mi3xx_megatron_llama_single"), cli("init", "tiny-llama")
    problems = cli("lint", "mi3xx_megatron_llama_single.json", "--json").document["problems"]
    assert keys("problem of `lint`") <= set(problems[0])
    assert keys("node of `plan`") <= set(cli("plan", "tiny-llama.yaml", "--gpu", "cpu", "--json").document["nodes"][0])
    assert keys("finding of `check`") <= set(cli("check", "again", "--json").document["findings"][0])
    refused = cli("compare", "half-batch", "baseline", "--json").document
    assert keys("metric in `comparable`") <= set(refused["comparable"]["throughput"])
    assert keys("reason") <= set(refused["comparable"]["throughput"]["reasons"][0])
    assert keys("key in `contract`") <= set(refused["contract"][0])
    assert keys("diagnosis") <= set(refused["diagnoses"][0])
    asked = cli("compare", "half-batch", "baseline", "--for", "convergence", "--json").document
    assert keys("convergence") - {"target", "baseline"} <= set(asked["convergence"])
    assert keys("reduction") <= set(asked["convergence"]["reductions"]["target"])
    assert keys("entry of `remedies`") <= set(asked["remedies"][0])
    assert keys("reason") <= set(asked["expectations"][0])
    ratio = cli("compare", "again", "baseline", "--json").document["throughput_speedup"]
    assert keys("ratio") <= set(ratio)
    assert set(cli("check", "absent", "--json").document["error"]) == {"message", "key", "value", "expected", "next"}
