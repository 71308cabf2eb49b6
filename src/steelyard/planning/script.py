"""A plan as a shell script that runs on each node without Steelyard."""

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from steelyard.planning.container import ENV_FILE, JOB_DIR, OUTPUT, SECRETS
from steelyard.planning.plan import NodePlan, Plan, PlannedFile

_END = "END_OF_FILE"
_OWN = (
    "own() { # make a directory that only you and root can replace",
    '  mkdir -p -m 700 -- "$1"',
    '  local at="$1"',
    "  while :; do",
    '    case $(stat -c %u -- "$at") in 0 | "$(id -u)") ;; *) echo "$at belongs to another login" >&2; exit 1 ;; esac',
    '    if [ -L "$at" ] || [ -n "$(find "$at" -maxdepth 0 -perm /022 ! -perm -1000)" ]; then',
    '      echo "$at is a link, or others can write to it: set another log_dir" >&2; exit 1',
    "    fi",
    '    [ "$at" = / ] && return',
    '    at=$(dirname -- "$at")',
    "  done",
    "}",
)


def script(plan: Plan, login: Sequence[str] = ("ssh",)) -> str:
    """One script for all nodes; its argument is the number of the node."""
    count = len(plan.nodes)
    scope = "a run of its own on each node" if plan.fleet else f"one job over {count} node{'s' * (count != 1)}"
    lines = [
        "#!/usr/bin/env bash",
        f"# {plan.experiment} on {plan.platform}, framework {plan.framework}: {scope}.",
        "# Made by `steelyard plan --script`.",
    ]
    if count > 1:
        when = "in any order" if plan.fleet else "at about the same time"
        lines.append(f"# Start it on every node {when}, with the node's number:")
        lines += [f"#   {shlex.join([*login, node.host])} bash -s {at} < run.sh" for at, node in enumerate(plan.nodes)]
    lines += ["set -euo pipefail", ""]
    if any(node.directory is not None for node in plan.nodes):
        lines += [*_OWN, ""]
    if count == 1:
        lines += _node(plan.nodes[0])
    else:
        lines.append('case "${1:-}" in')
        for at, node in enumerate(plan.nodes):
            lines += [f"{at})", *_node(node), "  ;;"]
        lines += ["*)", f"  echo 'usage: bash SCRIPT NODE, a number below {count}' >&2; exit 2", "  ;;", "esac"]
    return "\n".join(lines) + "\n"


def _node(node: NodePlan) -> Iterator[str]:
    container = node.container
    if node.directory is None:
        job = "."
    else:
        directory = shlex.quote(node.directory)
        job = f"{directory}/{JOB_DIR}"
        parent = shlex.quote(str(PurePosixPath(node.directory).parent))
        yield f"own {parent} && own {directory} && chmod 700 {directory}"
        yield f"mkdir -p {job}/{OUTPUT} && chmod 1777 {job}/{OUTPUT}"
    for planned in node.files:
        yield from _file(planned, directory if planned.path == ENV_FILE else job)
    if node.secrets:
        yield f"trap {shlex.quote(f'rm -rf {job}/{SECRETS}')} EXIT"
        yield f"mkdir -p {job}/{SECRETS}"
    for name, file in node.secrets.items():
        yield f"install -m 644 {shlex.quote(file)} {job}/{SECRETS}/{shlex.quote(name)}"
    if container is None:
        if node.workdir is not None:
            yield f"cd {shlex.quote(node.workdir)}"
        yield from (f"export {name}={shlex.quote(value)}" for name, value in node.env.items())
        yield wrapped(node.argv)
        return
    argv = [*container.argv[:2], "--rm", *container.argv[2:]]  # the container is not needed afterwards
    yield wrapped(argv, len(node.argv))


def wrapped(argv: list[str], command: int = 0, width: int = 110) -> str:
    """An argument list on several lines: options start lines, and so does the command, the last `command` words."""
    lines: list[str] = []
    start = len(argv) - command - 1
    for at, word in enumerate(map(shlex.quote, argv)):
        begins = word.startswith("--") if at < start or not command else at in (start, start + 1)
        is_value = bool(lines) and lines[-1].startswith("--") and " " not in lines[-1]
        if not lines or begins or (len(lines[-1]) + len(word) > width and not is_value):
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return " \\\n    ".join(lines)


def _file(planned: PlannedFile, directory: str) -> Iterator[str]:
    text = planned.content if isinstance(planned.content, str) else json.dumps(planned.content, indent=2) + "\n"
    end = _END
    while end in text:
        end += "_"
    yield f"cat > {directory}/{shlex.quote(planned.path)} <<'{end}'"
    yield text.rstrip("\n")
    yield end
