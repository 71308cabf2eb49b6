"""The packaged configs. docs/explanation/corrections.md lists the corrections to their originals."""

from pathlib import Path

from steelyard.errors import InputError

DESCRIPTIONS = {
    "tiny-llama": "tiny Llama for a CPU, known loss floor",
    "tiny-gpt": "tiny GPT for a CPU, known loss floor",
    "apples-to-apples": "Llama 3.1 8B, H100 (NeMo) vs MI300X (Primus)",
    "gpt3_6.7b_megatron_deepspeed": "GPT-3 6.7B, MI300X vs H100",
    "mi3xx_megatron_llama_single": "Llama 3.1 8B, 70B, one MI300X or MI325X node",
    "mi35x_megatron_llama_single": "Llama 3.1 8B, 70B, one MI350X or MI355X node",
    "mi3xx_megatron_llama_distributed": "Llama 3.1 8B, 70B, MI300X or MI325X nodes",
    "mi300x_singlenode_llama3_1_70b": "Llama 3.1 70B, one MI300X node (MaxText)",
    "mi35x_singlenode_llama_3_1_70b": "Llama 3.1 70B, one MI355X node (MaxText)",
    "mi300x_distributed_llama3_1_70b": "Llama 3.1 70B, MI300X nodes (MaxText)",
    "mi300x_distributed_llama_3_1_405b": "Llama 3.1 405B, MI300X nodes (MaxText)",
    "cluster": "cluster file: hosts in rank order",
}

CLUSTER = "cluster"
"""The only one that is not a training config."""


def file_name(name: str) -> str:
    """The name of the file that `init` writes."""
    return f"{name}.json" if name.startswith("mi3") else f"{name}.yaml"


def text(name: str) -> str:
    if name not in DESCRIPTIONS:
        raise InputError(
            f"{name!r} is not a packaged config",
            key="NAME",
            value=name,
            expected=f"one of {', '.join(DESCRIPTIONS)}",
            next="steelyard init",
        )
    return path(name).read_text(encoding="utf-8")


def path(name: str) -> Path:
    return Path(__file__).parent / file_name(name)
