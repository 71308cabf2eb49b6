"""Shared code of the frameworks based on Megatron-LM."""
