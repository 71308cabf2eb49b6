"""The container can access every directory where Steelyard could keep the control files of the run.

Why: the control files decide what is started and stopped under the login of the run. A job that can change them, or
replace a directory above them, has that control. This error cannot be allowed.
Fix: mount less. Or set `log_dir` of the platform to a directory outside all volumes that only the login can write to.
"""

from steelyard.configs.cvs.values import this_user
from steelyard.experiment.control import control_parent, overlap, own_parents
from steelyard.linting.mounts import mounts
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY123", "error", may_be_allowed=False)


def check(case: Case) -> Problems:
    login, mounted = case.login or this_user(), list(mounts(case))
    if control_parent(case.resolved.platform.log_dir, [mount.path for mount in mounted], login) is not None:
        return
    parents = own_parents(login)
    fix = "mount a directory of the job, or set log_dir of the platform to one outside all volumes"
    for mount in mounted:
        if any(overlap(parent, mount.path) for parent in parents):
            message = f"the container can access the control files of the run through {mount.path}"
            expected = f"a directory outside {' and '.join(parents)}"
            yield RULE.at(case.reading, mount.stated, message, fix, expected)
