"""Known models by name.

The dimensions of published models are those of their released configs. tests/accounting compares the resulting
parameter counts with the published ones.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Any

_LLAMA_31 = {
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}
_QWEN_25 = {
    "vocab_size": 152064,
    "max_position_embeddings": 131072,
    "rope_theta": 1000000.0,
    "norm_epsilon": 1e-6,
    "qkv_bias": True,
}


def _model(
    architecture: str, layers: int, hidden: int, ffn: int, heads: int, kv_heads: int, **others: Any
) -> dict[str, Any]:
    is_gpt = architecture == "gpt"
    return {
        "architecture": architecture,
        "num_layers": layers,
        "hidden_size": hidden,
        "ffn_hidden_size": ffn,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": hidden // heads,
        "norm_epsilon": 1e-5,
        "qkv_bias": is_gpt,
        "tied_embeddings": is_gpt,
        **others,
    }


PRESETS: dict[str, dict[str, Any]] = {
    "llama3.1-8b": _model("llama", 32, 4096, 14336, 32, 8, **_LLAMA_31),
    "llama3.1-70b": _model("llama", 80, 8192, 28672, 64, 8, **_LLAMA_31),
    "llama3.1-405b": _model("llama", 126, 16384, 53248, 128, 8, **_LLAMA_31),
    "qwen2.5-7b": _model("llama", 28, 3584, 18944, 28, 4, **_QWEN_25),
    "gpt3-6.7b": _model("gpt", 32, 4096, 16384, 32, 32, vocab_size=50304, max_position_embeddings=2048),
    "tiny-llama": _model("llama", 2, 64, 192, 4, 2, vocab_size=128, max_position_embeddings=512, rope_theta=10000.0),
    "tiny-gpt": _model("gpt", 2, 64, 256, 4, 4, vocab_size=128, max_position_embeddings=512),
}
"""The vocabulary of gpt3-6.7b is GPT-2's 50257 padded to a multiple of 128, as Megatron does on one tensor rank."""


def preset_of(name: str) -> str | None:
    """The preset of a name in any notation: llama3_1_8b means llama3.1-8b."""
    return next((preset for preset in PRESETS if _plain(preset) == _plain(name)), None)


_SIZES = ("num_layers", "hidden_size", "ffn_hidden_size")
_DIMENSIONS = (*_SIZES, "architecture", "num_attention_heads", "num_key_value_heads", "head_dim")
"""What makes a model that of a preset: its vocabulary and positions may differ."""


def preset_of_size(model: Mapping[str, Any]) -> str | None:
    """The only preset with these dimensions; None if there are several or none, or if its sizes are not all known."""
    known = {key: model[key] for key in _DIMENSIONS if key in model}
    fitting = [name for name, preset in PRESETS.items() if all(preset[key] == value for key, value in known.items())]
    return fitting[0] if len(fitting) == 1 and all(key in known for key in _SIZES) else None


def nearest_preset(name: str) -> str | None:
    """The preset that a misspelled name resembles; None if it is clearly another model."""
    near = difflib.get_close_matches(_plain(name), map(_plain, PRESETS), n=1, cutoff=0.8)
    return preset_of(near[0]) if near else None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().removeprefix("meta-llama/"))
