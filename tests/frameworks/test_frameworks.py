"""Every framework of the table is under the same contract."""

from pathlib import Path

import pytest

from steelyard import frameworks
from steelyard.errors import InputError
from steelyard.frameworks import MODULES, framework, launched

NOT_FRAMEWORKS = {
    "__init__",
    "framework",
    "megatron_family",
    "megatron_script",
    "native_log",
    "options",
    "parity",
    "yaml_text",
}


def test_the_table_and_the_folder_hold_the_same_frameworks() -> None:
    assert frameworks.__file__ is not None
    files = {path.stem for path in Path(frameworks.__file__).parent.glob("*.py")} - NOT_FRAMEWORKS
    assert files == {name.replace("-", "_") for name in MODULES}


@pytest.mark.parametrize("name", MODULES)
def test_a_framework_answers_to_its_name(name: str) -> None:
    assert framework(name).name == name


def test_one_that_can_only_be_named_says_so() -> None:
    with pytest.raises(
        InputError, match="'torchtitan' can be named in a file, but not planned yet, expected one of na"
    ):
        framework("torchtitan")


def test_one_that_is_only_planned_says_so() -> None:
    with pytest.raises(InputError, match="'nemo' is planned here, but not launched yet, expected one of native"):
        launched("nemo")
