"""What holds for every verdict that a test makes."""

import pytest

from steelyard import verdict
from steelyard.verdict import Subject, Verdict


@pytest.fixture(autouse=True)
def codes_are_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is found has a code that `explain` and the page of codes know."""
    declared, judge = set(verdict.codes()), verdict.judge

    def judged(subject: Subject) -> Verdict:
        made = judge(subject)
        assert {result.code for result in (*made.findings, *made.not_applicable)} <= declared
        figures = (made.figures.metric(name) for name in verdict.figures_document(made.figures)["unknown"])
        assert {figure.reason.code for figure in figures if figure.reason} <= declared
        return made

    monkeypatch.setattr(verdict, "judge", judged)
