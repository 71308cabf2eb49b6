"""The container is given every place where Steelyard could keep the control files of the run.

Why: what lies there decides what is started and stopped as the login of the run. A job that can write there, or replace
a directory above it, decides it in its place. This cannot be allowed.
Fix: mount less, or set `log_dir` of the platform to a directory that no volume holds and only the login can write to.
"""

from steelyard.configs.suite.values import this_user
from steelyard.experiment.control import control_parent, overlap, own_parents
from steelyard.linting.mounts import mounts
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY123", "error")


def check(case: Case) -> Problems:
    login, held = case.login or this_user(), list(mounts(case))
    if control_parent(case.resolved.platform.log_dir, [mount.path for mount in held], login) is not None:
        return
    parents = own_parents(login)
    fix = "mount a directory of the job's own, or set log_dir of the platform to one that no volume holds"
    for mount in held:
        if any(overlap(parent, mount.path) for parent in parents):
            message = f"the container is given {mount.path}, through which it reaches the control files of the run"
            expected = f"a directory apart from {' and '.join(parents)}"
            yield RULE.at(case.reading, mount.stated, message, fix, expected)
