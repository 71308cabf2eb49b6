"""The configs that come with Steelyard; docs/corrections.md says what was wrong with the ones they are after."""

from pathlib import Path

from steelyard.errors import InputError

DESCRIPTIONS = {
    "tiny-llama": "a tiny Llama for a CPU, on data of known entropy",
    "tiny-gpt": "a tiny GPT for a CPU, on data of known entropy",
    "apples-to-apples": "Llama-3.1-8B on 8 H100 (NeMo) and 8 MI300X (Primus), all parameters stated",
    "gpt3_6.7b_megatron_deepspeed": "GPT-3 6.7B in fp16 on 8 MI300X and 8 H100 (Megatron-DeepSpeed)",
    "mi3xx_megatron_llama_single": "Llama 3.1 8B and 70B on one node of MI300X or MI325X (Megatron)",
    "mi35x_megatron_llama_single": "Llama 3.1 8B and 70B on one node of MI350X or MI355X (Megatron)",
    "mi3xx_megatron_llama_distributed": "Llama 3.1 8B and 70B over nodes of MI300X or MI325X (Megatron)",
    "mi300x_singlenode_llama3_1_70b": "Llama 3.1 70B on one node of MI300X (MaxText)",
    "mi35x_singlenode_llama_3_1_70b": "Llama 3.1 70B on one node of MI355X (MaxText)",
    "mi300x_distributed_llama3_1_70b": "Llama 3.1 70B over nodes of MI300X (MaxText)",
    "mi300x_distributed_llama_3_1_405b": "Llama 3.1 405B over nodes of MI300X (MaxText)",
    "cluster": "a cluster file: the hosts in rank order",
}

CLUSTER = "cluster"
"""The one that is no training config."""


def file_name(name: str) -> str:
    """What `init` calls the file it writes."""
    return f"{name}.json" if name.startswith("mi3") else f"{name}.yaml"


def text(name: str) -> str:
    if name not in DESCRIPTIONS:
        raise InputError(
            f"{name!r} is no packaged config",
            key="NAME",
            value=name,
            expected=f"one of {', '.join(DESCRIPTIONS)}",
            next="steelyard init",
        )
    return path(name).read_text(encoding="utf-8")


def path(name: str) -> Path:
    return Path(__file__).parent / file_name(name)
