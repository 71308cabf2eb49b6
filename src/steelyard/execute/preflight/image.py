"""The container's image is on every host, and is the same."""

from collections.abc import Mapping

from steelyard.execute.preflight.facts import HostFacts, SeenImage
from steelyard.execute.preflight.finding import Check, Findings
from steelyard.execute.preflight.needs import Needs
from steelyard.planning.container import ENGINES
from steelyard.reasons import Code

IMAGE = Check("image", required=True)
CHECKS = (IMAGE,)

IMAGE_MISSING = Code("image_missing", "it does not have {expected}")
"""The host does not have the image of the container."""
IMAGE_UNKNOWN = Code("image_unknown", "its images cannot be listed")
"""The images of the host cannot be listed."""
ENGINE_MISSING = Code("engine_missing", "it has no {engine}")
"""The container engine is not installed on the host."""
ENGINE_SILENT = Code("engine_silent", "{engine} does not answer ({reason})")
"""The container engine of the host does not answer."""


def check(needs: Needs, facts: HostFacts) -> Findings:
    if needs.image is None:
        return
    engine, pull = needs.engine, f"`{needs.engine} pull {needs.image}` there"
    there: dict[str, SeenImage] = {}
    for host, of_host in facts.items():
        seen = of_host.image
        if seen is None:
            yield IMAGE.unknown(IMAGE_UNKNOWN, host, pull, None, needs.image)
        elif seen.engine.status is None:
            fix = f"install {engine}, or put it on the PATH of a shell that is not interactive"
            yield IMAGE.failed(ENGINE_MISSING, host, fix, None, needs.image, engine=engine)
        elif not seen.engine.answered:
            fix, reason = ENGINES[engine].silent_fix, seen.engine.reason
            yield IMAGE.unknown(ENGINE_SILENT, host, fix, None, needs.image, engine=engine, reason=reason)
        elif seen.id is None:
            yield IMAGE.failed(IMAGE_MISSING, host, pull, "missing", needs.image)
        else:
            there[host] = seen
    fix = f"{pull}, to have the same everywhere"
    yield from IMAGE.compared(_identities(there), needs.image, "it is not named", fix)


def _identities(there: Mapping[str, SeenImage]) -> dict[str, str]:
    """By the registry's digest or by the engine's id, whichever tells fewer images apart: equal either way is the same.

    An id depends on how an engine stores images, and Podman gives an image that was loaded a digest of its own.
    """
    ids = {host: _short(seen.id or "") for host, seen in there.items()}
    digests = {host: {digest.rpartition("@")[2] for digest in seen.digests} for host, seen in there.items()}
    if not there or not all(digests.values()):
        return ids
    shared = set.intersection(*digests.values())
    named = {host: _short(min(shared or own)) for host, own in digests.items()}
    return min(named, ids, key=lambda identities: len(set(identities.values())))


def _short(digest: str) -> str:
    return digest[:19]
