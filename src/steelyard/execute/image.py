"""The image a node's container is made from: there, brought there, and the same everywhere."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard.execute.host import Host, HostRefusedError
from steelyard.planning.container import ENGINES

BRING_S = 3600.0
_SHA256 = "sha256:"


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Where an image comes from that a host lacks; neither: it has to be there."""

    file: Path | None = None
    """What the engine's `save` wrote."""
    pull: bool = False


async def engine_answers(host: Host, engine: str) -> None:
    """Say in one sentence that an engine is not there or does not run."""
    done = await host.run([engine, "ps", "--quiet"])
    if done.status == 127:
        raise HostRefusedError(host.name, f"{engine} is not installed", expected=f"{engine} on every host")
    if done.status:
        raise HostRefusedError(
            host.name,
            f"{engine} does not answer ({done.reason})",
            expected="a running engine",
            next=ENGINES[engine].silent_fix,
        )


async def image_id(host: Host, engine: str, image: str) -> str | None:
    """The id of an image on a host, which is the digest of its config; None where it is not there."""
    done = await host.run([engine, "image", "inspect", "--format", "{{.Id}}", image])
    digest = done.text.strip().removeprefix(_SHA256)  # Podman leaves it out
    return f"{_SHA256}{digest}" if done.status == 0 and digest else None


async def bring(host: Host, engine: str, image: str, source: ImageSource) -> str:
    """The image's id on a host, brought there first where that was asked for."""
    await engine_answers(host, engine)
    if (there := await image_id(host, engine, image)) is not None:
        return there
    if source.file is not None:
        done = await host.pour(source.file, [engine, "load"], BRING_S)
    elif source.pull:
        done = await host.run([engine, "pull", "--quiet", image], timeout_s=BRING_S)
    else:
        raise _missing(host, engine, image)
    if done.status:
        raise HostRefusedError(host.name, f"image {image} could not be brought there ({done.reason})")
    brought = await image_id(host, engine, image)
    if brought is None:
        raise HostRefusedError(
            host.name, f"{source.file} holds another image than {image}", key="--image-file", expected=image
        )
    return brought


def _missing(host: Host, engine: str, image: str) -> HostRefusedError:
    return HostRefusedError(
        host.name,
        f"image {image} is not there",
        expected="the config's image on every host",
        next=f"--pull, or --image-file FILE with what `{engine} save` wrote",
    )


def check_equal(image: str, ids: Mapping[str, str]) -> None:
    """Refuse hosts that call different images by one name; the odd ones out are named."""
    counted = Counter(ids.values()).most_common()
    if len(counted) <= 1:
        return
    usual = counted[0][0]
    odd = [host for host, digest in ids.items() if digest != usual]
    raise HostRefusedError(
        odd[0],
        f"image {image} is {ids[odd[0]][:19]} there and {usual[:19]} elsewhere",
        expected="one image on all hosts",
        next=f"load the same file on {', '.join(odd)}",
    )
