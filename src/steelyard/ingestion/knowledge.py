"""The settings of an imported run, from its log, its config and the command line."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard import accounting
from steelyard.accounting.flops import countable
from steelyard.configs.gpus import GpuFigures, StatedGpus
from steelyard.errors import InputError
from steelyard.experiment.experiment import GROUPS
from steelyard.experiment.model import Model
from steelyard.experiment.partial import product_format
from steelyard.experiment.problems import spelt
from steelyard.experiment.resolve import Resolved, leaves
from steelyard.experiment.sources import DEFAULT, DERIVED, LOG, OVERRIDE, Origin, Source
from steelyard.frameworks.facts import MockData
from steelyard.frameworks.logs.series import Job
from steelyard.frameworks.logs.settings import (
    GPU_GIB,
    GPU_NAME,
    LOG_INTERVAL,
    MASKED_EOD,
    PADDED_VOCABULARY,
    SHAPING,
    VERSION,
    WORLD_SIZE,
    LoggedSettings,
    Setting,
    same,
)
from steelyard.frameworks.registry import facts, is_planned, mock_floor
from steelyard.hardware.catalog import CATALOG, CPU, Gpu, known_names, lookup, same_gpu
from steelyard.ingestion.derived import MADE, following
from steelyard.records.manifest import LoggedValue, Override, RunPlatform
from steelyard.records.step import Event, Evidence
from steelyard.records.writer import LOGS

_WIDEST_STD = 1e6
"""Limit of the init std: a larger value is not a setting, and its square may overflow."""
_SUGGESTED = 0.02
"""Tolerance of a memory size for a GPU to be suggested."""


@dataclass(slots=True)
class Knowledge:
    """Values of one run by dotted key with their sources; the log has precedence."""

    settings: Mapping[str, Any]
    """By --set and presets; the log must not contradict them."""
    setting_sources: Mapping[str, Source]
    config: Resolved | None
    gpu: str | None
    gpus: int | None
    nodes: int | None
    stated: StatedGpus = field(default_factory=StatedGpus)
    override: bool = False
    """Whether settings by --set replace values in the log."""
    folder_gpu: str | None = None
    """By the name of the folder; the log has precedence."""
    overridden: dict[str, Override] = field(default_factory=dict)
    logged: LoggedSettings = field(default_factory=LoggedSettings)
    differing: dict[str, Event] = field(default_factory=dict)

    def learn(self, setting: Setting, job: Job) -> None:
        """Take a logged setting and update the job; a contradiction of the command line is an error."""
        before = self.logged.last.get(setting.key)
        self.logged.take(setting)
        if before is None or before.value != setting.value:  # most logs repeat their settings
            self._check(setting)
            self.update(job)

    def _check(self, setting: Setting) -> None:
        key, value = setting.key, setting.value
        if setting.takes_back:
            return
        if key in self.settings and not same(key, self.settings[key], value):
            self._replace(key, setting, f"{spelt(value)} in the log", spelt(value))
        if key == "data.source":
            for data_key in (f"data.{name}" for name in MADE.get(value, ())):
                if self.settings.get(data_key) is not None:
                    self._replace(data_key, setting, f"the log shows generated data ({value})", "no value")
        if key == GPU_NAME:
            self._check_gpu(setting)
        if key == GPU_GIB:
            self._check_card(setting)
        configured = self._configured(key)
        if configured is not None and not same(key, configured, value):
            message = (
                f"{key} is {spelt(configured)} in the config and {spelt(value)} in the log; the log's value is used"
            )
            self.differing.setdefault(key, Event(kind="config_differs", message=message, source=setting.source))

    def _replace(self, key: str, setting: Setting, logged: str, expected: str) -> None:
        """Record that --set replaces a value in the log; an error without --override."""
        value, at = self.settings[key], setting.source
        if self.override:
            self.overridden[key] = Override(value=value, logged=setting.value, file=at.file, line=at.line)
            return
        message = f"{key} is {spelt(value)} by --set, but {logged}{_at(setting)}"
        fix = f"the same command without --set {key}, or with --override if the log is wrong"
        raise InputError(message, key=key, value=value, expected=expected, next=fix)

    def override_events(self) -> Iterator[Event]:
        for key, each in self.overridden.items():
            message = f"{key} is {spelt(each.value)} by --set, which replaces {spelt(each.logged)} in the log"
            source = Evidence(each.file, each.line)
            yield Event(kind="setting_overridden", message=message, source=source, details={"key": key})

    def _check_gpu(self, setting: Setting) -> None:
        """Refuse a --gpu that differs from the GPU in the log; note a folder that is named after another."""
        logged, typed = lookup(str(setting.value)), self.gpu or self.folder_gpu
        if typed is None or same_gpu(str(setting.value), typed) or self.stated.same(str(setting.value), typed):
            return
        if self.gpu is None:
            message = f"the folder is named {typed}, but {setting.value} in the log; the log's name is used"
            self.differing.setdefault("folder", Event(kind="folder_differs", message=message, source=setting.source))
        elif logged is not None or setting.value == CPU:
            raise InputError(
                f"--gpu is {typed}, but {setting.value} in the log{_at(setting)}",
                key="--gpu",
                value=typed,
                expected=logged.name if logged else str(setting.value),
                next="the same command without --gpu",
            )

    def _check_card(self, setting: Setting) -> None:
        """Refuse a GPU whose memory size differs from that in the log."""
        of_folder = None if GPU_NAME in self.logged.last else self.folder_gpu
        origin = "--gpu" if self.gpu else "the GPU of the folder" if of_folder else "the GPU in the config"
        name = self.gpu or of_folder or (self.config.platform.gpu if self.config is not None else None)
        gpu, figures = lookup(name) if name else None, self.figures
        if gpu is None or self._has_memory(gpu, figures, setting.value):
            return
        cards = [card for known in known_names() if (card := lookup(known)) and _fits(card, setting.value)]
        near = [card.name for card in cards if math.isclose(card.usable_gib or 0, setting.value, rel_tol=_SUGGESTED)]
        fitting = near or [card.name for card in cards]
        option = "--gpu " if self.gpu or not of_folder else "--set FILE:gpu="
        raise InputError(
            f"{origin} is {name} with {figures.memory_gib:g} GiB, but the log shows a GPU with {setting.value:.1f} GiB"
            f"{_at(setting)}",
            key="--gpu",
            value=name,
            expected=" or ".join(fitting) or "no --gpu",
            next=f"{option}{fitting[0]}"
            if len(fitting) == 1
            else f"--gpu-memory {setting.value:.4g}, for another variant",
        )

    def _has_memory(self, gpu: Gpu, figures: GpuFigures, gib: Any) -> bool:
        """Whether a memory size in the log is the stated one, or one of the catalog's GPU."""
        if figures.memory_gib is None or figures.memory_by == CATALOG:
            return gpu.usable_gib is None or _fits(gpu, gib)
        return same(GPU_GIB, figures.memory_gib, gib)

    def _configured(self, key: str) -> Any:
        if self.config is not None and key == GPU_NAME:
            return self.config.platform.gpu
        if self.config is None or self.config.sources.get(key, DEFAULT) == DEFAULT:
            return None
        return dict(leaves(self.config.experiment.model_dump(mode="json"))).get(key)

    def values(self) -> tuple[dict[str, Any], dict[str, Source]]:
        """All known values and their sources."""
        values: dict[str, Any] = {}
        sources: dict[str, Source] = {}
        if self.config is not None:
            for key, value in leaves(self.config.experiment.model_dump(mode="json")):
                if key.partition(".")[0] in GROUPS:
                    values[key], sources[key] = value, self.config.sources.get(key, DEFAULT)
        for key, value in self.settings.items():
            values[key], sources[key] = value, OVERRIDE if key in self.overridden else self.setting_sources[key]
        for key, setting in self.logged.last.items():
            if "." in key and key.partition(".")[0] in GROUPS and key not in self.overridden:
                values[key], sources[key] = setting.value, LOG
        by_log = sources.get("data.source") == LOG
        if "precision.dtype" in self.settings and "precision.fp8" not in values:
            # The format that the user states is that of all products, unless the log shows FP8.
            values["precision.fp8"], sources["precision.fp8"] = None, DERIVED
        for key, value in list(following(values, self.world()[2])):
            by_source = by_log and key.startswith("data.") and key not in self.overridden
            if sources.get(key, DEFAULT) == DEFAULT or by_source:
                values[key], sources[key] = value, DERIVED
        return values, sources

    def experiment(self, name: str, trained_by: str = "") -> tuple[dict[str, Any], dict[str, Source]]:
        """The known part of the experiment by group, and the sources; unknown values are absent."""
        values, sources = self.values()
        for key, value in facts(trained_by).always.items():
            if key not in values:
                values[key], sources[key] = value, Source(Origin.FRAMEWORK, trained_by)
        content: dict[str, Any] = {"schema_version": 1, "name": name}
        for key, value in values.items():
            *parents, last = key.split(".")
            here = content
            for parent in parents:
                here = here.setdefault(parent, {})
                if not isinstance(here, dict):
                    break
            else:
                here[last] = value
        if self.config is not None:
            content["thresholds"] = list(self.config.experiment.thresholds)
            content["compare"] = self.config.experiment.compare.model_dump(mode="json")
        return content, sources

    def logged_at(self) -> dict[str, LoggedValue]:
        return {
            key: LoggedValue(file=at.source.file, line=at.source.line, value=at.value if key in SHAPING else None)
            for key, at in self.logged.last.items()
        }

    # The platform.

    @property
    def gpu_name(self) -> str | None:
        return self._named_gpu[0]

    @property
    def gpu_by(self) -> str | None:
        """Who names the GPU."""
        return self._named_gpu[1]

    @property
    def _named_gpu(self) -> tuple[str, str] | tuple[None, None]:
        """The GPU's name, and who names it first: --gpu, the log, the folder or the config."""
        logged = str(self.logged.last[GPU_NAME].value) if GPU_NAME in self.logged.last else None
        config = self.config.platform.gpu if self.config is not None else None
        named = {"--gpu": self.gpu, "log": logged, "folder": self.folder_gpu, "config": config}
        return next(((name, by) for by, name in named.items() if name is not None), (None, None))

    @property
    def known_gpu(self) -> Gpu | None:
        """The GPU in the catalog; its variant in the log if --gpu leaves it open."""
        gpu = lookup(self.gpu_name) if self.gpu_name else None
        logged = lookup(str(self.logged.last[GPU_NAME].value)) if GPU_NAME in self.logged.last else None
        return logged if gpu is not None and logged is not None and gpu.includes(logged) else gpu

    @property
    def figures(self) -> GpuFigures:
        """Peaks and memory of the GPU."""
        if self.gpu_name == CPU:
            return StatedGpus().figures(None)
        known = self.known_gpu
        return self.stated.figures(
            self.gpu_name if known is None or self.stated.knows(self.gpu_name or "") else known.name
        )

    def world(self) -> tuple[int | None, int | None, int | None]:
        """(nodes, GPUs per node, GPUs in total); options must agree with the log."""
        logged = self.logged.last.get(WORLD_SIZE)
        total = int(logged.value) if logged and logged.value > 0 else None
        per_node = self.gpus or (self.config.platform.gpus_per_node if self.config is not None else None)
        nodes = self.nodes or (self.config.platform.nodes if self.config is not None and total is None else None)
        if total is not None and nodes is None and per_node is not None and total % per_node == 0:
            nodes = total // per_node
        if total is not None and per_node is None and nodes is not None and total % nodes == 0:
            per_node = total // nodes
        if per_node is not None and nodes is None and total is None:
            nodes = 1
        if logged and total is not None and per_node is not None and (nodes is None or nodes * per_node != total):
            typed = f"--gpus {per_node}" if nodes is None else f"{nodes} nodes x {per_node} GPUs"
            raise InputError(
                f"{typed} contradicts the world size of {total} in the log{_at(logged)}",
                key="--gpus",
                value=per_node,
                expected=f"GPUs per node, {total} in total",
                next=f"--gpus {min(total, 8)} --nodes {max(1, total // 8)}",
            )
        return nodes, per_node, nodes * per_node if nodes is not None and per_node is not None else total

    def platform(self, label: str) -> RunPlatform:
        nodes, per_node, total = self.world()
        values, _ = self.values()
        precision = product_format(lambda key: (key in values, values.get(key)))
        gpu, figures = self.known_gpu, self.figures
        return RunPlatform(
            name=label,
            gpu=gpu.name if gpu else None,
            gpu_name=self.gpu_name,
            nodes=nodes,
            gpus_per_node=per_node,
            world_size=total,
            peak_tflops_per_gpu=figures.peaks.get(precision) if precision else None,
            gpu_by=self.gpu_by,
            peaks_tflops=dict(figures.peaks),
            peaks_by=figures.peaks_by,
            memory_gib=figures.memory_gib,
            memory_by=figures.memory_by,
        )

    def software(self) -> dict[str, str]:
        return {VERSION: str(self.logged.last[VERSION].value)} if VERSION in self.logged.last else {}

    # Computed values.

    def model(self) -> Model | None:
        content, _ = self.experiment("run")
        return countable(content.get("model", {}), self.logged.whole(PADDED_VOCABULARY))

    def update(self, job: Job) -> None:
        """Update what rates are computed from."""
        values, _ = self.values()
        length, batch = values.get("training.sequence_length"), values.get("training.global_batch_size")
        job.sequence_length = length if type(length) is int else None
        job.global_batch_size = batch if type(batch) is int else None
        job.world_size = self.world()[2]
        job.flops_per_token = self._flops_per_token(values)
        job.device_gib = self.figures.memory_gib

    def _flops_per_token(self, values: Mapping[str, Any]) -> float | None:
        model, length = self.model(), values.get("training.sequence_length")
        return accounting.flops_per_token(model, length) if model and type(length) is int else None

    def expected(self, name: str) -> dict[str, Any]:
        """Computed expectations; null if unknown."""
        values, _ = self.values()
        model, length = self.model(), values.get("training.sequence_length")
        batch = values.get("training.global_batch_size")
        return {
            "parameters": accounting.parameters(model).total if model else None,
            "flops_per_token": self._flops_per_token(values),
            "tokens_per_step": batch * length if type(batch) is int and type(length) is int else None,
            "first_loss": self._first_loss(name, values),
            "logit_std": self._logit_std(name, values),
            "loss_floor": self._loss_floor(values),
            "peak_tflops_per_gpu": self.platform("").peak_tflops_per_gpu,
            "log_interval": self.logged.last[LOG_INTERVAL].value if LOG_INTERVAL in self.logged.last else None,
            "threshold_nodes": self.config.platform.nodes if self.config is not None else None,
        }

    def _first_loss(self, name: str, values: Mapping[str, Any]) -> float | None:
        padded, spread = self._padded_vocabulary(name, values), self._logit_std(name, values)
        if facts(name).any_loss:
            return None
        return None if not padded or padded < 0 or spread is None else math.log(padded) + spread**2 / 2

    def _logit_std(self, name: str, values: Mapping[str, Any]) -> float | None:
        """Std of an untrained model's logits: hidden^0.5 x init std, or 1 if the output is scaled by width."""
        if facts(name).unit_logits:
            return 1.0
        hidden, std = values.get("model.hidden_size"), values.get("training.init_method_std")
        if type(hidden) is not int or hidden < 0 or not isinstance(std, float) or not 0 <= std < _WIDEST_STD:
            return None
        return math.sqrt(hidden) * std

    def _padded_vocabulary(self, name: str, values: Mapping[str, Any]) -> int | None:
        if PADDED_VOCABULARY in self.logged.last:
            return int(self.logged.last[PADDED_VOCABULARY].value)
        vocabulary, tensor = values.get("model.vocab_size"), values.get("parallelism.tensor_parallel_size")
        if type(vocabulary) is not int:
            return None
        if facts(name).pads_vocabulary is False:
            return vocabulary
        if not is_planned(name) or type(tensor) is not int or tensor < 1:
            return None
        return facts(name).padded_vocabulary(vocabulary, tensor)

    def _loss_floor(self, values: Mapping[str, Any]) -> float | None:
        source, vocabulary = values.get("data.source"), values.get("model.vocab_size")
        masked = self.logged.last.get(MASKED_EOD)
        if source == MockData.COUNTING and not (masked and masked.value):
            return mock_floor(MockData.COUNTING)
        samples, steps = values.get("data.samples"), values.get("training.steps")
        batch = values.get("training.global_batch_size")
        if type(samples) is int and (type(steps) is not int or type(batch) is not int or samples < steps * batch):
            return None  # they repeat, and can be memorized
        if source != "uniform" or type(vocabulary) is not int or vocabulary < 1:
            return None
        return math.log(vocabulary)


def _fits(gpu: Gpu, gib: Any) -> bool:
    """Whether a memory size in a log is one of this GPU, with or without ECC."""
    return any(size is not None and same(GPU_GIB, size, gib) for size in (gpu.usable_gib, gpu.ecc_gib))


def _at(setting: Setting) -> str:
    return f" ({setting.source.file.removeprefix(f'{LOGS}/')}:{setting.source.line})"
