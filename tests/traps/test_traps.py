"""Every log of the corpus is judged as the case beside it says."""

from pathlib import Path

import pytest

from traps.score import Trap, misses, traps

EVERY = list(traps())


@pytest.mark.parametrize("trap", EVERY, ids=lambda trap: trap.name)
def test_the_verdict_is_right_and_for_the_right_reason(trap: Trap, tmp_path: Path) -> None:
    assert misses(trap, tmp_path / "runs") == []


def test_the_corpus_is_large_enough() -> None:
    assert len({file for trap in EVERY for file in trap.files}) >= 60
    clean = [trap for trap in EVERY if trap.path.name.startswith("clean-")]
    assert len(clean) >= 40
    assert all(trap.asked["verdict"] == "pass" for trap in clean)
