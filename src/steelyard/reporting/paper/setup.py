"""What was trained on what: the model, the settings and the platforms of a paper, a column per platform."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from steelyard.accounting.flops import parameters
from steelyard.campaign.suite_cells import model_of
from steelyard.comparison.codes import shown
from steelyard.comparison.phrases import listed, plural
from steelyard.experiment.presets import PRESETS
from steelyard.frameworks.logs.settings import VERSION
from steelyard.reporting.curves import number
from steelyard.reporting.paper import Block, PaperTable, Paragraph, Ref
from steelyard.verdict import Subject

UNKNOWN = "not recorded"
_MOST_VALUES = 6


@dataclass(frozen=True, slots=True)
class Column:
    """A platform: what it is called, and all runs on it."""

    name: str
    subjects: Sequence[Subject]


def setup_blocks(columns: Sequence[Column]) -> list[Block]:
    """The model, then a table of the settings and one of the platforms."""
    subjects = [subject for column in columns for subject in column.subjects]
    several = len(columns) > 1
    sides = f" of {'both sides' if len(columns) == 2 else 'all platforms'}" if several else ""
    settings = _table("settings", f"Training settings{sides}, as recorded.", _SETTINGS, columns)
    platforms = _table("platforms", f"Platform{'s' * several}.", _PLATFORM, columns)
    lists: list[str | Ref] = [
        Ref("Table", "settings"),
        " lists the settings of the training as the runs recorded them. ",
    ]
    if not settings.rows:
        lists = ["The runs did not record the settings of the training. "]
    where = Paragraph([*lists, Ref("Table", "platforms"), f" lists the platform{'s' * several}."])
    return [*_models(subjects), where, *([settings] if settings.rows else []), platforms]


def model_names(subjects: Iterable[Subject]) -> list[str]:
    return list(_by_model(subjects))


def model_name(subject: Subject) -> str:
    """The preset that was stated or has these dimensions; else the experiment, or for a log layers x hidden size."""
    known, manifest = model_of(subject), subject.run.manifest
    if known not in PRESETS and manifest.ingested is None:
        known = manifest.experiment.name or known
    return known or "a model without a name"


def distinct(values: Iterable[str | None]) -> str:
    """Different values in one cell; unknown ones are left out."""
    known = list(dict.fromkeys(value for value in values if value is not None))
    if len(known) > _MOST_VALUES:
        return f"{len(known)} values"
    return ", ".join(known) or UNKNOWN


def counted(value: int) -> str:
    """A number of parameters: `8.03 billion`, `124 million`."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:.3g} {word}"
    return f"{value:,}"


def _by_model(subjects: Iterable[Subject]) -> dict[str, Subject]:
    """The first run of each model."""
    models: dict[str, Subject] = {}
    for subject in subjects:
        models.setdefault(model_name(subject), subject)
    return models


def _models(subjects: Sequence[Subject]) -> Iterator[Block]:
    """A sentence for one model, a table for several."""
    models = _by_model(subjects)
    if len(models) == 1:
        ((name, subject),) = models.items()
        called = name if name in PRESETS else f"The model of {name}"
        yield Paragraph([f"{called} {_dimensions(subject)}"])
        return
    yield Paragraph([f"We train {len(models)} decoder-only Transformers; ", Ref("Table", "models"), " lists them."])
    columns = ["Model", "Layers", "Hidden size", "Feed-forward size", "Heads (KV)", "Vocabulary", "Parameters"]
    rows = [[name, *_row(subject)] for name, subject in models.items()]
    yield PaperTable("models", "Dimensions of the models.", columns, rows, words=(0,))


