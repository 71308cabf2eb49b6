"""Megatron's mock data counts 1, 2, 3 …: a model that has learnt to count is left with the ends of documents."""

from collections.abc import Iterator

from steelyard.accounting.loss import MOCK_FLOORS
from steelyard.compare.diagnoses.diagnosis import Diagnosis, Ending, endings
from steelyard.compare.tiers import Pair

CODE, DEGENERATE = "counting_data", "degenerate_data"
FLOOR = MOCK_FLOORS["counting"]
_NO_TEXT = 0.05
"""Nats a token that no text has been learnt to."""
_BELOW = 0.93
_FIXED = ("maxtext",)


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side, found in endings(pair):
        if not all(_collapsed(one) for one in found):
            continue
        end = min(one.mean for one in found)
        where = tuple(one.where for one in found)
        floor = f"ln 4,095 / 2,048 = {FLOOR:.5f}"
        if end < _BELOW * FLOOR:
            yield Diagnosis(
                DEGENERATE,
                side,
                f"the {side}'s data is degenerate: its loss ends at {end:.5f}, below the floor {floor} of Megatron's "
                "counting data, so its document ends are masked, or it repeats, or is one token",
                where,
                "look at the tokens of one batch, and whether `eod_mask_loss` or a pad token masks document ends",
            )
            continue
        still = " and still falls towards it" if any(one.still_falls for one in found) else ""
        yield Diagnosis(
            CODE,
            side,
            f"the {side} learnt Megatron's counting mock data (1, 2, 3 … to the end of a document), whose floor is "
            f"{floor}: it ends at {end:.3g}{still}; that says nothing of learning text, and no seed changes it",
            (*where, f"its first loss is {found[0].first:.5g}: no text is learnt to {_NO_TEXT} nats a token"),
            "look for `mock_data: true` or a missing data path in its configuration",
        )


def _collapsed(one: Ending) -> bool:
    source = one.subject.value("data.source")
    is_text, is_fixed = (
        source in ("tokens", "uniform", "markov", "fixed_batch"),
        one.subject.run.manifest.framework in _FIXED,
    )
    return 0 < one.mean < _NO_TEXT and one.first > 1 and not is_text and not is_fixed
