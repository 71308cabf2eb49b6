"""Facts about a framework that hold for every run; each fact is stated once, in the framework's folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from steelyard import accounting
from steelyard.accounting.flops import Convention
from steelyard.experiment import Experiment, Kernels
from steelyard.experiment.presets import PRESETS

UNKNOWN = "unknown"
"""The framework of a run if it is not recorded."""


class MockData(StrEnum):
    """Generated data, by its source name in the experiment."""

    COUNTING = "counting"
    UNIFORM = "uniform"
    FIXED_BATCH = "fixed_batch"


MOCK_DATA_NAMES = {
    MockData.COUNTING: "Megatron's counting mock data",
    MockData.FIXED_BATCH: "MaxText's synthetic batch",
}
"""Named after the framework that is known for it."""


@dataclass(frozen=True, slots=True)
class MemoryKind:
    """What a memory figure measures."""

    name: str
    rank: int = 9
    """Of several kinds in one log, the one with the lowest rank is compared."""
    is_peak: bool = True
    """Whether it includes activations, which depend on micro batch and recomputation."""
    of_host: bool = False
    """Whether it is host memory, not GPU memory."""


TORCH_RESERVED = MemoryKind("torch_reserved_peak", rank=0)
DEVICE_USED = MemoryKind("device_used", rank=1)
TORCH_ALLOCATED = MemoryKind("torch_allocated_peak", rank=2)
"""Kinds that several frameworks measure."""

LLAMA_31 = {
    "model.norm_epsilon": 1e-5,
    "model.rope_theta": 500000,
    "model.rope_scaling": PRESETS["llama3.1-8b"]["rope_scaling"],
    "model.tied_embeddings": False,
}
"""`model_defaults` of frameworks with Llama 3.1 recipes."""

POSITION_ENCODING = "the position encoding"
"""A default without a key, which a known architecture determines."""

PLANNED = {"training.hidden_dropout": 0.0, "data.eod_mask_loss": "counted"}
"""What every plan sets of the `keyless_defaults`, whatever the framework."""


@dataclass(frozen=True, slots=True)
class ShareOf:
    """A default that is a share of another key."""

    key: str
    """Dotted."""
    share: float

    def of(self, whole: Any) -> float | None:
        """The default for this value of the other key; None if it is not a number."""
        return self.share * whole if isinstance(whole, int | float) else None

    def __str__(self) -> str:
        return f"{self.share:.0%} of {self.key}"


@dataclass(frozen=True, slots=True)
class Described:
    """A default that is not a value of its key, described in words."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One framework; omitted fields have the usual value."""

    name: str

    # Names and defaults of the experiment's keys.
    names: Mapping[str, str] | None = field(default_factory=dict)
    """Its names of the experiment's dotted keys; None if it uses the experiment's names."""
    ignores: frozenset[str] = frozenset()
    """Dotted keys without meaning for a framework that uses the experiment's names."""
    unnamed: frozenset[str] | None = None
    """Dotted keys without a name that are allowed: the planner checks or derives them, or they have no meaning. An
    experiment that sets any other key without a name is refused; None if the planner checks this itself."""
    silent_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Its defaults by dotted key: a value, a `ShareOf` another key, or `Described`. The plan uses them for null."""
    local_kernels: Mapping[str, Any] = field(default_factory=dict)
    """Its defaults of kernels, by dotted key, if `kernels.transformer_impl` is local."""
    model_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Default model dimensions, for imported runs; a plan states every dimension."""
    keyless_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults that shape a curve and have no experiment key; our plans set them, imported runs may not."""
    always: Mapping[str, Any] = field(default_factory=dict)
    """Fixed values of dotted keys that it has no setting for."""

    # The vocabulary and the data.
    vocabulary_multiple: int | None = 1
    """Multiple that the vocabulary is padded to, times the tensor-parallel size; 1 for no padding, None if unknown."""
    mock_data: MockData | None = None
    """Its mock data; None if it has none."""
    mock_floor: float | None = None
    """Loss floor of the mock data in nats per token; None if it depends on the vocabulary."""
    mock_vocabularies: Mapping[int, str | None] = field(default_factory=dict)
    """Vocabulary sizes without a tokenizer, each with the owner's name if it is not the usual one."""
    takes_tokens_from_tokenizer: bool = True
    """Whether its data is text or output of a tokenizer, not plain token ids."""
    reads_named_datasets: bool = False
    """Whether it accepts a dataset's name instead of a path."""

    # Seeds and first weights.
    one_seed: bool = False
    """Whether one seed determines both the weights and the order of the data."""
    overwritten_seed: int | None = None
    """The seed that it always sets itself."""
    portable_weights: bool = False
    """Whether a seed gives the same weights for every parallel layout, GPU and version."""
    init_stds: tuple[float | None, ...] = ()
    """Init stds, by default or in its recipes; None for fan-in, () if the first loss depends on more."""
    unit_logits: bool = False
    """Whether logits of an untrained model have std 1 at any width, because the output is scaled by width."""

    any_loss: bool = False
    """Whether its runs have any data and loss, often with trained weights: first loss and loss floor are unknown."""

    # FLOPs.
    flop_conventions: tuple[Convention, ...] = ()
    """Possible FLOP formulas of its TFLOP/s if the version is unknown; () for any."""
    forks_count_differently: bool = False
    """Whether forks of it count FLOPs by formulas of their own, under the same log line."""
    flop_conventions_by_era: Mapping[str, tuple[Convention, ...]] = field(default_factory=dict)
    """FLOP formulas by version of the log lines; "" for all other versions."""

    averages_tflops: bool = False
    """Whether its TFLOP/s are a mean over several steps, printed again at every step until the next mean."""

    # Its log and its tags in trackers.
    log_interval: int | None = None
    """Steps between its step lines; None if a setting determines it."""
    memory_kind: str = ""
    """The kind of memory in its log; "" if it has none, or the log names it."""
    memory_kinds: tuple[MemoryKind, ...] = ()
    """All kinds of memory in its logs; an undeclared kind counts as peak GPU memory."""
    loss_of_last_step: bool = False
    """Whether a record has the loss of its last step, not the mean of all covered steps."""
    loss_digits: int | None = None
    """Significant digits of the losses in its log; None if it prints a number of decimals, which the log shows."""
    norm_only_if_clipped: bool = False
    """Whether it prints a gradient norm of 0 if it does not clip gradients."""
    end_marker: bytes = b""
    """Pattern of its end marker; b"" if it has none."""
    announces_end: bool = False
    """Whether it prints an end marker but not the number of steps: a log without the marker is incomplete."""
    tracker_tags: Mapping[str, str] = field(default_factory=dict)
    """Step fields by its tags in trackers such as TensorBoard."""
    tracker_zero_based: bool = False
    """Whether its steps in trackers count from 0."""
    suite_name: str | None = None
    """Its four letters in file names of the comparison suite."""

    # How it is launched.
    runs_here: tuple[str, str] | None = None
    """For a framework that runs without a container: the module it needs, and the command that installs it."""
    has_launch_script: bool = False
    """Whether its images contain a script that can launch it."""
    port_variables: tuple[str, ...] = ("MASTER_PORT",)
    """Variables with the port where its ranks meet."""
    retired_flags: Mapping[str, str] = field(default_factory=dict)
    """Flags that newer versions reject, each with the program that rejects it."""
    shards_weights: bool = False
    """Whether it can shard weights over data-parallel ranks."""

    def spelling(self, dotted: str) -> str | None:
        """Its name of a key of the experiment; None if the key has no meaning for it."""
        if self.names is None:
            return None if dotted in self.ignores else dotted
        return self.names.get(dotted)

    def stated(self, experiment: Experiment, group: str, *keys: str) -> dict[str, Any]:
        """Values of these keys of a group by its names, the first name if it has several."""
        values, names = getattr(experiment, group), self.names or {}
        return {names[f"{group}.{key}"].partition(",")[0]: getattr(values, key) for key in keys}

    def chosen_kernels(self, kernels: Kernels) -> dict[str, Any]:
        """Each kernel as requested, or else its default."""
        own = {**self.silent_defaults, **(self.local_kernels if kernels.transformer_impl == "local" else {})}
        return {key: own.get(f"kernels.{key}") if value is None else value for key, value in kernels}

    def own_names(self) -> set[str]:
        """All its names of the experiment's keys."""
        return {name.strip() for listed in (self.names or {}).values() for name in listed.split(",")}

    def default(self, dotted: str) -> tuple[bool, Any]:
        """Whether its default of a key is known, and the default, which may be null."""
        tables = (self.silent_defaults, self.model_defaults)
        return next(((True, table[dotted]) for table in tables if dotted in table), (False, None))

    def padded_vocabulary(self, size: int, tensor_parallel_size: int) -> int:
        """The vocabulary as it pads it; unpadded if its padding is unknown."""
        if not self.pads_vocabulary:
            return size
        return accounting.padded_vocab_size(size, (self.vocabulary_multiple or 1) * tensor_parallel_size)

    @property
    def pads_vocabulary(self) -> bool | None:
        """None if unknown."""
        return None if self.vocabulary_multiple is None else self.vocabulary_multiple > 1

    def conventions_of(self, era: str) -> tuple[Convention, ...]:
        """Possible FLOP formulas of its TFLOP/s by the version of the log lines; () if unknown."""
        by_era = self.flop_conventions_by_era
        return by_era.get(era, by_era.get("", self.flop_conventions))
