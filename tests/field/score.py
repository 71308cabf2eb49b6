"""Scores a folder of logs by its expect.json: each log is ingested and judged by the command line.

python tests/field/score.py FOLDER [NAME …]

The logs are other people's and stay outside the repository. `expect.json` is a list of objects, written from a log
before it is judged:

    name, files    the case and its files in the folder, plain or compressed
    args           options of `ingest` that an honest user could give
    verdict        acceptable verdicts
    steps, first, last, runs, memory, cause    what a right reading contains; each may be missing
    notfail        checks that must not fail, "*" for all; notunknown: checks that must be pass or fail
    refused_ok     whether `ingest` may refuse the log

A case is right, partly right (the verdict is acceptable, a figure is not) or wrong.
"""

import json
import math
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from traps.score import called

MEMORY_TOLERANCE, LOSS_TOLERANCE = 0.01, 1e-6


class Score(NamedTuple):
    name: str
    grade: str
    """right, partly or wrong."""
    verdict: str
    notes: list[str]


def files(folder: Path, case: Mapping[str, Any]) -> list[str]:
    """The files of a case; a name may stand for its compressed file."""
    return [
        str(next(path for path in (folder / name, folder / f"{name}.gz", folder / f"{name}.zst") if path.exists()))
        for name in case["files"]
    ]


def score(folder: Path, case: Mapping[str, Any], out: Path) -> Score:
    status, made = called("ingest", *files(folder, case), *case.get("args", []), "--name", "case", "--out", str(out))
    if status != 0:
        message = made["error"]["message"]
        return Score(case["name"], "right" if case.get("refused_ok") else "wrong", "refused", [message])
    _, judged = called("check", made["run"])
    if "verdict" not in judged:
        return Score(case["name"], "wrong", "refused", [judged["error"]["message"]])
    serious = list(_wrong_verdict(case, judged))
    minor = list(_wrong_figures(case, made, judged, Path(made["run"])))
    grade = "wrong" if serious else "partly" if minor else "right"
    return Score(case["name"], grade, judged["verdict"], serious + minor)


def _wrong_verdict(case: Mapping[str, Any], judged: Mapping[str, Any]) -> Iterator[str]:
    findings = judged["findings"]
    if case.get("verdict") and judged["verdict"] not in case["verdict"]:
        causes = [f"{it['check']} {it['status']}: {it['message']}" for it in findings if it["status"] == "fail"]
        causes = causes or [f"{it['check']} unknown: {it['message']}" for it in findings if it["required"]]
        yield f"verdict {judged['verdict']}, expected {' or '.join(case['verdict'])}; {'; '.join(causes)}"
    for key, status in (("notfail", "fail"), ("notunknown", "unknown")):
        for finding in findings:
            named = finding["check"] in case.get(key, []) or "*" in case.get(key, [])
            if named and finding["status"] == status:
                yield f"{finding['check']} {status}: {finding['message']}"


def _wrong_figures(
    case: Mapping[str, Any], made: Mapping[str, Any], judged: Mapping[str, Any], run: Path
) -> Iterator[str]:
    steps = [json.loads(line) for line in (run / "steps.jsonl").open(encoding="utf-8")]
    if case.get("steps") is not None and len(steps) != case["steps"]:
        yield f"{len(steps)} steps, expected {case['steps']}"
    losses = [step.get("loss") for step in steps if "loss" in step]
    for key, at in (("first", 0), ("last", -1)):
        if (expected := case.get(key)) is not None:
            loss = losses[at] if losses else None
            if not isinstance(expected, int | float) or not math.isfinite(expected):
                expected = None
            if loss != expected and (
                loss is None or expected is None or not math.isclose(loss, expected, rel_tol=LOSS_TOLERANCE)
            ):
                yield f"{key} loss {loss}, expected {expected}"
    if case.get("runs") is not None and len(made.get("runs") or [1]) != case["runs"]:
        yield f"{len(made.get('runs') or [1])} runs, expected {case['runs']}"
    if (cause := case.get("cause")) and cause.lower() not in json.dumps(_cause(judged), ensure_ascii=False).lower():
        yield f"cause {_cause(judged)!r}, expected {cause!r}"
    if (memory := case.get("memory")) is not None:
        peak = max((step.get("memory_gib") or 0 for step in steps), default=0)
        peak = peak or max((gib for gib in _memory_events(run)), default=0)
        if not math.isclose(peak, memory, rel_tol=MEMORY_TOLERANCE):
            yield f"memory {peak} GiB, expected {memory}"


def _memory_events(run: Path) -> Iterator[float]:
    for line in (run / "events.jsonl").open(encoding="utf-8"):
        event = json.loads(line)
        if event["kind"] == "memory":
            yield event["details"]["gib"]


def _cause(judged: Mapping[str, Any]) -> list[str]:
    return [it["message"] for it in judged["findings"] if it["check"] in ("completed", "errors", "loss_finite")]


def main(folder: Path, names: list[str]) -> None:
    cases = json.loads((folder / "expect.json").read_text(encoding="utf-8"))
    counts: Counter[str] = Counter()
    by_kind: Counter[tuple[str, str]] = Counter()
    for case in cases:
        if names and not any(re.fullmatch(name, case["name"]) for name in names):
            continue
        with tempfile.TemporaryDirectory() as out:
            result = score(folder, case, Path(out))
        counts[result.grade] += 1
        by_kind[case.get("kind", "any"), result.verdict] += 1
        sys.stdout.write(f"{result.grade:7} {result.verdict:8} {result.name}\n")
        for note in result.notes:
            sys.stdout.write(f"          {note[:400]}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{dict(counts)}\n")
    for (kind, verdict), count in sorted(by_kind.items()):
        sys.stdout.write(f"  {kind}: {verdict} {count}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
