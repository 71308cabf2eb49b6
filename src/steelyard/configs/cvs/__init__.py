"""The training configs of ROCm's cluster validation suite: JSON with `config` and `model_params`.

Two families are read: Megatron and JAX (MaxText). A file may have several models and GPUs, numbers as text, disabled
keys (`_NAME`) and placeholders. A selection of such a file becomes the same experiment as a YAML file.
"""
