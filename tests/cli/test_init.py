"""steelyard init."""

from pathlib import Path
from typing import Any

import pytest

from steelyard.experiment import packaged


def test_the_packaged_configs_are_listed_with_a_line_each(cli: Any) -> None:
    *lines, way_on = cli("init").out.splitlines()
    assert [line.split()[0] for line in lines] == list(packaged.DESCRIPTIONS)
    assert max(map(len, lines)) <= 80
    assert way_on == "next: steelyard init tiny-llama"
    assert [config["name"] for config in cli("init", "--json").document["configs"]] == list(packaged.DESCRIPTIONS)


@pytest.mark.parametrize("name", packaged.DESCRIPTIONS)
def test_a_config_is_written_here_and_never_over_another(cli: Any, name: str) -> None:
    written = cli("init", name, "--json")
    path = Path(packaged.file_name(name))
    assert written.status == 0
    assert written.document["file"] == str(path.resolve())
    path.write_text("mine")
    again = cli("init", name, "--json")
    assert again.status == 2
    assert again.document["error"]["message"].startswith(f"{path} exists already")
    assert path.read_text() == "mine"


def test_every_packaged_file_is_in_the_table() -> None:
    assert packaged.__file__ is not None
    files = {path.name for path in Path(packaged.__file__).parent.iterdir() if path.suffix in (".yaml", ".json")}
    assert files == {packaged.file_name(name) for name in packaged.DESCRIPTIONS}


def test_an_unknown_name_lists_the_known_ones(cli: Any) -> None:
    refused = cli("init", "tiny-lama")
    assert refused.status == 2
    assert "expected one of tiny-llama, tiny-gpt, apples-to-apples" in refused.err
