"""Figures of a GPU that the user states: by options, or in a file gpus.yaml."""

import difflib
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from steelyard.configs.files import read_mapping
from steelyard.errors import InputError
from steelyard.experiment.model import Group
from steelyard.experiment.problems import plain, raise_errors, shown
from steelyard.hardware.catalog import CATALOG, CPU, PRECISIONS, known_names, lookup, nearest_gpu, normal_name

FILE = "gpus.yaml"
PEAK, MEMORY = "--gpu-peak", "--gpu-memory"
MOST_TFLOPS, MOST_GIB = 100_000.0, 10_000.0
"""Larger numbers are in another unit."""
_ANOTHER_VARIANT = 1.25
"""Largest ratio to the catalog's peak: variants of a GPU differ by up to 1.12, and a peak with sparsity is 2."""
_MISSPELT = 0.75
"""Similarity to a name of the catalog from which on a GPU without figures counts as misspelled."""
_EXAMPLE = "gpus.yaml with `rtx6000ada: {bf16: 364, memory_gib: 47.4}`"

_Tflops = Annotated[float | None, Field(gt=0, le=MOST_TFLOPS)]


class OwnGpu(Group):
    """One GPU of gpus.yaml. Peaks are dense TFLOP/s per GPU."""

    bf16: _Tflops = None
    fp16: _Tflops = None
    fp8: _Tflops = None
    fp4: _Tflops = None
    fp32: _Tflops = None
    memory_gib: Annotated[float | None, Field(gt=0, le=MOST_GIB)] = None
    aliases: list[str] = Field(default_factory=list)
    """Other names, such as the one that the driver prints."""

    @property
    def peaks(self) -> dict[str, float]:
        given = {name: getattr(self, name) for name in PRECISIONS}
        return {name: peak for name, peak in given.items() if peak is not None}


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """Peaks and memory of a GPU, each with its source; empty and None if unknown."""

    peaks: Mapping[str, float]
    peaks_by: str | None
    memory_gib: float | None
    memory_by: str | None


@dataclass(frozen=True, slots=True)
class StatedGpus:
    """What the user states about GPUs: the options are about the GPU of the run, the cards about GPUs by name."""

    peaks: Mapping[str, float] = field(default_factory=dict)
    memory_gib: float | None = None
    cards: Mapping[str, tuple[OwnGpu, str]] = field(default_factory=dict)
    """By each of their names: the card and its file."""

    def __bool__(self) -> bool:
        return bool(self.peaks or self.memory_gib or self.cards)

    def knows(self, name: str) -> bool:
        """Whether figures of a GPU of that name are stated."""
        return normal_name(name) in self.cards

    def same(self, name: str, other: str) -> bool:
        """Whether two names are of one card of gpus.yaml."""
        card, another = (self.cards.get(normal_name(each)) for each in (name, other))
        return card is not None and another is not None and card[0] is another[0]

    def figures(self, name: str | None) -> GpuFigures:
        """The figures of a GPU: those of the options, else of the file, else of the catalog."""
        listed = lookup(name) if name else None
        card, file = self.cards.get(normal_name(name or ""), (OwnGpu(), ""))
        catalog: Mapping[str, float] = listed.peaks if listed else {}
        sources = ((self.peaks, PEAK), (card.peaks, file), (catalog, CATALOG))
        peaks, peaks_by = next(((peaks, source) for peaks, source in sources if peaks), ({}, None))
        if listed is not None and peaks_by != CATALOG:
            _check_variant(listed.name, listed.peaks, peaks, peaks_by or "")
        usable = listed.usable_gib if listed else None
        sizes = ((self.memory_gib, MEMORY), (card.memory_gib, file), (usable, CATALOG))
        memory, memory_by = next(((size, source) for size, source in sizes if size is not None), (None, None))
        return GpuFigures(dict(peaks), peaks_by, memory, memory_by)


def stated_gpus(
    peaks: str | Sequence[str] | Mapping[str, float] | None,
    memory_gib: float | None,
    directories: Iterable[Path] = (),
) -> StatedGpus:
    """The figures of the options, and those of every gpus.yaml in these directories."""
    if memory_gib is not None and not 0 < memory_gib <= MOST_GIB:
        raise InputError(
            f"{MEMORY} {memory_gib:g} is not a memory size",
            key=MEMORY,
            value=memory_gib if math.isfinite(memory_gib) else str(memory_gib),
            expected=f"GiB per GPU, up to {MOST_GIB:,.0f}",
            next=f"{MEMORY} 80",
        )
    return StatedGpus(_peaks(peaks or ()), memory_gib, _cards(directories))


def check_ingested_gpu(gpu: str | None, stated: StatedGpus) -> None:
    """Refuse an incomplete or misspelled name. Other GPUs are recorded; their peaks are unknown until stated."""
    if gpu is None or gpu == CPU or lookup(gpu) is not None or stated.knows(gpu) or stated.peaks:
        return
    near, known = nearest_gpu(gpu), [normal_name(name) for name in known_names()]
    if near is not None or not gpu.strip() or difflib.get_close_matches(normal_name(gpu), known, cutoff=_MISSPELT):
        raise InputError(
            f"--gpu {shown(gpu)} is not in the catalog of GPUs",
            key="--gpu",
            value=plain(gpu),
            expected=f"a name of the catalog, or {PEAK} with the GPU's own peak",
            next=f"--gpu {near}" if near else f"--gpu {shlex.quote(gpu.strip() or 'NAME')} {PEAK} bf16=TFLOPS",
        )


