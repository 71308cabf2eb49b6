"""How many parameters a model has, by part."""

from dataclasses import dataclass

from steelyard.experiment.model import Model


@dataclass(frozen=True, slots=True)
class Parameters:
    """Counts of one model. Tied embeddings are counted once, under `embedding`."""

    embedding: int
    positions: int
    attention_per_layer: int
    ffn_per_layer: int
    norms_per_layer: int
    num_layers: int
    final_norm: int
    output: int

    @property
    def per_layer(self) -> int:
        return self.attention_per_layer + self.ffn_per_layer + self.norms_per_layer

    @property
    def total(self) -> int:
        ends = self.embedding + self.positions + self.final_norm + self.output
        return ends + self.num_layers * self.per_layer


def parameters(model: Model, vocab_size: int | None = None) -> Parameters:
    """Count `model`, with its vocabulary padded to `vocab_size` where a framework does so."""
    vocabulary = vocab_size or model.vocab_size
    h, f = model.hidden_size, model.ffn_hidden_size
    q = model.num_attention_heads * model.head_dim
    kv = model.num_key_value_heads * model.head_dim
    gpt = model.architecture == "gpt"
    attention = h * (q + 2 * kv) + q * h
    attention += (q + 2 * kv) if model.qkv_bias else 0
    attention += h if gpt else 0  # the output projection's bias
    ffn = 2 * h * f + f + h if gpt else 3 * h * f
    norm = 2 * h if gpt else h  # LayerNorm has a bias
    return Parameters(
        embedding=vocabulary * h,
        positions=model.max_position_embeddings * h if gpt else 0,
        attention_per_layer=attention,
        ffn_per_layer=ffn,
        norms_per_layer=2 * norm,
        num_layers=model.num_layers,
        final_norm=norm,
        output=0 if model.tied_embeddings else vocabulary * h,
    )


def padded_vocab_size(vocab_size: int, multiple: int) -> int:
    """The vocabulary rounded up to `multiple`: 128 x tensor parallel in the Megatron family, 1 where none is padded."""
    return -(-vocab_size // multiple) * multiple