def _row(subject: Subject) -> list[str]:
    keys = ("num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "vocab_size")
    layers, hidden, ffn, heads, vocabulary = (_whole(subject, f"model.{key}") or UNKNOWN for key in keys)
    if groups := _whole(subject, "model.num_key_value_heads"):
        heads = f"{heads} ({groups})"
    model = subject.model
    return [layers, hidden, ffn, heads, vocabulary, counted(parameters(model).total) if model else "unknown"]


def _dimensions(subject: Subject) -> str:
    """`is a decoder-only Transformer with 8.03 billion parameters: 32 layers, …`; without what is not recorded."""
    parts = [
        _part(subject, "num_layers", "{} layers"),
        _part(subject, "hidden_size", "a hidden size of {}"),
        _part(subject, "ffn_hidden_size", "a feed-forward size of {}"),
        _part(subject, "num_attention_heads", "{} attention heads"),
        _grouped(subject),
        _part(subject, "vocab_size", "a vocabulary of {} tokens"),
    ]
    known = [part for part in parts if part]
    size = f" with {counted(parameters(subject.model).total)} parameters" if subject.model else ""
    if not known:
        return "has dimensions that were not recorded."
    return f"is a decoder-only Transformer{size}: {listed(known)}."


def _part(subject: Subject, key: str, words: str) -> str:
    value = _whole(subject, f"model.{key}")
    return words.format(value) if value else ""


def _grouped(subject: Subject) -> str:
    """The key-value heads, where they are fewer."""
    heads, groups = (subject.whole(f"model.{key}") for key in ("num_attention_heads", "num_key_value_heads"))
    return f"{groups:,} key-value heads" if heads and groups and groups < heads else ""


def _whole(subject: Subject, dotted: str) -> str | None:
    value = subject.whole(dotted)
    return f"{value:,}" if value is not None else None


_Read = Callable[[Subject], str | None]


def _setting(dotted: str) -> _Read:
    def read(subject: Subject) -> str | None:
        value = subject.value(dotted)
        return None if value is None else shown(value)

    return read


def _pair(first: str, second: str) -> _Read:
    def read(subject: Subject) -> str | None:
        values = [subject.value(key) for key in (first, second)]
        return None if None in values else ", ".join(map(shown, values))

    return read


def _schedule(subject: Subject) -> str | None:
    schedule, least = subject.value("training.schedule"), subject.value("training.min_learning_rate")
    if schedule is None or least is None:
        return None if schedule is None else str(schedule)
    return f"{schedule} to {shown(least)}"


def _precision(subject: Subject) -> str | None:
    return subject.precision


def _seed(subject: Subject) -> str | None:
    seed = subject.value("training.seed")
    return None if seed is None else str(seed)


def _data(subject: Subject) -> str | None:
    names = (subject.value(f"data.{key}") for key in ("dataset", "source", "path"))
    return next((str(name) for name in names if name is not None), None)


SETTING_KEYS = {
    "training.micro_batch_size": "Micro batch size",
    "training.global_batch_size": "Global batch size",
    "training.gradient_accumulation_steps": "Gradient accumulation",
    "training.sequence_length": "Sequence length",
    "training.steps": "Steps",
}
"""Keys and their names in print."""
_SETTINGS: tuple[tuple[str, _Read], ...] = (
    *((name, _setting(key)) for key, name in SETTING_KEYS.items()),
    ("Seed", _seed),
    ("Precision", _precision),
    ("Recomputation", _setting("training.recompute")),
    ("Peak learning rate", _setting("training.learning_rate")),
    ("Schedule", _schedule),
    ("Warm-up steps", _setting("training.warmup_steps")),
    ("Weight decay", _setting("training.weight_decay")),
    ("Adam \N{GREEK SMALL LETTER BETA}1, \N{GREEK SMALL LETTER BETA}2",
     _pair("training.adam_beta1", "training.adam_beta2")),
    ("Gradient clipping", _setting("training.clip_grad_norm")),
    ("Data", _data),
    ("Tokenizer", _setting("data.tokenizer")),
)  # fmt: skip
IN_TABLES = frozenset(
    [
        *SETTING_KEYS, "training.seed", "training.recompute", "training.learning_rate", "training.schedule",
        "training.min_learning_rate", "training.warmup_steps", "training.weight_decay", "training.adam_beta1",
        "training.adam_beta2", "training.clip_grad_norm", "training.tokens_per_step", "precision.dtype",
        "precision.fp8", "data.dataset", "data.source", "data.path", "data.tokenizer", "platform.gpu",
        "platform.nodes", "platform.world_size", "platform.framework", "parallelism.tensor_parallel_size",
        "parallelism.pipeline_parallel_size", "parallelism.context_parallel_size",
        "parallelism.data_parallel_size", "parallelism.fsdp_size",
    ]
)  # fmt: skip
"""Keys that the tables of settings and platforms contain."""


def gpu_name(subject: Subject) -> str | None:
    platform = subject.run.manifest.platform
    if subject.on_cpu:
        return "CPU"
    name = platform.gpu_name or platform.gpu
    return name.upper() if name is not None and subject.gpu is not None and name == subject.gpu.name else name


def platform_words(subjects: Sequence[Subject]) -> str:
    """How many GPUs of which kind."""
    counts = distinct(f"{size:,}" if (size := subject.world_size) is not None else None for subject in subjects)
    names = distinct(map(gpu_name, subjects))
    if names == UNKNOWN or counts == UNKNOWN:
        return "GPUs that are not recorded" if names == UNKNOWN else names
    return f"{counts} \N{MULTIPLICATION SIGN} {names}"


def _memory(subject: Subject) -> str | None:
    size = subject.gpu.usable_gib if subject.gpu else None
    return None if size is None else f"{size:,.5g} GiB"


def _peak(subject: Subject) -> str | None:
    peak = subject.peak_tflops
    return None if peak is None else f"{peak:,.5g} TFLOP/s ({subject.precision})"


def _count(subject: Subject) -> str | None:
    platform = subject.run.manifest.platform
    if platform.world_size is None:
        return None
    nodes = f" ({plural(platform.nodes, 'node')})" if platform.nodes else ""
    return f"{platform.world_size:,}{nodes}"


def _software(subject: Subject) -> str | None:
    reported = subject.run.manifest.software.items()
    versions = [
        version if name == VERSION else f"{name} {version}" for name, version in reported if name not in _NOT_SOFTWARE
    ]
    return ", ".join(versions) or None


_NOT_SOFTWARE = ("device", "ranks", "dtype", "steps")
"""What a program reports next to versions."""
_SIZES = (("TP", "tensor"), ("PP", "pipeline"), ("CP", "context"), ("DP", "data"))


def _layout(subject: Subject) -> str | None:
    sizes = ((short, subject.whole(f"parallelism.{name}_parallel_size")) for short, name in _SIZES)
    known = [f"{short} {size:,}" for short, size in sizes if size is not None]
    shards = subject.whole("parallelism.fsdp_size")
    return ", ".join([*known, *([f"FSDP {shards:,}"] if shards and shards > 1 else [])]) or None


def _hosts(subject: Subject) -> str | None:
    hosts = subject.run.manifest.hosts
    return ", ".join(hosts) or None if len(hosts) <= _MOST_VALUES else f"{len(hosts)} hosts"


def _day(subject: Subject) -> str | None:
    manifest = subject.run.manifest
    undated = manifest.ingested is not None and manifest.ingested.first_moment is None
    return None if undated else manifest.began[:10]


_PLATFORM: tuple[tuple[str, _Read], ...] = (
    ("GPU", gpu_name),
    ("Memory per GPU", _memory),
    ("Dense peak per GPU", _peak),
    ("GPUs", _count),
    ("Parallelism", _layout),
    ("Framework", lambda subject: subject.run.manifest.framework),
    ("Software", _software),
    ("Hosts", _hosts),
    ("Date", _day),
)


def _table(label: str, caption: str, rows: Sequence[tuple[str, _Read]], columns: Sequence[Column]) -> PaperTable:
    """A row per fact that is known for any column."""
    known = []
    for name, read in rows:
        values = [[read(subject) for subject in column.subjects] for column in columns]
        if any(value is not None for own in values for value in own):
            known.append([name, *map(distinct, values)])
    heads = ["", *(column.name for column in columns)] if len(columns) > 1 else ["", "Value"]
    notes = _NOTES if label == "platforms" and any(row[0] == "Parallelism" for row in known) else ()
    return PaperTable(label, caption, heads, known, notes, words=tuple(range(1, len(heads))))


_NOTES = ("TP, PP, CP and DP are the sizes of tensor, pipeline, context and data parallelism.",)


def capacity(subjects: Iterable[Subject]) -> float | None:
    """GiB per GPU; None if unknown, or different."""
    sizes = {subject.gpu.usable_gib if subject.gpu else None for subject in subjects}
    return sizes.pop() if len(sizes) == 1 else None


def share_of(value: float, size: float | None) -> str:
    """`133 (95%)`: a value and its share of a size."""
    return number(value, 4) if not size else f"{number(value, 4)} ({100 * value / size:.0f}%)"
