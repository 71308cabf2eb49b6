"""The experiment files that come with Steelyard."""

from pathlib import Path

from steelyard.errors import InputError

DESCRIPTIONS = {
    "tiny-llama": "a tiny Llama for a CPU, on data of known entropy",
    "tiny-gpt": "a tiny GPT for a CPU, on data of known entropy",
    "apples-to-apples": "Llama-3.1-8B on 8 H100 (NeMo) and 8 MI300X (Primus), all parameters stated (lint only so far)",
}


def file_name(name: str) -> str:
    """What `init` calls the file it writes."""
    return f"{name}.yaml"


def text(name: str) -> str:
    """The packaged file, as it is written."""
    if name not in DESCRIPTIONS:
        raise InputError(
            f"{name!r} is no packaged config",
            key="NAME",
            value=name,
            expected=f"one of {', '.join(DESCRIPTIONS)}",
            next="steelyard init",
        )
    return path(name).read_text(encoding="utf-8")


def path(name: str) -> Path:
    """Where the packaged file lies."""
    return Path(__file__).parent / file_name(name)
