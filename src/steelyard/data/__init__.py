"""Shared data: fingerprints of corpora and tokenizers."""
