"""A mount reaches the directory from which Steelyard controls the jobs of a host.

Why: what lies there decides what is started and stopped as the login of the run. A job that can write there, or replace
a directory above it, decides it in its place. This cannot be allowed.
Fix: mount a directory that neither holds nor lies in /var/lib/steelyard and /var/tmp/steelyard-*.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.platform import CONTROL_ROOTS
from steelyard.lint.mounts import Mount, mounts
from steelyard.lint.rule import Case, Rule

RULE = Rule("SY123", "error")


def check(case: Case) -> Iterator[Problem]:
    for mount in mounts(case):
        if any(_reaches(mount, root) for root in CONTROL_ROOTS):
            yield RULE.at(
                case.reading,
                mount.place,
                message=f"the container is given {mount.path}, through which it reaches Steelyard's control directory",
                fix="mount a directory of the job's own, such as one below /data or the login's home",
                value=mount.typed,
                expected=f"a directory apart from {CONTROL_ROOTS[0]} and {CONTROL_ROOTS[1]}*",
            )


def _reaches(mount: Mount, root: str) -> bool:
    """Whether the mount holds the directory or lies in it; a root that ends with - is the beginning of a name."""
    return mount.holds(root) or (mount.path.startswith(root) if root.endswith("-") else mount.lies_in(root))
