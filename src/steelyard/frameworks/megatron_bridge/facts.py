"""What is true of Megatron-Bridge, which is read and not planned."""

from steelyard.accounting.flops import Convention
from steelyard.accounting.vocabularies import PADDED_TO
from steelyard.frameworks.facts import Facts, MockData

FACTS = Facts(
    name="megatron-bridge",
    silent_defaults={
        "training.micro_batch_size": 2,
        "training.global_batch_size": 32,
        "training.min_learning_rate": 3e-5,
        "training.warmup_steps": 500,
        "training.weight_decay": 0.033,  # the optimizer says 0.1, the scheduler starts and ends with this
        "training.adam_epsilon": 1e-8,
        "training.init_method_std": 0.02,
        "data.source": "counting",
        "data.split": "9999,8,2",
    },
    vocabulary_multiple=PADDED_TO,
    mock_data=MockData.COUNTING,
    one_seed=True,
    init_stds=(0.02,),
    flop_conventions_by_era={"": (Convention.CAUSAL,)},
    memory_kind="torch_reserved_peak",
)
