"""One corpus, tokenizer or vocabulary under two names: content decides, then declared names, last paths."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from steelyard.experiment.policy import Effect, Effects, Metric

if TYPE_CHECKING:
    from steelyard.comparison.contract import Clause

CORPUS = ("data.fingerprint", "data.dataset", "data.path")
TOKENIZER = ("data.tokenizer_fingerprint", "data.tokenizer")
"""Keys that identify one thing, the most certain first."""
VOCABULARY, EMBEDDED = "model.vocab_size", "model.padded_vocab_size"
GENERATED = ("counting", "uniform", "markov", "fixed_batch")
WITHOUT_CORPUS = ("data.split", "data.tokenizer", "data.tokenizer_fingerprint", "data.fingerprint")
"""Keys without a meaning for generated data."""
_FREE: Effects = {}
_CAVEAT: Effects = {Metric.CONVERGENCE: Effect.QUALIFIES}
_OPEN: Effects = {Metric.CONVERGENCE: Effect.UNKNOWN}
_FILES = ("tokenizer.model", "tokenizer.json", "tokenizer_config.json", "vocab.json", "tokenizer")
"""Names that every tokenizer's files have."""


def settled(clauses: Sequence["Clause"]) -> tuple["Clause", ...]:
    """The clauses, with the effects that remain once content or a name decides."""
    by_key = {clause.dotted: clause for clause in clauses}
    changed = dict([*_corpus(by_key), *_tokenizer(by_key), *_vocabulary(by_key)])
    return tuple(
        replace(clause, governs=changed[clause.dotted]) if clause.dotted in changed else clause for clause in clauses
    )


def same_name(name: str, other: str) -> bool:
    """Whether two names or paths of a tokenizer end in the same name."""
    return _last_name(name) == _last_name(other)


def _last_name(name: str) -> str:
    parts = [part for part in PurePosixPath(name).parts if part.lower() not in _FILES]
    cached = next((part for part in parts if part.startswith("models--")), None)  # models--org--name/snapshots/hash
    last = cached.rpartition("--")[2] if cached else parts[-1] if parts else name
    return last.lower()


def _is_path(name: str) -> bool:
    return name.startswith(("/", ".", "~")) or name.endswith((".model", ".json"))


def _fingerprints(clause: "Clause | None") -> bool | None:
    """Whether two fingerprints are equal; None if one is unknown, or they are of different kinds."""
    if clause is None or not isinstance(clause.target, str) or not isinstance(clause.baseline, str):
        return None
    kinds = clause.target.partition(":")[0], clause.baseline.partition(":")[0]
    return clause.target == clause.baseline if kinds[0] == kinds[1] else None


def _same_tokens(clause: "Clause | None") -> bool:
    """Whether both sides train on the same token ids, whoever made them."""
    return _fingerprints(clause) is True and str(clause and clause.target).startswith("tokens-")


def _corpus(clauses: Mapping[str, "Clause"]) -> Iterator[tuple[str, Effects]]:
    fingerprint, name, path = (clauses.get(key) for key in CORPUS)
    same = _fingerprints(fingerprint)
    if same is not None:
        yield CORPUS[1], _FREE
        yield CORPUS[2], _FREE
        return
    named, placed = _agreement(name), _agreement(path)
    if named is None and placed is None:
        if (name is not None and name.target != name.baseline) or (path is not None and path.target != path.baseline):
            yield CORPUS[0], _FREE  # its name and path are reported as unknown
            yield from ((key, _OPEN) for key in CORPUS[1:])
        return
    yield CORPUS[0], _FREE
    if named is None:
        yield CORPUS[1], _FREE
        yield CORPUS[2], _OPEN
    else:
        yield CORPUS[2], _CAVEAT if named and placed is False else _FREE


def _agreement(clause: "Clause | None") -> bool | None:
    """Whether both sides have the same value; None if a side has none."""
    if clause is None or clause.target is None or clause.baseline is None:
        return None
    return bool(clause.target == clause.baseline)


def _tokenizer(clauses: Mapping[str, "Clause"]) -> Iterator[tuple[str, Effects]]:
    fingerprint, name = (clauses.get(key) for key in TOKENIZER)
    if _same_tokens(clauses.get(CORPUS[0])):
        yield from ((key, _FREE) for key in TOKENIZER)
        return
    if _fingerprints(fingerprint) is not None:
        yield TOKENIZER[1], _FREE
        return
    if name is None or (name.target is None and name.baseline is None):
        return
    same = _agreement(name)
    if same is None:
        if name.status == "different":  # token ids without a named tokenizer may be from the same one
            yield TOKENIZER[1], _OPEN
        return
    yield TOKENIZER[0], _FREE
    if same:
        return
    if same_name(str(name.target), str(name.baseline)):
        yield TOKENIZER[1], _CAVEAT
    elif _is_path(str(name.target)) or _is_path(str(name.baseline)):
        yield TOKENIZER[1], _OPEN


def _vocabulary(clauses: Mapping[str, "Clause"]) -> Iterator[tuple[str, Effects]]:
    """Models that embed equally many tokens are equal, however their tokenizers count."""
    size, embedded = clauses.get(VOCABULARY), clauses.get(EMBEDDED)
    if size is not None and embedded is not None and _agreement(embedded):
        yield VOCABULARY, _CAVEAT if _agreement(size) is False else _FREE
