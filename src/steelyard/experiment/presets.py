"""Known models by name.

Dimensions of the published models are those of their makers' released configs; the parameter counts
they imply are held to the published ones in tests/accounting.
"""

from typing import Any

_LLAMA_31_SCALING = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def _llama(layers: int, hidden: int, ffn: int, heads: int, kv_heads: int, **others: Any) -> dict[str, Any]:
    return {
        "architecture": "llama",
        "num_layers": layers,
        "hidden_size": hidden,
        "ffn_hidden_size": ffn,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": hidden // heads,
        "norm_epsilon": 1e-5,
        "qkv_bias": False,
        "tied_embeddings": False,
        **others,
    }


def _llama_31(layers: int, hidden: int, ffn: int, heads: int) -> dict[str, Any]:
    return _llama(
        layers,
        hidden,
        ffn,
        heads,
        8,
        vocab_size=128256,
        max_position_embeddings=131072,
        rope_theta=500000.0,
        rope_scaling=_LLAMA_31_SCALING,
    )


def _gpt(layers: int, hidden: int, heads: int, vocab: int, positions: int) -> dict[str, Any]:
    return {
        "architecture": "gpt",
        "num_layers": layers,
        "hidden_size": hidden,
        "ffn_hidden_size": 4 * hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": hidden // heads,
        "vocab_size": vocab,
        "max_position_embeddings": positions,
        "norm_epsilon": 1e-5,
        "qkv_bias": True,
        "tied_embeddings": True,
    }


PRESETS: dict[str, dict[str, Any]] = {
    "llama3.1-8b": _llama_31(32, 4096, 14336, 32),
    "llama3.1-70b": _llama_31(80, 8192, 28672, 64),
    "llama3.1-405b": _llama_31(126, 16384, 53248, 128),
    "qwen2.5-7b": _llama(
        28,
        3584,
        18944,
        28,
        4,
        vocab_size=152064,
        max_position_embeddings=131072,
        rope_theta=1000000.0,
        norm_epsilon=1e-6,
        qkv_bias=True,
    ),
    "gpt3-6.7b": _gpt(32, 4096, 32, vocab=50304, positions=2048),
    "tiny-llama": _llama(2, 64, 192, 4, 2, vocab_size=128, max_position_embeddings=512, rope_theta=10000.0),
    "tiny-gpt": _gpt(2, 64, 4, vocab=128, positions=512),
}
"""gpt3-6.7b's vocabulary is GPT-2's 50257 padded to a multiple of 128, as Megatron trains it on one tensor rank."""
