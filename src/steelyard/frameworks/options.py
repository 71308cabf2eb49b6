"""What a platform's options may not say: what the experiment says already."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from steelyard.experiment.case import Case
from steelyard.frameworks.planner import Refusal

FREE = frozenset(
    {
        "num_workers",
        "distributed_timeout_minutes",
        "eval_interval",
        "eval_iters",
        "stderr_sink_level",
        "disable_wandb",
        "disable_mlflow",
        "trainer.limit_val_batches",
        "trainer.limit_test_batches",
    }
)
"""What a plan states for itself and a site may change: none of it is the experiment's."""


def without_options(case: Case) -> Case:
    """The case as its plan is before the platform's options."""
    platform = case.resolved.platform.model_copy(update={"options": {}})
    return replace(case, resolved=replace(case.resolved, platform=platform))


def option_refusals(options: Mapping[str, Any], stated: Collection[str], title: str) -> Iterator[Refusal]:
    """Options under names that the plan states itself: the last of two would win, and the plan's figures would lie."""
    known = {_bare(name) for name in stated} - FREE
    for name in options:
        if _bare(name) in known:
            yield Refusal(
                "platform.options",
                name,
                f"platform.options has {name}, which the plan states from the experiment",
                f"settings of {title} that the experiment has no word for",
                f"take {name} out, and change the experiment: steelyard explain {_bare(name)}",
            )


def _bare(name: str) -> str:
    return name.lstrip("-").replace("-", "_")
