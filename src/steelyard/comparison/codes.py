"""What a comparison may report of itself, as codes, each with its sentence."""

from collections.abc import Callable, Sequence
from typing import Any

from steelyard.reasons import Code, Effect, Reason, SideName

_MOST_HOSTS = 3
"""Hosts that a sentence names."""


def because(code: Code, effect: Effect, side: SideName, /, *keys: str, **values: Any) -> Reason:
    """A reason of a ruling or a ratio: what it does, whose it is, the keys it is about, and the values it names."""
    return Reason(code, values, effect, side, keys)


def sentence(reason: Reason, message: str | None = None) -> str:
    """What a person reads of a ruling's reason, by its own message or another: a caveat says that it is one."""
    return f"{'qualified: ' * (reason.effect == Effect.CAVEAT)}{message or reason.message}"


def counted(reason: Reason) -> str:
    """How many settings are not known, where there is no room to name them."""
    return f"{len(reason.keys)} keys are not known of {reason.values['whose']}"


def shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return ", ".join(f"{key} {shown(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        return ", ".join(map(shown, value))
    return f"{value:,}" if type(value) is int else str(value)


def made_on(hosts: Sequence[str]) -> str:
    more = f" and {len(hosts) - _MOST_HOSTS} more" if len(hosts) > _MOST_HOSTS else ""
    scope = "that node" if len(hosts) == 1 else "those nodes"
    return f"were made on {', '.join(hosts[:_MOST_HOSTS])}{more}: they speak for {scope}"


def _settings_unknown(keys: Sequence[str], whose: str) -> str:
    """`training.{steps, seed}, data.path are not known of the target`: each group said once."""
    groups: dict[str, list[str]] = {}
    for dotted in keys:
        group, _, key = dotted.partition(".")
        groups.setdefault(group, []).append(key)
    braced = {group: names[0] if len(names) == 1 else f"{{{', '.join(names)}}}" for group, names in groups.items()}
    listed = ", ".join(f"{group}.{names}" for group, names in braced.items())
    return f"{listed} {'is' if len(keys) == 1 else 'are'} not known of {whose}"


def _clocks_differ(target: float | None, baseline: float | None, called: Sequence[str]) -> str:
    sides = [(side, factor) for side, factor in zip(called, (target, baseline), strict=True) if factor is not None]
    times = " and ".join(f"{factor:.4g} times as long as it says on {side}" for side, factor in sides)
    return f"by their own figures the times are not those: by the moments of the logs a step takes {times}"


def _learning_rates_differ(step: int, target: float, baseline: float, more: int) -> str:
    rates = f"{target:.4g} on the target and {baseline:.4g} on the baseline"
    return f"the learning rate at step {step:,} is {rates}{f' and at {more:,} more' if more else ''}"


def _on_both_sides(runs: Sequence[str]) -> str:
    stand = "stand on both sides, and equal themselves" if len(runs) > 1 else "stands on both sides, and equals itself"
    return f"{', '.join(sorted(runs))} {stand}"


def _memory_read_early(whose: str, after: int | None, last: int) -> str:
    when = f"after step {after:,}" if after is not None else "before the first step"
    return f"the memory of {whose} was read {when} of {last:,}, and is the peak up to there"


def _of_run(template: str) -> Callable[..., str]:
    """A sentence that ends with the run it is of, where a side has several."""

    def render(run: str | None = None, **values: Any) -> str:
        return template.format(**values) + (f" ({run})" if run else "")

    return render


# What rules a comparison.
SETTING_DIFFERS = Code(
    "setting_differs",
    lambda key, target, baseline, called: (
        f"{key} differs: {shown(target)} on {called[0]}, {shown(baseline)} on {called[1]}"
    ),
)
"""The two sides have different values of a setting that matters for this comparison."""
SETTINGS_UNKNOWN = Code("settings_unknown", _settings_unknown)
"""Settings that matter for this comparison are unknown on one or both sides."""
RUNS_DIFFER = Code("runs_differ", "{runs[0]} and {runs[1]} differ in {key} ({run_values[0]} and {run_values[1]})")
"""Two runs that should be alike have different values of a setting."""
PARTLY_KNOWN = Code("partly_known", "{key} is known of {known} and not of {unknown}")
"""A setting is known for one run of a group and unknown for another."""
CHECK_FAILED = Code("check_failed", "{run} fails {check}: {finding}")
"""A run fails a check of its verdict."""
CHECK_FAILED_MATCHED = Code("check_failed_matched", "in matched mode {run} fails {check}: {finding}")
"""A run fails a check of its verdict, which is a reason to refuse in matched mode."""
FIGURES_CONTRADICT = Code("figures_contradict", "by its own figures {run} fails {check}: {finding}")
"""The figures of a run contradict each other."""
CHECK_UNKNOWN = Code("check_unknown", "{check} of {run} is not known: {finding}")
"""The result of a check is unknown for a run."""
STEP_TOKENS_DIFFER = Code(
    "own_step_tokens_differ",
    "by their own figures one step is {target:,.0f} tokens on the target and {baseline:,.0f} on the baseline",
)
"""Reported rate times step time gives a different number of tokens per step on each side."""
CLOCKS_DIFFER = Code("clocks_differ", _clocks_differ)
"""The timestamps of the logs give a different speedup than the reported step times."""
BATCHES_DIFFER = Code(
    "batches_differ", "step {step:,} is {target:,.0f} tokens on the target and {baseline:,.0f} on the baseline"
)
"""A step that both sides recorded has a different number of tokens on each."""
LEARNING_RATES_DIFFER = Code("learning_rates_differ", _learning_rates_differ)
"""The recorded learning rates are not from the same schedule."""
SAMPLES_CONTRADICT = Code("samples_contradict", "by its own figures {run}: {event}")
"""The sample counter of a log contradicts the batch size it states."""
SETTING_CHANGED = Code("setting_changed", "by its own figures of {run} {event}")
"""A setting changed in the middle of the steps that the comparison uses."""
RUN_ON_BOTH_SIDES = Code("run_on_both_sides", _on_both_sides)
"""The target and the baseline contain the same run or a copy of it."""

# What a comparison needs of each side.
TIMES_MISSING = Code("times_missing", "{run} tells no step times and no rates")
"""A run has neither step times nor rates."""
CLOCK_CONTRADICTS = Code(
    "clock_contradicts",
    "by its own figures {run}: by the moments of its log a step takes {ratio:.3g} times as long as it says",
)
"""The timestamps of a log contradict its reported step times."""
TOO_FEW_STEADY_STEPS = Code("too_few_steady_steps", "{run} has {steps} steady steps, expected {least} or more")
"""A run has too few steps after the warm-up."""
TOO_FEW_STEADY_RECORDS = Code("too_few_steady_records", "{run} has {records} steady records, expected {least} or more")
"""A run has too few records after the warm-up."""
MEMORY_BEFORE_TRAINING = Code(
    "memory_before_training", "what {whose} says of its memory was read before the first step, and is no peak"
)
"""Memory was measured before the first step, so it is not a peak."""
OUT_OF_MEMORY = Code("out_of_memory", "{run} ran out of memory: what it tells is not what it asked for")
"""A run ran out of memory, so the memory it needs is unknown."""
FIGURE_MISSING = Code("figure_missing", "{run} has no {figure}: {why}")
"""A run lacks the figure to compare."""

# What scaling needs of runs on different node counts.
NODE_SIZES_DIFFER = Code(
    "node_sizes_differ", "the nodes have not as many GPUs each: {target} on {called[0]} and {baseline} on {called[1]}"
)
"""The nodes do not have the same number of GPUs."""
SCALING_NEITHER = Code(
    "scaling_neither",
    "tokens a step are {target:,} on {called[0]} and {baseline:,} on {called[1]}: neither as many a GPU (weak scaling) "
    "nor as many in all (strong scaling)",
)
"""Tokens per step are neither constant in total (strong scaling) nor per GPU (weak scaling)."""
SCALING_UNKNOWN = Code(
    "scaling_unknown", "the tokens of a step are not known of every run, or not the same at every step"
)
"""Tokens per step are unknown or vary, so the kind of scaling is unknown."""

# What limits a ratio.
RUNS_DO_NOT_VARY = Code(
    "runs_do_not_vary", "the runs of {whose} vary in nothing: their figures are rounded, or they are copies"
)
"""The runs of a side have equal figures: they are rounded, or copies."""
NOT_IN_TURNS = Code(
    "not_in_turns",
    "both sides ran on the same hosts one after the other, not in turns: what changed there meanwhile is in it",
)
"""One side ran after the other on the same hosts, so changes of the hosts are part of the ratio."""
SAME_HOSTS = Code("same_hosts", lambda whose, hosts: f"all runs of {whose} {made_on(hosts)}")
"""All runs used the same hosts; other hosts may differ."""
TIMES_UNSETTLED = Code("times_unsettled", "step times of {run} had not settled")
"""The step times of a run had not settled."""
MEMORY_READ_EARLY = Code("memory_read_early", _memory_read_early)
"""Memory was measured early in the run, so the peak may be higher."""

# Why there is no time to a loss, no energy or no cost.
CURVES_NOT_COMPARABLE = Code("curves_not_comparable", "the curves are not comparable")
"""The loss curves are not comparable."""
RATES_NOT_COMPARABLE = Code("rates_not_comparable", lambda status: f"the rates are {status.replace('_', ' ')}")
"""The rates are not comparable, or it is unknown whether they are."""
NO_COMMON_LOSS = Code("no_common_loss", "{why}")
"""The runs do not reach a common loss."""
TOKENS_UNKNOWN = Code("tokens_unknown", "the tokens of a step are not known")
"""The number of tokens per step is unknown."""
RATE_MISSING = Code("rate_missing", "not every run has a rate")
"""A run has no rate."""
ENERGY_NO_TELEMETRY = Code("energy_no_telemetry", _of_run("it has no telemetry of power"))
"""The run has no power telemetry."""
ENERGY_STEPS_UNDATED = Code(
    "energy_steps_undated", _of_run("its steps do not say when they were, so its telemetry cannot be held against them")
)
"""The steps have no timestamps, so telemetry cannot be matched with them."""
ENERGY_OTHER_GPUS = Code(
    "energy_other_gpus",
    lambda devices, gpus, run=None: _of_run(
        f"its telemetry has the power of {devices} GPU{'s' * (devices != 1)}, and it ran on {gpus}"
    )(run),
)
"""Telemetry covers a different number of GPUs than the run used."""
ENERGY_GAP = Code(
    "energy_gap",
    _of_run("{gap:.3g} s of the {steady:.3g} s of steady training have no sample of the power of {device} on {node}"),
)
"""Telemetry has a gap too long to compute the mean power."""
ENERGY_IMPLAUSIBLE = Code(
    "energy_implausible", _of_run("telemetry has {watts:.3g} W for the power of {device} on {node}")
)
"""Telemetry contains a power that no GPU draws."""
COST_NO_PRICES = Code("cost_no_prices", "no price sheet was given (--prices)")
"""No price sheet was given."""
COST_GPU_NOT_IN_CATALOG = Code(
    "cost_gpu_not_in_catalog", _of_run("{gpu} is not in the catalog of GPUs, which prices go by")
)
"""The GPU is not in the catalog, whose names price sheets use."""
COST_GPU_UNKNOWN = Code("cost_gpu_unknown", _of_run("its GPU is not known"))
"""The GPU is unknown."""
COST_NO_PRICE = Code("cost_no_price", _of_run("the price sheet has no {gpu}"))
"""The price sheet has no price for the GPU."""
COST_GPU_COUNT_UNKNOWN = Code("cost_gpu_count_unknown", _of_run("how many GPUs it ran on is not known"))
"""The number of GPUs is unknown."""
