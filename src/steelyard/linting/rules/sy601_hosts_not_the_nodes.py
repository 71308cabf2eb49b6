"""The number of hosts in the cluster file differs from the nodes of the job.

Why: with fewer hosts the job waits for ranks that never start. With more, hosts stay idle without a warning.
Fix: name as many hosts as nodes, or set the node count with `--nodes`.
"""

from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY601", "error", may_be_allowed=False)


def check(case: Case) -> Problems:
    hosts, copies = len(case.hosts), case.reading.copies or 1
    nodes = copies if copies > 1 else case.placement.nodes
    if hosts and hosts != nodes:
        called, given = (f"{count} {noun}{'s' * (count != 1)}" for count, noun in ((nodes, "node"), (hosts, "host")))
        message = f"the cluster file has {given} and the job {called}"
        fix = f"--nodes {hosts}, or add {nodes - hosts} to the cluster file"
        if hosts > nodes:
            fix = f"--nodes {hosts} to use all hosts, or --nodes {nodes} for the first"
        yield RULE.problem(case, "platform.nodes", message, fix, nodes, str(hosts))
