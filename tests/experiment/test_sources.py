"""Where a value comes from, as records hold it."""

import pytest

from steelyard.experiment.sources import CONFIG, DEFAULT, Origin, Source


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("config", CONFIG),
        ("default", DEFAULT),
        ("default of megatron", Source(Origin.FRAMEWORK, "megatron")),
        ("preset llama3.1-8b", Source(Origin.PRESET, "llama3.1-8b")),
        ("platform set", Source(Origin.PLATFORM, "set")),
        ("script train_llama3.sh", Source(Origin.SCRIPT, "train_llama3.sh")),
        ("the cluster file", Source(Origin.OTHER, "the cluster file")),
        ("preset", Source(Origin.OTHER, "preset")),
        ("", Source(Origin.OTHER)),
    ],
)
def test_its_text_is_read_and_written_alike(text: str, source: Source) -> None:
    assert (Source.of(text), str(source)) == (source, text)


def test_a_default_is_what_nobody_chose() -> None:
    assert [Source.of(text).is_default for text in ("default", "default of nemo", "set")] == [True, True, False]
