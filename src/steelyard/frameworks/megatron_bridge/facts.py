"""Facts about Megatron-Bridge, which can be read but not planned."""

from steelyard.accounting.flops import Convention
from steelyard.accounting.vocabularies import PADDED_TO
from steelyard.frameworks.facts import TORCH_RESERVED, Facts, MockData
from steelyard.frameworks.megatron_family.facts import COUNTING_FLOOR, LOSS_DIGITS

FACTS = Facts(
    name="megatron-bridge",
    silent_defaults={
        "training.micro_batch_size": 2,
        "training.global_batch_size": 32,
        "training.min_learning_rate": 3e-5,
        "training.warmup_steps": 500,
        "training.weight_decay": 0.033,  # 0.1 in the optimizer, but the scheduler starts and ends with this
        "training.adam_epsilon": 1e-8,
        "training.init_method_std": 0.02,
        "data.source": "counting",
        "data.split": "9999,8,2",
    },
    vocabulary_multiple=PADDED_TO,
    mock_data=MockData.COUNTING,
    mock_floor=COUNTING_FLOOR,
    one_seed=True,
    init_stds=(0.02,),
    flop_conventions_by_era={"": (Convention.CAUSAL,)},
    loss_digits=LOSS_DIGITS,
    norm_only_if_clipped=True,
    memory_kind=TORCH_RESERVED.name,
    memory_kinds=(TORCH_RESERVED,),
)
