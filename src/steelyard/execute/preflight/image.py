"""Checks that every host has the container image, and the same one."""

from collections.abc import Mapping

from steelyard.execute.preflight.facts import HostFacts, SeenImage
from steelyard.execute.preflight.finding import Check, Findings
from steelyard.execute.preflight.needs import Needs
from steelyard.planning.container import ENGINES
from steelyard.reasons import Code

IMAGE = Check("image", required=True)
CHECKS = (IMAGE,)

IMAGE_MISSING = Code("image_missing", "image {expected} not found")
"""The host does not have the image of the container."""
IMAGE_UNKNOWN = Code("image_unknown", "cannot list the images")
"""The images of the host cannot be listed."""
ENGINE_MISSING = Code("engine_missing", "{engine} is not installed")
"""The container engine is not installed on the host."""
ENGINE_SILENT = Code("engine_silent", "{engine} does not answer ({reason})")
"""The container engine of the host does not answer."""


def check(needs: Needs, facts: HostFacts) -> Findings:
    if needs.image is None:
        return
    engine, pull = needs.engine, f"`{needs.engine} pull {needs.image}` on the host"
    images: dict[str, SeenImage] = {}
    for host, of_host in facts.items():
        seen = of_host.image
        if seen is None:
            yield IMAGE.unknown(IMAGE_UNKNOWN, host, pull, None, needs.image)
        elif seen.engine.status is None:
            fix = f"install {engine}, or add it to the PATH of non-interactive shells"
            yield IMAGE.failed(ENGINE_MISSING, host, fix, None, needs.image, engine=engine)
        elif not seen.engine.answered:
            fix, reason = ENGINES[engine].silent_fix, seen.engine.reason
            yield IMAGE.unknown(ENGINE_SILENT, host, fix, None, needs.image, engine=engine, reason=reason)
        elif seen.id is None:
            yield IMAGE.failed(IMAGE_MISSING, host, pull, "missing", needs.image)
        else:
            images[host] = seen
    fix = f"`{engine} pull {needs.image}` on all hosts"
    yield from IMAGE.compared(_identities(images), needs.image, "it has no ID", fix)


def _identities(images: Mapping[str, SeenImage]) -> dict[str, str]:
    """Registry digest or engine ID of each image, whichever gives fewer different images: equal in one is equal.

    An ID depends on how an engine stores images, and Podman gives a loaded image a digest of its own.
    """
    ids = {host: _short(seen.id or "") for host, seen in images.items()}
    digests = {host: {digest.rpartition("@")[2] for digest in seen.digests} for host, seen in images.items()}
    if not images or not all(digests.values()):
        return ids
    shared = set.intersection(*digests.values())
    named = {host: _short(min(shared or own)) for host, own in digests.items()}
    return min(named, ids, key=lambda identities: len(set(identities.values())))


def _short(digest: str) -> str:
    return digest[:19]
