"""The training configs of ROCm's cluster validation suite: JSON with `config` and `model_params`.

Two families are read, Megatron's and JAX's (MaxText), as people have them: several models and GPUs a file, numbers as
text, keys parked behind an underscore, places left open. A selection of such a file becomes the same experiment that
a YAML file gives.
"""
