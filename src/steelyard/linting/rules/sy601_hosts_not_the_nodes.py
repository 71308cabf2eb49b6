"""The cluster has another number of hosts than the job has nodes.

Why: with fewer the job waits for ranks that never come; with more, hosts stand idle and nobody says so.
Fix: name as many hosts as nodes, or the node count with `--nodes`.
"""

from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY601", "error")


def check(case: Case) -> Problems:
    hosts, copies = len(case.hosts), case.reading.copies or 1
    nodes = copies if copies > 1 else case.placement.nodes
    if hosts and hosts != nodes:
        message = f"the job has {nodes} node{'s' * (nodes != 1)} and the cluster {hosts} host{'s' * (hosts != 1)}"
        fix = f"--nodes {hosts}, or name {nodes - hosts} more"
        if hosts > nodes:
            fix = f"--nodes {nodes} for the first {nodes} hosts, or --nodes {hosts} for all"
        yield RULE.problem(case, "platform.nodes", message, fix, nodes, str(hosts))
