"""A code is a promise: one name, one meaning, whichever stage gives it."""

from collections import Counter

from steelyard.cli.explain import reason_codes
from steelyard.reasons import Code, Effect, Reason


def test_a_code_has_a_name_of_its_own_over_all_stages_and_a_meaning() -> None:
    codes = [code for codes in reason_codes().values() for code in codes]
    assert [name for name, count in Counter(code.name for code in codes).items() if count > 1] == []
    assert all(code.name.isidentifier() for code in codes)


def test_a_reason_is_a_document_with_the_values_of_both_sides() -> None:
    code = Code("settings_differ", "{key} differs: {target:,} and {baseline:,}")
    reason = Reason(
        code, {"key": "training.steps", "target": 1000, "baseline": 50}, Effect.BLOCKS, "both", ("training.steps",)
    )
    assert reason.document() == {
        "code": "settings_differ",
        "effect": "blocks",
        "side": "both",
        "keys": ["training.steps"],
        "target": 1000,
        "baseline": 50,
        "accepted": None,
        "message": "training.steps differs: 1,000 and 50",
    }


def test_a_sentence_may_be_a_function_of_the_values() -> None:
    code = Code("few", lambda count: "one" if count == 1 else f"{count} of them")
    assert [Reason(code, {"count": count}).message for count in (1, 3)] == ["one", "3 of them"]
