"""Hugging Face Trainer, and the tools built on it: TRL, LLaMA-Factory, Axolotl, ms-swift."""
