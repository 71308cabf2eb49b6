"""The container's image is on every host, and is the same."""

from collections.abc import Iterator, Mapping

from steelyard.execute.preflight.facts import Facts, SeenImage
from steelyard.execute.preflight.finding import Check, HostFinding
from steelyard.execute.preflight.needs import Needs
from steelyard.planning.engines import ENGINES

IMAGE = Check("image", required=True)
CHECKS = (IMAGE,)


def check(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    if needs.image is None:
        return
    pull = f"`{needs.engine} pull {needs.image}` there"
    there: dict[str, SeenImage] = {}
    for host, facts_of_host in facts.items():
        seen = facts_of_host.image
        if seen is None:
            yield IMAGE.unknown(host, "its images cannot be listed", pull, None, needs.image)
        elif seen.engine.status is None:
            fix = f"install {needs.engine}, or put it on the PATH of a shell that is not interactive"
            yield IMAGE.failed(host, f"it has no {needs.engine}", fix, None, needs.image)
        elif not seen.engine.answered:
            message = f"{needs.engine} does not answer ({seen.engine.reason})"
            yield IMAGE.unknown(host, message, ENGINES[needs.engine].silent_fix, None, needs.image)
        elif seen.id is None:
            yield IMAGE.failed(host, f"it does not have {needs.image}", pull, "missing", needs.image)
        else:
            there[host] = seen
    yield from IMAGE.compared(
        _identities(there), needs.image, "it is not named", f"{pull}, to have the same everywhere"
    )


def _identities(there: Mapping[str, SeenImage]) -> dict[str, str]:
    """By the registry's digest or by the engine's id, whichever tells fewer images apart: equal either way is the same.

    An id depends on how an engine stores images, and Podman gives an image that was loaded a digest of its own.
    """
    ids = {host: _short(seen.id or "") for host, seen in there.items()}
    digests = {host: {one.rpartition("@")[2] for one in seen.digests} for host, seen in there.items()}
    if not there or not all(digests.values()):
        return ids
    shared = set.intersection(*digests.values())
    named = {host: _short(min(shared or found)) for host, found in digests.items()}
    return min(named, ids, key=lambda found: len(set(found.values())))


def _short(digest: str) -> str:
    return digest[:19]
