"""Names the GPU of a recorded run, or states its peak and memory, in its run.json."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from steelyard.configs.gpus import GpuFigures, StatedGpus, check_ingested_gpu
from steelyard.errors import InputError
from steelyard.hardware.catalog import CATALOG, CPU, lookup, same_gpu
from steelyard.records import MANIFEST, Run
from steelyard.records.manifest import RunManifest, RunPlatform
from steelyard.records.writer import rewrite_manifest

BY = "check --gpu"


def with_gpu(run: Run, gpu: str | None, stated: StatedGpus, not_saved: Callable[[Path, OSError], None] | None) -> Run:
    """The run with this GPU and its figures, which are recorded, so that every later judgment uses them."""
    if run.status == "running":
        fix = f"steelyard check {shlex.quote(str(run.directory))}, after it has ended"
        message = f"{run.directory} is still running, so its GPU cannot be named yet"
        raise InputError(message, key="--gpu", value=gpu, expected="a run that has ended", next=fix)
    check_ingested_gpu(gpu, stated)
    _check_name(run, gpu)
    manifest = named(run.manifest, gpu, stated)
    try:
        rewrite_manifest(run.directory, manifest)
    except OSError as reason:
        if not_saved is None:
            raise
        not_saved(run.directory / MANIFEST, reason)
    return replace(run, manifest=manifest)


def _check_name(run: Run, gpu: str | None) -> None:
    """Refuse a GPU that differs from the recorded one. A recorded name outside the catalog may be any GPU."""
    recorded = run.manifest.platform.gpu_name
    known = recorded is not None and (recorded == CPU or lookup(recorded) is not None)
    if gpu is None or not known or (gpu == recorded if CPU in (gpu, recorded) else same_gpu(gpu, str(recorded))):
        return
    source = run.manifest.platform.gpu_by or "its record"
    raise InputError(
        f"--gpu is {gpu}, but the GPU of {run.directory} is {recorded} (by {source})",
        key="--gpu",
        value=gpu,
        expected=str(recorded),
        next=f"steelyard check {shlex.quote(str(run.directory))}",
    )


def named(manifest: RunManifest, gpu: str | None, stated: StatedGpus) -> RunManifest:
    before = manifest.platform
    name = gpu or before.gpu_name
    listed = lookup(name) if name and name != CPU else None
    recorded = lookup(before.gpu_name) if before.gpu_name else None
    if listed is not None and recorded is not None and listed.includes(recorded):
        listed = recorded
    if name == CPU:
        figures = GpuFigures({}, None, None, None)
    else:
        known = listed.name if listed is not None and not stated.knows(name or "") else name
        figures = _kept(stated.figures(known), before)
    peak = figures.peaks.get(_precision(manifest) or "")
    values: dict[str, Any] = {
        "gpu": listed.name if listed else None,
        "gpu_name": name,
        "gpu_by": BY if gpu is not None else before.gpu_by,
        "peak_tflops_per_gpu": peak,
        "peaks_tflops": dict(figures.peaks),
        "peaks_by": figures.peaks_by,
        "memory_gib": figures.memory_gib,
        "memory_by": figures.memory_by,
    }
    expected = {**manifest.expected, "peak_tflops_per_gpu": peak}
    return manifest.model_copy(update={"platform": before.model_copy(update=values), "expected": expected})


def _kept(figures: GpuFigures, before: RunPlatform) -> GpuFigures:
    """Figures that the user stated before stay where nothing else is stated."""
    if figures.peaks_by in (None, CATALOG) and before.peaks_by not in (None, CATALOG):
        figures = replace(figures, peaks=before.peaks_tflops, peaks_by=before.peaks_by)
    if figures.memory_by in (None, CATALOG) and before.memory_by not in (None, CATALOG):
        figures = replace(figures, memory_gib=before.memory_gib, memory_by=before.memory_by)
    return figures


def _precision(manifest: RunManifest) -> str | None:
    dtype = manifest.experiment.value("precision.dtype")
    return "fp8" if manifest.experiment.value("precision.fp8") else dtype if isinstance(dtype, str) else None
