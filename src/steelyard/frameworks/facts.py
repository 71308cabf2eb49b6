"""What is true of a framework whatever it trains: each fact is stated once, in the framework's folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from steelyard import accounting
from steelyard.accounting.flops import Convention
from steelyard.experiment import Experiment, Kernels
from steelyard.experiment.presets import PRESETS

UNKNOWN = "unknown"
"""The framework of a run that does not tell it."""


class MockData(StrEnum):
    """Data that a framework makes up, by what the experiment calls such a source."""

    COUNTING = "counting"
    UNIFORM = "uniform"
    FIXED_BATCH = "fixed_batch"


MOCK_DATA_NAMES = {
    MockData.COUNTING: "Megatron's counting mock data",
    MockData.FIXED_BATCH: "MaxText's synthetic batch",
}
"""By the framework that is known for it."""

LLAMA_31 = {
    "model.norm_epsilon": 1e-5,
    "model.rope_theta": 500000,
    "model.rope_scaling": PRESETS["llama3.1-8b"]["rope_scaling"],
    "model.tied_embeddings": False,
}
"""`model_defaults` of a framework whose recipes are Llama 3.1's."""

POSITION_ENCODING = "the position encoding"
"""Among the defaults without a key: what an architecture that is known says by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One framework; a field that is left out says that it does nothing out of the ordinary."""

    name: str

    # Names and defaults of the experiment's keys.
    names: Mapping[str, str] | None = field(default_factory=dict)
    """What it calls a dotted key of the experiment; None where it reads the experiment's own names."""
    ignores: frozenset[str] = frozenset()
    """Dotted keys that mean nothing to a framework that reads the experiment's own names."""
    silent_defaults: Mapping[str, Any] = field(default_factory=dict)
    """What it does, by dotted key, where nothing is said: a value of the experiment, or text where it has no such
    value. Where the experiment says null, the plan fills in what is here."""
    model_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Dimensions of a model, as Llama recipes have them; a plan states every one, so these are for runs of others."""
    keyless_defaults: Mapping[str, Any] = field(default_factory=dict)
    """What shapes a curve and an experiment has no key for; a plan of ours sets it, a foreign run may not."""
    always: Mapping[str, Any] = field(default_factory=dict)
    """Dotted keys it has no setting for, and what it does."""

    # The vocabulary and the data.
    vocabulary_multiple: int | None = 1
    """What a vocabulary is padded to a multiple of, times the tensor-parallel size; 1 for not at all, None where that
    is not known."""
    mock_data: MockData | None = None
    """What its mock data are; None where it has none."""
    mock_vocabularies: Mapping[int, str | None] = field(default_factory=dict)
    """Sizes it takes where no tokenizer is given, each with whose it then is, if not who usually has that size."""
    takes_tokens_from_tokenizer: bool = True
    """Whether data are text for a tokenizer or its output, and not plain token ids."""
    reads_named_datasets: bool = False
    """Whether a dataset's name does in place of a path."""

    # Seeds and first weights.
    one_seed: bool = False
    """Whether one seed serves the weights and the order of the data."""
    overwritten_seed: int | None = None
    """The seed it sets itself, after whatever a script set before."""
    layout_free_weights: bool = False
    """Whether a seed gives the same weights however they are cut among ranks."""
    init_stds: tuple[float | None, ...] = ()
    """What it starts weights with by default or in its recipes; None for fan-in, () where a first loss does not tell
    to a hundredth."""
    unit_logits: bool = False
    """Whether logits of an untrained model spread by 1 whatever its width, since the output is scaled by it."""

    # FLOPs.
    flop_conventions: tuple[Convention, ...] = ()
    """What its TFLOP/s may count where no log tells the version; () for any."""
    flop_conventions_by_era: Mapping[str, tuple[Convention, ...]] = field(default_factory=dict)
    """The same by the versions that print such lines, where those tell; under "" for any other version's lines."""

    # Its log and what it tells trackers.
    log_interval: int | None = None
    """Steps between its step lines; None where a setting decides."""
    memory_kind: str = ""
    """What the memory in its log measures; "" where it has none, or says it beside the figure."""
    loss_of_last_step: bool = False
    """Whether a record holds the loss of its last step, and not the mean of all it covers."""
    end_marker: bytes = b""
    """The line that says it ended, as a pattern; b"" where there is none."""
    announces_end: bool = False
    """Whether it prints that it ended, and not of how many steps: without that line a log is cut short."""
    tracker_tags: Mapping[str, str] = field(default_factory=dict)
    """Our step field by the tag it tells trackers such as TensorBoard."""
    tracker_zero_based: bool = False
    """Whether it counts steps from 0 there."""
    suite_name: str | None = None
    """Four letters of it in the names of the comparison suite's result files."""

    # How it is launched.
    runs_here: tuple[str, str] | None = None
    """For one that runs without a container: the module it needs on this machine, and the command that installs it."""
    has_launch_script: bool = False
    """Whether its images bring a script that can launch it."""
    shards_weights: bool = False
    """Whether it can share weights over data-parallel ranks."""

    def spelling(self, dotted: str) -> str | None:
        """What it calls a key of the experiment; None where the key means nothing to it."""
        if self.names is None:
            return None if dotted in self.ignores else dotted
        return self.names.get(dotted)

    def stated(self, experiment: Experiment, group: str, *keys: str) -> dict[str, Any]:
        """The experiment's values of keys of a group by its own name of each, the first where it has several."""
        values, names = getattr(experiment, group), self.names or {}
        return {names[f"{group}.{key}"].partition(",")[0]: getattr(values, key) for key in keys}

    def chosen_kernels(self, kernels: Kernels) -> dict[str, Any]:
        """Each kernel as it is asked for, and what it does by itself where it is not."""
        own = self.silent_defaults
        return {key: own.get(f"kernels.{key}") if value is None else value for key, value in kernels}

    def own_names(self) -> set[str]:
        """Every name of its own for a key of the experiment."""
        return {name.strip() for words in (self.names or {}).values() for name in words.split(",")}

    def default(self, dotted: str) -> tuple[bool, Any]:
        """Whether its default of a key is known, and what it is; null is one."""
        tables = (self.silent_defaults, self.model_defaults)
        return next(((True, table[dotted]) for table in tables if dotted in table), (False, None))

    def padded_vocabulary(self, size: int, tensor_parallel_size: int) -> int:
        """The vocabulary as it pads it; as it stands where that is not known."""
        if not self.pads_vocabulary:
            return size
        return accounting.padded_vocab_size(size, (self.vocabulary_multiple or 1) * tensor_parallel_size)

    @property
    def pads_vocabulary(self) -> bool | None:
        """None where that is not known."""
        return None if self.vocabulary_multiple is None else self.vocabulary_multiple > 1

    def conventions_of(self, era: str) -> tuple[Convention, ...]:
        """What the TFLOP/s of its log may count by the versions that print such lines; () where that is not known."""
        by_era = self.flop_conventions_by_era
        return by_era.get(era, by_era.get("", self.flop_conventions))
