"""Facts about the Hugging Face Trainer, which can be read but not planned."""

from steelyard.frameworks.facts import TORCH_RESERVED, Facts

FACTS = Facts(
    name="hf-trainer",
    silent_defaults={  # transformers/training_args.py
        "training.seed": 42,
        "training.micro_batch_size": 8,
        "training.gradient_accumulation_steps": 1,
        "training.learning_rate": 5e-5,
        "training.min_learning_rate": 0.0,
        "training.schedule": "linear",
        "training.warmup_steps": 0,
        "training.weight_decay": 0.0,
        "training.adam_beta1": 0.9,
        "training.adam_beta2": 0.999,
        "training.adam_epsilon": 1e-8,
        "training.clip_grad_norm": 1.0,
        "training.recompute": "none",
        "precision.dtype": "fp32",
        "data.seed": 42,
    },
    any_loss=True,
    memory_kind=TORCH_RESERVED.name,  # of ms-swift: torch.cuda.max_memory_reserved
    memory_kinds=(TORCH_RESERVED,),
    end_marker=rb"['\"]train_runtime['\"]:",
)
