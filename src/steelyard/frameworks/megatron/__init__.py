"""Megatron-LM, and ROCm's fork of it."""
