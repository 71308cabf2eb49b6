"""The packaged comparison holds every row of the table it was asked for from."""

from pathlib import Path

import pytest

from steelyard.configs.choose import Asked, one_reading
from steelyard.configs.files import read_config
from steelyard.experiment import Resolved, packaged, resolve

SAME = {
    "training.seed": 42,
    "training.micro_batch_size": 2,
    "training.sequence_length": 2048,
    "training.gradient_accumulation_steps": 4,
    "training.global_batch_size": 64,
    "training.learning_rate": 3e-4,
    "training.schedule": "cosine",
    "training.min_learning_rate": 0,
    "training.warmup_steps": 50,
    "training.steps": 500,
    "training.weight_decay": 0.1,
    "training.adam_beta1": 0.9,
    "training.adam_beta2": 0.95,
    "training.init_method_std": 0.02,
    "training.recompute": "none",
    "data.seed": 42,
    "data.split": "100,0,0",
    "data.dataset": "bookcorpus",
    "data.tokenizer_type": "HFTokenizer",
    "training.checkpointing": False,
    "training.tracking": False,
    "data.samples": 50000,
    "parallelism.tensor_parallel_size": 1,
    "parallelism.pipeline_parallel_size": 1,
    "parallelism.data_parallel_size": 8,
    "parallelism.sequence_parallel": False,
    "parallelism.context_parallel_size": 1,
    "precision.dtype": "bf16",
    "precision.fp8": None,
    "precision.fp32_residual_connection": False,
    "parallelism.distributed_optimizer": True,
    "precision.grad_reduce_in_fp32": False,
    "parallelism.overlap_grad_reduce": False,
    "parallelism.overlap_param_gather": False,
    "kernels.bias_activation_fusion": True,
    "kernels.bias_dropout_fusion": True,
    "kernels.masked_softmax_fusion": True,
    "kernels.persist_layer_norm": True,
    "kernels.apply_rope_fusion": True,
    "kernels.cross_entropy_loss_fusion": True,
    "kernels.use_flash_attn": True,
}
OWN = {
    "nvidia": {"kernels.nvte_fused_attn": 1, "kernels.nvte_flash_attn": 1, "kernels.enable_primus_turbo": None},
    "amd": {"kernels.enable_primus_turbo": True, "kernels.use_turbo_attention": True, "kernels.nvte_flash_attn": None},
}


@pytest.fixture(params=["nvidia", "amd"])
def side(request: pytest.FixtureRequest, tmp_path: Path) -> Resolved:
    path = tmp_path / "apples-to-apples.yaml"
    path.write_text(packaged.text("apples-to-apples"))
    return resolve(one_reading(read_config(path), Asked(request.param)))


def test_every_row_of_the_table_is_there_and_written_out(side: Resolved) -> None:
    assert side.platform_name is not None
    for key, value in (SAME | OWN[side.platform_name]).items():
        group, name = key.split(".")
        assert getattr(getattr(side.experiment, group), name) == value, key
        if value is not None:
            assert not side.sources[key].is_default, f"{key} is left to a default"


def test_the_platforms_are_those_of_the_table(side: Resolved) -> None:
    found = (side.platform.gpu, side.platform.framework, side.platform.nodes, side.platform.gpus_per_node)
    assert found == {"nvidia": ("h100", "nemo", 1, 8), "amd": ("mi300x", "primus", 1, 8)}[side.platform_name or ""]


def test_a_comment_says_which_accumulation_won() -> None:
    assert "64 sequences = 2 per micro-batch x 8 replicas x 4 accumulation steps" in packaged.text("apples-to-apples")
