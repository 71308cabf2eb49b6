"""A plan as a shell script that a person can run, without Steelyard, on each node."""

import json
import shlex
from collections.abc import Iterator

from steelyard.runner.plan import NodePlan, Plan, PlannedFile

_END = "END_OF_FILE"


def script(plan: Plan) -> str:
    """One script for all nodes: on a node it is given that node's place in the plan."""
    count = len(plan.nodes)
    what = "a run of its own on each node" if plan.fleet else f"one job over {count} node{'s' * (count != 1)}"
    lines = [
        "#!/usr/bin/env bash",
        f"# {plan.experiment} on {plan.platform}, framework {plan.framework}: {what}.",
        "# Made by `steelyard plan --script`.",
    ]
    if count > 1:
        listed = ", ".join(f"{at} on {node.host}" for at, node in enumerate(plan.nodes))
        lines.append(f"# Start it on every node at about the same time, with the node's number: {listed}.")
    lines += ["set -euo pipefail", ""]
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
    directory = shlex.quote(node.directory or ".")
    if node.directory is not None:
        yield f"mkdir -p {directory}"
    for planned in node.files:
        yield from _file(planned, directory)
    if container is None:
        if node.workdir is not None:
            yield f"cd {shlex.quote(node.workdir)}"
        yield from (f"export {name}={shlex.quote(value)}" for name, value in node.env.items())
        yield f"exec {shlex.join(node.argv)}"
        return
    for name, file in container.secrets.items():
        yield f'if [ -r {shlex.quote(file)} ]; then {name}="$(cat {shlex.quote(file)})"; export {name}; fi'
    yield f"exec {shlex.join(container.argv)}"


def _file(planned: PlannedFile, directory: str) -> Iterator[str]:
    text = planned.content if isinstance(planned.content, str) else json.dumps(planned.content, indent=2) + "\n"
    end = _END
    while end in text:
        end += "_"
    yield f"cat > {directory}/{shlex.quote(planned.path)} <<'{end}'"
    yield text.rstrip("\n")
    yield end
