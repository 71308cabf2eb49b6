"""Runs the probe on a host: several questions, one round trip, each answer a section."""

import secrets
from collections.abc import Sequence
from importlib import resources

from steelyard.execute.host import Host
from steelyard.execute.preflight.sections import Sections, read_sections


async def probe(host: Host, words: Sequence[str], tool_s: int, timeout_s: float) -> Sections:
    """What the host answers to words of `probe.sh`; one tool of it may take `tool_s`, all of it `timeout_s`."""
    script = resources.files(__package__).joinpath("probe.sh").read_bytes()
    mark = secrets.token_hex(16)
    done = await host.run(["sh", "-s", "--", mark, str(tool_s), *words], stdin=script, timeout_s=timeout_s)
    return read_sections(done.out, mark)
