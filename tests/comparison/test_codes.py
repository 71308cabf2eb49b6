"""Codes of tiers, diagnoses and campaigns: each is one thing, and says what it means."""

import importlib
from collections import Counter

from steelyard.campaign import learn, suite_matching
from steelyard.comparison import convergence
from steelyard.comparison.diagnoses import DIAGNOSES, Cause
from steelyard.comparison.tiers import TIERS
from steelyard.reasons import codes_in

PACKAGE = "steelyard.comparison"
TIER_MODULES = [importlib.import_module(f"{PACKAGE}.tiers.{name}") for name in TIERS]
DIAGNOSIS_MODULES = [importlib.import_module(f"{PACKAGE}.diagnoses.{name}") for name in DIAGNOSES]


def test_every_code_has_a_name_of_its_own_and_a_meaning() -> None:
    codes = codes_in(convergence, *TIER_MODULES, *DIAGNOSIS_MODULES, suite_matching, learn)
    assert [name for name, count in Counter(code.name for code in codes).items() if count > 1] == []
    assert all(code.name.isidentifier() and meaning.endswith(".") for code, meaning in codes.items())


def test_every_tier_and_every_diagnosis_has_codes() -> None:
    assert all(codes_in(module) for module in TIER_MODULES)
    assert all(isinstance(code, Cause) for code in codes_in(*DIAGNOSIS_MODULES))
    assert {code.name for code in codes_in(*DIAGNOSIS_MODULES)} == {*DIAGNOSES, "degenerate_data"}
