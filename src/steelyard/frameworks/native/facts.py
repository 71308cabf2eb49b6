"""Facts about the built-in PyTorch trainer."""

from steelyard.accounting.flops import Convention
from steelyard.frameworks.facts import TORCH_RESERVED, Facts, MemoryKind

FACTS = Facts(
    name="native",
    names=None,
    silent_defaults={
        "kernels.compile": False,
        "kernels.deterministic": True,
        "kernels.use_flash_attn": True,
        "kernels.cross_entropy_loss_fusion": True,
    },
    ignores=frozenset(
        f"kernels.{key}" for key in ("nvte_fused_attn", "nvte_flash_attn", "enable_primus_turbo", "use_turbo_attention")
    ),
    unnamed=frozenset({"model.preset", "data.dataset", "data.tokenizer", "data.tokenizer_type"}),
    takes_tokens_from_tokenizer=False,
    portable_weights=True,
    init_stds=(0.02,),
    flop_conventions=(Convention.CAUSAL,),
    log_interval=1,
    end_marker=rb"^training finished",
    memory_kinds=(TORCH_RESERVED, MemoryKind("process_rss_peak", of_host=True)),
    suite_name="tran",
    runs_here=("torch", "pip install 'steelyard[train]', or in a checkout pip install '.[train]'"),
)
