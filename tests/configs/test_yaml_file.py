"""Files that are no experiment are refused in a sentence."""

from pathlib import Path

import pytest

from steelyard.configs.files import read_config
from steelyard.errors import InputError


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"# only a comment\n", "is empty"),
        (b"- a\n- b\n", "is not a mapping"),
        (b"just words", "is not a mapping"),
        (b"a: 1\na: 2\n", 'duplicate key "a"'),
        (b"training: {steps: 1, steps: 2}\n", 'duplicate key "steps"'),
        (b"a: [1, 2\nb: 3\n", "line 2, column 2"),
        (b"a: \x00\xff\xfe", "is not UTF-8 text"),
        (b"\x7fELF\x02\x01\x01\x00", "not a config file"),
        (b"[" * 20000, "not a config file"),
        (b"a: &a [*a", "not a config file"),
        (b"a: !!python/object:os.system x", "not a config file"),
        (b"training: &a {x: *a}", "an alias of itself"),
        (b"steps: !!bool abc", "cannot be read"),
        (b"steps: 1" + b"0" * 400, "bits, expected fewer than 64"),
        (b"x" * (5 * 1024 * 1024), "expected at most"),
    ],
)
def test_what_is_not_an_experiment_is_one_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_config(path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


def test_a_missing_file_says_where_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file, expected a config file; next: steelyard init"):
        read_config(tmp_path / "none.yaml")


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory, expected a config file; next: steelyard init"):
        read_config(tmp_path)
    (tmp_path / "mine.yaml").touch()
    with pytest.raises(InputError, match=r"expected a config file such as .*; next: steelyard lint .*mine.yaml"):
        read_config(tmp_path)
    (tmp_path / "run.json").touch()
    with pytest.raises(InputError, match=f"next: steelyard check {tmp_path}"):
        read_config(tmp_path)


def test_a_misspelled_or_packaged_name_is_corrected(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    with pytest.raises(InputError, match=r"expected a config file such as .*; next: steelyard lint .*mine.yaml"):
        read_config(tmp_path / "mien.yaml")
    with pytest.raises(InputError, match="next: steelyard init tiny-llama"):
        read_config(tmp_path / "tiny-llama.yaml")