def _peaks(given: str | Sequence[str] | Mapping[str, float]) -> dict[str, float]:
    if isinstance(given, Mapping):
        given = [f"{precision}={peak}" for precision, peak in given.items()]
    texts = [given] if isinstance(given, str) else given
    peaks: dict[str, float] = {}
    for text in (part.strip() for each in texts for part in each.split(",")):
        precision, _, number = text.partition("=")
        precision = precision.strip().lower()
        if precision not in PRECISIONS:
            near = next(iter(difflib.get_close_matches(precision, PRECISIONS, n=1, cutoff=0.0)), "bf16")
            raise _wrong(text, "does not start with a precision", f"{near}={number.strip() or 'TFLOPS'}")
        try:
            peak = float(number)
        except ValueError:
            raise _wrong(text, "has no number of TFLOP/s", f"{precision}=209") from None
        if not 1 <= peak <= MOST_TFLOPS:
            raise _wrong(text, "is not a peak in TFLOP/s", f"{precision}={_in_tflops(peak):g}")
        if peaks.get(precision, peak) != peak:
            raise _wrong(text, f"contradicts {precision}={peaks[precision]:g}", f"{precision}={peak:g}")
        peaks[precision] = peak
    return peaks


def _in_tflops(peak: float) -> float:
    """The number in TFLOP/s, if it was FLOP/s, GFLOP/s or PFLOP/s."""
    if not math.isfinite(peak) or peak <= 0:
        return 209.0
    return peak * 1000 if peak < 1 else next((peak / unit for unit in (1e3, 1e12) if 1 <= peak / unit <= 1e5), 209.0)


def _wrong(text: str, flaw: str, fix: str) -> InputError:
    expected = f"PRECISION=TFLOPS with a precision of {', '.join(PRECISIONS)} and dense TFLOP/s of 1 to 100,000"
    return InputError(
        f"{PEAK} {shown(text)} {flaw}", key=PEAK, value=plain(text), expected=expected, next=f"{PEAK} {fix}"
    )


def _check_variant(name: str, listed: Mapping[str, float], peaks: Mapping[str, float], source: str) -> None:
    """Refuse a peak far above that of the catalog: with it, an impossible rate would pass."""
    for precision, peak in peaks.items():
        known = listed.get(precision)
        if known is not None and peak > _ANOTHER_VARIANT * known:
            hint = (
                "; a peak with sparsity is twice the dense one" if math.isclose(peak, 2 * known, rel_tol=0.05) else ""
            )
            key = PEAK if source == PEAK else precision
            contradicted = f"contradicts the {name}, whose dense peak is {known:,.1f} TFLOP/s{hint}"
            raise InputError(
                f"{source}: {precision}={peak:g} {contradicted}",
                key=key,
                value=peak,
                expected=f"at most {_ANOTHER_VARIANT * known:,.0f}, or another name for another GPU",
                next=f"{PEAK} {precision}={known:g}" if source == PEAK else f"{precision}: {known:g}",
            )


def _cards(directories: Iterable[Path]) -> dict[str, tuple[OwnGpu, str]]:
    """The cards of the files, by every name; the first directory has precedence."""
    cards: dict[str, tuple[OwnGpu, str]] = {}
    for path in dict.fromkeys(directory / FILE for directory in directories):
        if not path.exists():
            continue
        file = read_mapping(path, "a file with figures of GPUs", _EXAMPLE)
        raise_errors(file.problems)
        own: dict[str, tuple[OwnGpu, str]] = {}
        for name, content in file.content.items():
            card = _card(path, name, content)
            for spelling in dict.fromkeys(map(normal_name, (str(name), *card.aliases))):
                if spelling in own:
                    raise _wrong_card(path, str(name), f"{spelling!r} names two GPUs", spelling, "one GPU per name")
                own[spelling] = card, str(path)
        cards = own | cards
    return cards


def _card(path: Path, name: Any, content: Any) -> OwnGpu:
    try:
        card = OwnGpu.model_validate(content)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        place = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            near = next(iter(difflib.get_close_matches(place, OwnGpu.model_fields, n=1, cutoff=0.0)), "bf16")
            expected = f"one of {', '.join(OwnGpu.model_fields)}"
            raise _wrong_card(path, f"{name}.{place}", "unknown key", None, expected, f"rename it to {near}") from None
        value = plain(first["input"]) if place else None
        complaint = f"is {shown(first['input'])}, but {first['msg']}"
        raise _wrong_card(path, f"{name}.{place}".rstrip("."), complaint, value, "figures such as bf16: 209") from None
    if not card.peaks and card.memory_gib is None:
        raise _wrong_card(path, str(name), "has no figures", None, "a peak such as bf16: 209, or memory_gib")
    return card


def _wrong_card(path: Path, key: str, flaw: str, value: Any, expected: str, fix: str | None = None) -> InputError:
    way_on = fix or "write it as `rtx6000ada: {bf16: 364, memory_gib: 47.4}`"
    return InputError(f"{path}: {key}: {flaw}", key=key, value=value, expected=expected, next=way_on)
