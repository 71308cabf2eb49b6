"""The files that hold the job's secrets are there; what is in them is never read."""

from collections.abc import Iterator, Mapping

from steelyard.execute.preflight.facts import Facts
from steelyard.execute.preflight.finding import Check, HostFinding
from steelyard.execute.preflight.needs import Needs
from steelyard.planning.container import TOKEN

HF_TOKEN = Check("hf_token", required=True)
SECRETS = Check("secrets", required=True)
CHECKS = (HF_TOKEN, SECRETS)


def check(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    for at, secret in enumerate(needs.secrets):
        kind = HF_TOKEN if secret.name == TOKEN else SECRETS
        for host, facts_of_host in facts.items():
            seen = facts_of_host.secrets[at] if at < len(facts_of_host.secrets) else None
            fix = f"put {secret.name} into {secret.file} there, with mode 600"
            if seen is None:
                yield kind.unknown(host, f"whether {secret.file} is there is not known", fix, None, "present")
            elif seen.state != "present":
                yield kind.failed(host, f"{secret.file} is {seen.state}", fix, seen.state, "present")
            else:
                open_to_all = bool(seen.mode and seen.mode[-1] != "0")
                warning = f", readable by others (mode {seen.mode}): `chmod 600` it" if open_to_all else ""
                yield kind.passed(host, f"{secret.file} is present{warning}", "present", "present")
