"""The policy governs every parameter there is."""

from steelyard.comparison.contract import OWN_FIGURES
from steelyard.experiment.experiment import GROUPS, Experiment
from steelyard.experiment.keys import KEYS
from steelyard.experiment.policy import RATES, Effect, Metric
from steelyard.verdict import CHECKS

EFFECTS = {name: key.policy.effects for name, key in KEYS.items()}
OURS = {
    "training.tokens_per_step",
    "platform.world_size",
    "platform.nodes",
    "platform.gpu",
    "platform.framework",
    "platform.framework_version",
    "platform.image",
    "platform.driver",
    "platform.power_cap_w",
    "platform.clock_mhz",
    "measurement.memory_kind",
}


def test_every_key_of_an_experiment_has_a_place_in_the_policy() -> None:
    keys = {
        f"{group}.{key}"
        for group in GROUPS
        for key in Experiment.model_fields[group].annotation.model_fields  # type: ignore[union-attr]
    }
    assert set(KEYS) == keys | OURS


def test_memory_and_flops_are_held_to_everything_throughput_is() -> None:
    for key, effects in EFFECTS.items():
        for metric in RATES:
            if Metric.THROUGHPUT in effects:
                assert effects[metric] == effects[Metric.THROUGHPUT], key


def test_kernels_and_the_seed_are_free() -> None:
    assert all(not effects for key, effects in EFFECTS.items() if key.startswith("kernels.") or key == "training.seed")


def test_rates_never_touch_throughput() -> None:
    for key in ("training.learning_rate", "training.weight_decay", "data.seed"):
        assert EFFECTS[key] == {Metric.CONVERGENCE: Effect.BLOCKS}


def test_own_figures_name_checks_that_exist() -> None:
    assert set(OWN_FIGURES) <= set(CHECKS)
