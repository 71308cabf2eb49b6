"""One corpus, tokenizer or vocabulary under two names."""

from typing import Any

import pytest

from steelyard.comparison import identity
from steelyard.comparison.contract import Agreement, Clause
from steelyard.experiment.keys import KEYS, STATED
from steelyard.experiment.policy import Effect, Metric

BLOCKS, CAVEAT, OPEN, FREE = Effect.BLOCKS, Effect.QUALIFIES, Effect.UNKNOWN, None
SHA, OTHER, TOKENS = "files-sha256:aa", "files-sha256:bb", "tokens-sha256:aa"


def effects(**values: tuple[Any, Any]) -> dict[str, Effect | None]:
    """The effect on convergence by key, of values (target, baseline); None is not recorded."""
    clauses = []
    for key in ("data.fingerprint", "data.dataset", "data.path", "data.tokenizer_fingerprint", "data.tokenizer"):
        target, baseline = values.get(key.partition(".")[2], (None, None))
        known = target is not None and baseline is not None
        status = Agreement.UNKNOWN
        if known:
            status = Agreement.EQUAL if target == baseline else Agreement.DIFFERENT
        policy = {**KEYS, **STATED}[key].policy.effects
        clauses.append(Clause("data", key.partition(".")[2], target, baseline, status, policy))
    return {
        clause.key: clause.governs.get(Metric.CONVERGENCE)
        for clause in identity.settled(clauses)
        if clause.status != Agreement.EQUAL and (clause.target, clause.baseline) != (None, None)
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"path": ("/data/c4", "/shared/c4")}, {"path": OPEN}),
        ({"path": ("/data/c4", "/shared/c4"), "dataset": ("c4", "c4")}, {"path": CAVEAT}),
        ({"path": ("/data/c4", "/shared/c4"), "dataset": ("c4", "pile")}, {"path": FREE, "dataset": BLOCKS}),
        ({"path": ("/data/c4", "/shared/c4"), "dataset": ("c4", None)}, {"path": OPEN, "dataset": FREE}),
        ({"path": ("/data/c4", "/data/c4"), "dataset": ("c4", None)}, {"dataset": FREE}),
        ({"path": ("/data/c4", "/shared/c4"), "fingerprint": (SHA, SHA)}, {"path": FREE}),
        (
            {"path": ("/data/c4", "/data/c4"), "dataset": ("c4", "pile"), "fingerprint": (SHA, SHA)},
            {"dataset": FREE},
        ),
        ({"path": ("/d", "/d"), "dataset": ("c4", "c4"), "fingerprint": (SHA, OTHER)}, {"fingerprint": BLOCKS}),
        ({"path": ("/data/c4", "/shared/c4"), "fingerprint": (SHA, TOKENS)}, {"path": OPEN, "fingerprint": FREE}),
        ({"path": ("/data/c4", None), "dataset": (None, "c4")}, {"path": OPEN, "dataset": OPEN}),
    ],
)
def test_a_corpus_by_content_then_name_then_path(values: dict[str, Any], expected: dict[str, Any]) -> None:
    assert effects(**values) == expected


def test_equal_token_ids_need_no_tokenizer() -> None:
    ids = {"fingerprint": (TOKENS, TOKENS), "tokenizer": ("meta-llama/Llama-3.1-8B", "Qwen/Qwen2-7B")}
    assert effects(**ids) == {"tokenizer": FREE}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("meta-llama/Llama-3.1-8B", "/models/Llama-3.1-8B"), CAVEAT),
        (("meta-llama/Llama-3.1-8B", "/models/llama-3.1-8b/tokenizer.model"), CAVEAT),
        (("meta-llama/Llama-3.1-8B", "/hub/models--meta-llama--Llama-3.1-8B/snapshots/0e9e39f"), CAVEAT),
        (("/a/llama3/tokenizer.model", "/b/llama2/tokenizer.model"), OPEN),
        (("meta-llama/Llama-3.1-8B", "/models/tok"), OPEN),
        (("meta-llama/Llama-3.1-8B", "Qwen/Qwen2-7B"), BLOCKS),
    ],
)
def test_a_tokenizer_by_name_and_by_path(names: tuple[str, str], expected: Effect) -> None:
    assert effects(tokenizer=names) == {"tokenizer": expected}
    by_content = {"tokenizer": names, "tokenizer_fingerprint": (SHA, SHA)}
    assert effects(**by_content) == {"tokenizer": FREE}
    assert effects(**{**by_content, "tokenizer_fingerprint": (SHA, OTHER)})["tokenizer_fingerprint"] == BLOCKS
