"""What is known of a foreign run: what its log says, what a config asked, what the command line adds."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard import accounting
from steelyard.accounting.flops import countable
from steelyard.accounting.vocabularies import MOCK_FLOORS
from steelyard.errors import InputError
from steelyard.experiment.experiment import GROUPS
from steelyard.experiment.model import Model
from steelyard.experiment.problems import spelt
from steelyard.experiment.resolve import Resolved, leaves
from steelyard.experiment.sources import DEFAULT, DERIVED, LOG, Origin, Source
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
from steelyard.frameworks.registry import facts, is_planned
from steelyard.hardware.catalog import CPU, Gpu, known_names, lookup
from steelyard.records.manifest import LoggedValue, RunPlatform
from steelyard.records.step import Event

_WIDEST_STD = 1e6
"""Of the first weights: what lies beyond is not a setting, and its square may be beyond a float."""
_MADE = {"counting": ("path", "dataset", "samples"), "uniform": ("path", "dataset"), "fixed_batch": ("path", "dataset")}
"""What there is none of where the data are made, by their source."""


@dataclass(slots=True)
class Knowledge:
    """Values of one run by dotted key, each with where it comes from; the log's own word counts most."""

    settings: Mapping[str, Any]
    """By --set and presets: what the log must not contradict."""
    setting_sources: Mapping[str, Source]
    config: Resolved | None
    gpu: str | None
    gpus: int | None
    nodes: int | None
    logged: LoggedSettings = field(default_factory=LoggedSettings)
    differing: dict[str, Event] = field(default_factory=dict)

    def learn(self, setting: Setting, job: Job) -> None:
        """Take what the log says, and update the job by it; a contradiction of the command line is an error."""
        before = self.logged.last.get(setting.key)
        self.logged.take(setting)
        if before is None or before.value != setting.value:  # most logs print their settings again and again
            self._check(setting)
            self.update(job)

    def _check(self, setting: Setting) -> None:
        key, value = setting.key, setting.value
        if setting.takes_back:
            return
        if key in self.settings and not same(key, self.settings[key], value):
            raise self._contradicted(key, setting, f"the log says {spelt(value)}", f"{spelt(value)}, or nothing")
        if key == "data.source":
            for made in (f"data.{name}" for name in _MADE.get(value, ())):
                if self.settings.get(made) is not None:
                    raise self._contradicted(made, setting, f"the log says its data are made: {value}", "nothing")
        if key == GPU_NAME and self.gpu is not None:
            self._check_gpu(setting, self.gpu)
        if key == GPU_GIB:
            self._check_card(setting)
        asked = self._asked(key)
        if asked is not None and not same(key, asked, value):
            message = f"{key} is {spelt(asked)} in the config, and the log says {spelt(value)}: the log's is in force"
            self.differing.setdefault(key, Event(kind="config_differs", message=message, source=setting.source))

    def _contradicted(self, key: str, setting: Setting, logged: str, expected: str) -> InputError:
        message = f"{key} is {spelt(self.settings[key])} by --set, and {logged}{_at(setting)}"
        return InputError(message, key=key, value=self.settings[key], expected=expected, next=f"without --set {key}")

    def _check_gpu(self, setting: Setting, typed: str) -> None:
        """Refuse a typed GPU that is another than the log's own."""
        logged = lookup(str(setting.value))
        if logged is not lookup(typed) and (logged is not None or setting.value == CPU):
            raise InputError(
                f"--gpu is {typed}, and the log says {setting.value}{_at(setting)}",
                key="--gpu",
                value=typed,
                expected=f"{logged.name if logged else setting.value}, or nothing",
                next="without --gpu",
            )

    def _check_card(self, setting: Setting) -> None:
        """Refuse a GPU, typed or of the config, that is not of the size of the card the log shows."""
        origin = "--gpu" if self.gpu is not None else "the config's GPU"
        name = self.gpu or (self.config.platform.gpu if self.config is not None else None)
        gpu = lookup(name) if name else None
        if gpu is None or gpu.usable_gib is None or same(GPU_GIB, gpu.usable_gib, setting.value):
            return
        sizes = {known: card.usable_gib for known in known_names() if (card := lookup(known)) and card.usable_gib}
        fitting = [known for known, gib in sizes.items() if same(GPU_GIB, gib, setting.value)]
        raise InputError(
            f"{origin} is {name}, which has {gpu.usable_gib} GiB, and the log shows a card of {setting.value:.2f} GiB"
            f"{_at(setting)}",
            key="--gpu",
            value=name,
            expected=" or ".join([*fitting, "nothing"]),
            next=f"--gpu {fitting[0]}" if len(fitting) == 1 else "without --gpu",
        )

    def _asked(self, key: str) -> Any:
        if self.config is not None and key == GPU_NAME:
            return self.config.platform.gpu
        if self.config is None or self.config.sources.get(key, DEFAULT) == DEFAULT:
            return None
        return dict(leaves(self.config.experiment.model_dump(mode="json"))).get(key)

    def values(self) -> tuple[dict[str, Any], dict[str, Source]]:
        """Every value that is known, and its source."""
        values: dict[str, Any] = {}
        sources: dict[str, Source] = {}
        if self.config is not None:
            for key, value in leaves(self.config.experiment.model_dump(mode="json")):
                if key.partition(".")[0] in GROUPS:
                    values[key], sources[key] = value, self.config.sources.get(key, DEFAULT)
        for key, value in self.settings.items():
            values[key], sources[key] = value, self.setting_sources[key]
        for key, setting in self.logged.last.items():
            if "." in key and key.partition(".")[0] in GROUPS:
                values[key], sources[key] = setting.value, LOG
        by_log = sources.get("data.source") == LOG
        for key, value in list(_following(values, self.world()[2])):
            if sources.get(key, DEFAULT) == DEFAULT or (by_log and key.startswith("data.")):
                values[key], sources[key] = value, DERIVED
        return values, sources

    def experiment(self, name: str, trained_by: str = "") -> tuple[dict[str, Any], dict[str, Source]]:
        """The experiment as far as it is known, group by group, by one framework; what is not known is absent."""
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
        """What was typed, else what the config or the log calls it."""
        if self.gpu is not None:
            return self.gpu
        if GPU_NAME in self.logged.last:
            return str(self.logged.last[GPU_NAME].value)
        return self.config.platform.gpu if self.config is not None else None

    @property
    def known_gpu(self) -> Gpu | None:
        return lookup(self.gpu_name) if self.gpu_name else None

    def world(self) -> tuple[int | None, int | None, int | None]:
        """(nodes, GPUs a node, GPUs of all nodes); what was typed must agree with what the log says."""
        logged = self.logged.last.get(WORLD_SIZE)
        total = int(logged.value) if logged else None
        each = self.gpus or (self.config.platform.gpus_per_node if self.config is not None else None)
        nodes = self.nodes or (self.config.platform.nodes if self.config is not None and total is None else None)
        if total is not None and nodes is None and each is not None and total % each == 0:
            nodes = total // each
        if total is not None and each is None and nodes is not None and total % nodes == 0:
            each = total // nodes
        if each is not None and nodes is None and total is None:
            nodes = 1
        if logged and total is not None and each is not None and (nodes is None or nodes * each != total):
            typed = f"--gpus {each}" if nodes is None else f"{nodes} nodes x {each} GPUs"
            raise InputError(
                f"{typed} cannot be the {total} GPUs the log says{_at(logged)}",
                key="--gpus",
                value=each,
                expected=f"GPUs of one node, of {total} in all",
                next=f"--gpus {min(total, 8)} --nodes {max(1, total // 8)}",
            )
        return nodes, each, nodes * each if nodes is not None and each is not None else total

    def platform(self, label: str) -> RunPlatform:
        nodes, each, total = self.world()
        values, _ = self.values()
        precision = "fp8" if values.get("precision.fp8") else values.get("precision.dtype")
        gpu = self.known_gpu
        return RunPlatform(
            name=label,
            gpu=gpu.name if gpu else None,
            gpu_name=self.gpu_name,
            nodes=nodes,
            gpus_per_node=each,
            world_size=total,
            peak_tflops_per_gpu=gpu.peak_tflops(precision) if gpu and precision else None,
        )

    def software(self) -> dict[str, str]:
        return {VERSION: str(self.logged.last[VERSION].value)} if VERSION in self.logged.last else {}

    # What arithmetic says of it.

    def model(self) -> Model | None:
        content, _ = self.experiment("run")
        return countable(content.get("model", {}))

    def update(self, job: Job) -> None:
        """What rates are derived from, as known by now."""
        values, _ = self.values()
        length, batch = values.get("training.sequence_length"), values.get("training.global_batch_size")
        job.sequence_length = length if type(length) is int else None
        job.global_batch_size = batch if type(batch) is int else None
        job.world_size = self.world()[2]
        job.flops_per_token = self._flops_per_token(values)
        job.device_gib = self.known_gpu.usable_gib if self.known_gpu else None

    def _flops_per_token(self, values: Mapping[str, Any]) -> float | None:
        model, length = self.model(), values.get("training.sequence_length")
        return accounting.flops_per_token(model, length) if model and type(length) is int else None

    def expected(self, name: str) -> dict[str, Any]:
        """What the arithmetic says of the run, null where it cannot."""
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
        return None if not padded or padded < 0 or spread is None else math.log(padded) + spread**2 / 2

    def _logit_std(self, name: str, values: Mapping[str, Any]) -> float | None:
        """How far logits of an untrained model spread: hidden^0.5 x std, or 1 where the output is scaled by width."""
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
        if source == "counting" and not (masked and masked.value):
            return MOCK_FLOORS["counting"]
        if source != "uniform" or type(vocabulary) is not int or vocabulary < 1:
            return None
        return math.log(vocabulary)


def _following(values: Mapping[str, Any], world: int | None) -> Iterator[tuple[str, Any]]:
    """What follows from the values that are known, where nobody says it."""
    others = [values.get(f"parallelism.{name}_parallel_size") for name in ("tensor", "pipeline", "context")]
    shared = math.prod(size for size in others if type(size) is int)
    if world is not None and all(type(size) is int for size in others) and shared > 0 and world % shared == 0:
        yield "parallelism.data_parallel_size", world // shared
    if values.get("precision.dtype") in ("bf16", "fp32"):  # fp16 alone scales its loss
        yield "precision.loss_scale", None
    source, batch = values.get("data.source", ""), values.get("training.global_batch_size")
    yield from ((f"data.{name}", None) for name in _MADE.get(source, ()))
    if source == "fixed_batch" and type(batch) is int:
        yield "data.samples", batch


def _at(setting: Setting) -> str:
    return f" ({setting.source.file}:{setting.source.line})"
