"""The home directory of another user is mounted into the container.

Why: a run as root can read and write the owner's private files: keys, tokens, results.
Fix: mount a directory of the login, or a shared one. The login is the user in the cluster file, or you. Allow it only
if the owner agrees.
"""

from steelyard.configs.cvs.values import this_user
from steelyard.linting.mounts import mounts
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY125", "error")


def check(case: Case) -> Problems:
    login = case.login or this_user()
    fix = "mount a directory of the login, or allow it: --allow SY125"
    for mount in mounts(case):
        owner = _owner(mount.path)
        if owner is not None and owner != login:
            message = f"the container can access {mount.path}, the home of {owner}, but the login is {login}"
            yield RULE.at(case.reading, mount.stated, message, fix, f"a directory of {login}, or a shared one")


def _owner(path: str) -> str | None:
    parts = path.split("/")
    if parts[1] == "root":
        return "root"
    return parts[2] if parts[1] == "home" and len(parts) > 2 else None
