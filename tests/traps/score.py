"""Scores the corpus of logs: each ingested and judged by the command line, held against the verdict beside it.

python tests/traps/score.py [FOLDER/NAME …]
"""

import contextlib
import io
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steelyard.cli.main import main

CORPUS = Path(__file__).parent


@dataclass(frozen=True)
class Trap:
    """One case: logs, and what must be said of them."""

    path: Path
    asked: dict[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def files(self) -> list[str]:
        names = self.asked.get("files") or [f"{self.path.stem}.log"]
        return [str(self.path.parent / name) for name in names]


def traps() -> Iterator[Trap]:
    for path in sorted(CORPUS.glob("*/*.json")):
        yield Trap(path, json.loads(path.read_text(encoding="utf-8")))


def called(*arguments: str) -> tuple[int, dict[str, Any]]:
    """The command line's status and document."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            main([*arguments, "--json"])
        except SystemExit as ended:
            status = int(ended.code or 0)
    return status, json.loads(out.getvalue())


def misses(trap: Trap, out: Path) -> list[str]:
    """Whatever is not as the case says."""
    asked = trap.asked
    status, made = called("ingest", *trap.files, *asked.get("ingest", []), "--out", str(out))
    if status != 0:
        return [f"ingest ended with {status}: {made.get('error', {}).get('message')}"]
    wrong = [
        f"{key} is {made.get(key)!r}, expected {asked[key]!r}"
        for key in ("framework", "dialect", "status", "steps")
        if key in asked and made.get(key) != asked[key]
    ]
    status, judged = called("check", made["run"], *asked.get("check", []))
    found = {one["check"]: one for one in judged.get("findings", [])}
    if judged.get("verdict") != asked["verdict"]:
        reasons = "; ".join(
            f"{one['check']} {one['status']}: {one['message']}"
            for one in found.values()
            if one["status"] == "fail" or (one["status"] == "unknown" and one["required"])
        )
        why = reasons or judged.get("error")
        wrong.append(f"verdict is {judged.get('verdict')}, expected {asked['verdict']} ({why})")
    findings = dict(asked.get("findings", {}))
    cause = findings.pop("cause", None)
    for checks, wanted in findings.items():
        wrong.extend(_not_found(checks.split("|"), wanted, found, judged.get("reasons_not_applicable", {})))
    for check in asked.get("not_applicable", []):
        if check not in judged.get("not_applicable", []):
            wrong.append(f"{check} is judged ({found.get(check, {}).get('status')}), expected not applicable")
    if cause is not None:
        wrong.extend(_not_caused(cause, made))
    return wrong


def _not_found(
    checks: list[str], wanted: dict[str, str], found: dict[str, Any], not_applicable: dict[str, str]
) -> Iterator[str]:
    said = []
    for check in checks:
        one = found.get(check)
        status, message = (one["status"], one["message"]) if one else ("not applicable", not_applicable.get(check, ""))
        if status == wanted.get("status", status) and re.search(wanted.get("says", ""), message, re.IGNORECASE):
            return
        said.append(f"{check} is {status} ({message!r})")
    yield f"{'; '.join(said)}, expected {wanted}"


def _not_caused(cause: dict[str, str], made: dict[str, Any]) -> Iterator[str]:
    failure = made.get("failure") or {}
    if failure.get("kind") != cause["kind"]:
        yield f"the cause is {failure.get('kind')} ({failure.get('message')!r}), expected {cause['kind']}"
    elif cause.get("node") and failure.get("node") != cause["node"]:
        yield f"the cause's node is {failure.get('node')!r}, expected {cause['node']!r}"


def score(wanted: list[str]) -> int:
    """Print the misses, then the score by framework; 0 if there are none."""
    right: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for trap in traps():
        if wanted and trap.name not in wanted and trap.path.parent.name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as out:
            wrong = misses(trap, Path(out))
        folder = trap.path.parent.name
        every[folder] += 1
        right[folder] += not wrong
        for one in wrong:
            print(f"{trap.name}: {one}")
    for folder in every:
        print(f"{folder:<20} {right[folder]:>4} of {every[folder]}")
    total, of = sum(right.values()), sum(every.values())
    print(f"{'all':<20} {total:>4} of {of}  {100 * total / max(of, 1):.1f} %")
    return int(total < of)


if __name__ == "__main__":
    sys.exit(score(sys.argv[1:]))
