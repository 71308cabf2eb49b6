"""Reasons of a comparison: each code with its sentence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from steelyard.comparison.phrases import plural, rounded
from steelyard.reasons import Code, Effect, Reason, SideName

_MOST_HOSTS = 3
"""Hosts that a sentence names."""
_MOST_ARGUMENTS = 6
"""Arguments that a sentence names; JSON has them all."""


def because(code: Code, effect: Effect, side: SideName, /, *keys: str, **values: Any) -> Reason:
    """A reason of a ruling or a ratio."""
    return Reason(code, values, effect, side, keys)


def of_keys(reason: Reason, keys: tuple[str, ...]) -> Reason:
    """SETTINGS_UNKNOWN about some of its keys."""
    return replace(reason, keys=keys, values={**reason.values, "keys": keys})


def sentence(reason: Reason, message: str | None = None) -> str:
    """The message of a ruling's reason, or another in its place; a caveat is marked as one."""
    return f"{'caveat: ' * (reason.effect == Effect.CAVEAT)}{message or reason.message}"


def counted(reason: Reason) -> str:
    """A short form of SETTINGS_UNKNOWN."""
    more = len(reason.keys) - 1
    settings = f"{reason.keys[0]}{f' and {more:,} more settings' * (more > 0)}"
    return reason.with_acceptance(f"{settings} {'are' if more else 'is'} not recorded for {reason.values['sides']}")


def shown(value: Any) -> str:
    """The value of a setting."""
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
    """`used one host (g1); other hosts may differ`."""
    more = f" and {len(hosts) - _MOST_HOSTS} more" if len(hosts) > _MOST_HOSTS else ""
    count = "one host" if len(hosts) == 1 else f"the same {len(hosts)} hosts"
    return f"used {count} ({', '.join(hosts[:_MOST_HOSTS])}{more}); other hosts may differ"


def _setting_differs(key: str, target: Any, baseline: Any, called: Sequence[str]) -> str:
    if key == "training.tokens_per_step":
        return f"{_batch_sizes(called)} ({shown(target)} and {shown(baseline)} tokens per step)"
    return f"{key} differs: {shown(target)} on {called[0]}, {shown(baseline)} on {called[1]}"


def _arguments_differ(target: Mapping[str, str], baseline: Mapping[str, str], called: Sequence[str]) -> str:
    """`arguments differ (a100, h100): attention_backend (auto, flash), num_workers (2, 8) and 3 more`."""
    named = [f"{name} ({target[name]}, {baseline[name]})" for name in list(target)[:_MOST_ARGUMENTS]]
    more = f" and {len(target) - _MOST_ARGUMENTS} more" if len(target) > _MOST_ARGUMENTS else ""
    return f"arguments without a rule differ ({', '.join(called)}): {', '.join(named)}{more}"


def _batch_sizes(called: Sequence[str]) -> str:
    return f"{called[0]} and {called[1]} use different batch sizes"


def _settings_unknown(keys: Sequence[str], sides: str) -> str:
    """`training.{steps, seed}, data.path are not recorded for h100`."""
    groups: dict[str, list[str]] = {}
    for dotted in keys:
        group, _, key = dotted.partition(".")
        groups.setdefault(group, []).append(key)
    braced = {group: names[0] if len(names) == 1 else f"{{{', '.join(names)}}}" for group, names in groups.items()}
    settings = ", ".join(f"{group}.{names}" for group, names in braced.items())
    return f"{settings} {'is' if len(keys) == 1 else 'are'} not recorded for {sides}"


def _step_tokens_differ(target: float, baseline: float, called: Sequence[str]) -> str:
    tokens = f"{rounded(target)} and {rounded(baseline)} tokens per step, by rate x step time"
    return f"{_batch_sizes(called)} ({tokens})"


def _clocks_differ(target: float | None, baseline: float | None, called: Sequence[str]) -> str:
    sides = [(side, factor) for side, factor in zip(called, (target, baseline), strict=True) if factor is not None]
    times = " and ".join(f"{factor:.4g} times the reported time on {side}" for side, factor in sides)
    return f"by the timestamps in the logs, a step takes {times}"


def _learning_rates_differ(step: int, target: float, baseline: float, more: int, called: Sequence[str]) -> str:
    rates = f"{target:.4g} on {called[0]}, {baseline:.4g} on {called[1]}"
    return f"learning rates differ at step {step:,}{f' and {more:,} more' if more else ''} ({rates})"


def _on_both_sides(runs: Sequence[str]) -> str:
    return f"both sides contain the same {'run' if len(runs) == 1 else 'runs'}: {', '.join(sorted(runs))}"


def _memory_read_early(side: str, after: int | None, last: int) -> str:
    when = f"after step {after:,}" if after is not None else "before the first step"
    return f"memory of {side} was measured {when} of {last:,}; the peak may be higher"


def _different_days(alone: int, runs: int, days: Sequence[Sequence[str]], called: Sequence[str]) -> str:
    if alone < runs:
        what = f"{plural(alone, 'run')} of {runs} ran without a run of the other side within hours"
    elif days[0] == days[1]:
        what = f"{called[0]} and {called[1]} ran hours apart"
    else:
        spans = [first if first == last else f"{first} to {last}" for first, last in days]
        what = f"{called[0]} ran on {spans[0]}, {called[1]} on {spans[1]}"
    return f"{what}: if the machines changed in between, the ratio includes that"


def _of_run(template: str) -> Callable[..., str]:
    """A sentence that ends with the name of the run, where a side has several."""

    def render(run: str | None = None, **values: Any) -> str:
        return template.format(**values) + (f" ({run})" if run else "")

    return render


# What rules a comparison.
SETTING_DIFFERS = Code("setting_differs", _setting_differs)
"""The two sides have different values of a setting that matters for this comparison."""
ARGUMENTS_DIFFER = Code("arguments_differ", _arguments_differ)
"""Both logs print these arguments with different values, and no rule says whether they matter."""
IDENTITY_UNKNOWN = Code(
    "identity_unknown",
    lambda key, target, baseline, called: (
        f"{key} is {shown(target)} on {called[0]}, {shown(baseline)} on {called[1]}; whether they are equal is unknown"
    ),
)
"""Two paths may be one corpus or tokenizer: declare its name or its fingerprint (`steelyard data fingerprint`)."""
SETTINGS_UNKNOWN = Code("settings_unknown", _settings_unknown)
"""Settings that matter for this comparison are unknown on one or both sides."""
SETTINGS_ASSUMED = Code(
    "settings_assumed", lambda settings, side: f"{', '.join(settings)} assumed for {side}, not recorded"
)
"""The user supplied settings that a run does not record (`--assume`)."""
SETTINGS_OVERRIDDEN = Code(
    "settings_overridden", lambda settings, side: f"settings of {side} replace those of its log: {', '.join(settings)}"
)
"""The user replaced settings of a log when the run was imported (`ingest --override`)."""
RUNS_DIFFER = Code(
    "runs_differ",
    lambda key, runs, run_values: (
        f"{key} differs: {shown(run_values[0])} in {runs[0]}, {shown(run_values[1])} in {runs[1]}"
    ),
)
"""Two runs that should be alike have different values of a setting."""
PARTLY_KNOWN = Code("partly_known", "{key} is recorded for {known} but not for {unknown}")
"""A setting is known for one run of a group and unknown for another."""
CHECK_FAILED = Code("check_failed", "{check} fails for {run}: {finding}")
"""A run fails a check of its verdict."""
CHECK_FAILED_MATCHED = Code("check_failed_matched", f"{CHECK_FAILED.sentence} (blocks in matched mode)")
"""A run fails a check of its verdict, which is a reason to refuse in matched mode."""
FIGURES_CONTRADICT = Code("figures_contradict", "figures of {run} contradict each other ({check}): {finding}")
"""The figures of a run contradict each other."""
CHECK_UNKNOWN = Code("check_unknown", "{check} is unknown for {run}: {finding}")
"""The result of a check is unknown for a run."""
STEP_TOKENS_DIFFER = Code("own_step_tokens_differ", _step_tokens_differ)
"""Reported rate times step time gives a different number of tokens per step on each side."""
CLOCKS_DIFFER = Code("clocks_differ", _clocks_differ)
"""The timestamps of the logs give a different speedup than the reported step times."""
BATCHES_DIFFER = Code(
    "batches_differ",
    lambda step, target, baseline, called: (
        f"{_batch_sizes(called)} ({target:,.0f} and {baseline:,.0f} tokens at step {step:,})"
    ),
)
"""A step that both sides recorded has a different number of tokens on each."""
LEARNING_RATES_DIFFER = Code("learning_rates_differ", _learning_rates_differ)
"""The recorded learning rates are not from the same schedule."""
SAMPLES_CONTRADICT = Code("samples_contradict", "the sample counter of {run} contradicts its batch size: {event}")
"""The sample counter of a log contradicts the batch size it states."""
SETTING_CHANGED = Code("setting_changed", "a setting of {run} changed during training: {event}")
"""A setting changed in the middle of the steps that the comparison uses."""
RUN_ON_BOTH_SIDES = Code("run_on_both_sides", _on_both_sides)
"""The target and the baseline contain the same run or a copy of it."""

# What a comparison needs from each side.
TIMES_MISSING = Code("times_missing", "{run} has no step times and no rates")
"""A run has neither step times nor rates."""
CLOCK_CONTRADICTS = Code(
    "clock_contradicts",
    "by the timestamps in its log, a step of {run} takes {ratio:.3g} times the reported time",
)
"""The timestamps of a log contradict its reported step times."""
TOO_FEW_STEADY_STEPS = Code(
    "too_few_steady_steps",
    lambda run, steps, least: f"{run} has {plural(steps, 'step')} after the warm-up, at least {least} needed",
)
"""A run has too few steps after the warm-up."""
TOO_FEW_STEADY_RECORDS = Code(
    "too_few_steady_records",
    lambda run, records, least: f"{run} has {plural(records, 'record')} after the warm-up, at least {least} needed",
)
"""A run has too few records after the warm-up."""
MEMORY_BEFORE_TRAINING = Code(
    "memory_before_training", "memory of {side} was measured before the first step, so its peak is unknown"
)
"""Memory was measured before the first step, so it is not a peak."""
OUT_OF_MEMORY = Code("out_of_memory", "{run} ran out of memory, so the memory it needs is unknown")
"""A run ran out of memory, so the memory it needs is unknown."""
FORMULAS_DIFFER = Code(
    "formulas_differ",
    lambda runs, **_: (
        f"the FLOPs of {' and '.join(runs)} are counted by their framework's own formula, so MFUs do not compare; "
        "compare tokens/s"
    ),
)
"""Some FLOPs could not be computed by our formula, and the two sides use different formulas of their own."""
FIGURE_MISSING = Code("figure_missing", "{figure} of {run} is unknown: {why}")
"""A run lacks the figure to compare."""

# What scaling needs from runs on different node counts.
NODE_SIZES_DIFFER = Code(
    "node_sizes_differ", "GPUs per node differ: {target} on {called[0]}, {baseline} on {called[1]}"
)
"""The nodes do not have the same number of GPUs."""
SCALING_NEITHER = Code(
    "scaling_neither",
    "tokens per step are {target:,} on {called[0]} and {baseline:,} on {called[1]}: constant neither per GPU "
    "(weak scaling) nor in total (strong scaling)",
)
"""Tokens per step are neither constant in total (strong scaling) nor per GPU (weak scaling)."""
SCALING_UNKNOWN = Code("scaling_unknown", "tokens per step are unknown or vary within a run")
"""Tokens per step are unknown or vary, so the kind of scaling is unknown."""

# What limits a ratio.
RUNS_DO_NOT_VARY = Code(
    "runs_do_not_vary", "all runs of {side} have identical figures: the figures are rounded, or the runs are copies"
)
"""The runs of a side have equal figures: they are rounded, or copies."""
NOT_IN_TURNS = Code(
    "not_in_turns", "one side ran after the other: if the host changed its speed in between, the ratio includes that"
)
"""One side ran after the other, so the ratio includes any change of the machine in between. Run both in turns."""
DIFFERENT_DAYS = Code("different_days", _different_days)
"""Runs have no run of the other side near in time, so the ratio includes any change of the machines in between."""
RUN_LENGTHS_DIFFER = Code(
    "run_lengths_differ", "runs differ in length, {shortest:,} to {longest:,} steps: warm-up and heat weigh unequally"
)
"""The runs have different numbers of steps. Set the same training.steps on both sides."""
WARM_UP_REMAINS = Code(
    "warm_up_remains",
    "step times still fall inside the steady window, more on one side: the ratio may settle near {settled:.4g}",
)
"""Step times still fall by more on one side than on the other. The interval covers both ratios. Train more steps."""
LATER_LOOK = Code(
    "later_look",
    "look {look} at a growing set of runs: claims and the CI allow for the earlier looks (error {error:.2g} of 0.05)",
)
"""An earlier comparison used part of these runs. Each look adds a chance of error, so later looks are stricter."""
SAME_HOSTS = Code("same_hosts", lambda side, hosts: f"all runs of {side} {made_on(hosts)}")
"""All runs used the same hosts; other hosts may differ."""
TIMES_UNSETTLED = Code("times_unsettled", "step times of {run} had not settled: train more steps")
"""The step times of runs had not settled. They stay in; their windows are the second halves."""
MEMORY_READ_EARLY = Code("memory_read_early", _memory_read_early)
"""Memory was measured early in the run, so the peak may be higher."""

# Why there is no time to a loss, no energy or no cost.
CURVES_NOT_COMPARABLE = Code("curves_not_comparable", "the loss curves are not comparable")
"""The loss curves are not comparable."""
RATES_NOT_COMPARABLE = Code(
    "rates_not_comparable",
    lambda status: "it is unknown whether the rates are comparable" if status == "unknown" else "rates not comparable",
)
"""The rates are not comparable, or it is unknown whether they are."""
NO_COMMON_LOSS = Code("no_common_loss", "{why}")
"""The runs do not reach a common loss."""
TOKENS_UNKNOWN = Code("tokens_unknown", "tokens per step are unknown")
"""The number of tokens per step is unknown."""
RATE_MISSING = Code("rate_missing", "at least one run has no rate")
"""A run has no rate."""
ENERGY_NO_TELEMETRY = Code("energy_no_telemetry", _of_run("no power telemetry"))
"""The run has no power telemetry."""
ENERGY_STEPS_UNDATED = Code(
    "energy_steps_undated", _of_run("the steps have no timestamps, so telemetry cannot be matched with them")
)
"""The steps have no timestamps, so telemetry cannot be matched with them."""
ENERGY_OTHER_GPUS = Code(
    "energy_other_gpus",
    lambda devices, gpus, run=None: _of_run(
        f"telemetry covers {plural(devices, 'GPU')}, the run used {gpus if gpus else 'an unknown number'}"
    )(run),
)
"""Telemetry covers a different number of GPUs than the run used."""
ENERGY_GAP = Code(
    "energy_gap",
    _of_run("no power sample of {device} on {node} for {gap:.3g} s of the {steady:.3g} s steady window"),
)
"""Telemetry has a gap too long to compute the mean power."""
ENERGY_IMPLAUSIBLE = Code(
    "energy_implausible", _of_run("telemetry has an impossible {watts:.3g} W of {device} on {node}")
)
"""Telemetry contains a power that no GPU draws."""
COST_NO_PRICES = Code("cost_no_prices", "no price sheet was given (--prices FILE)")
"""No price sheet was given."""
COST_GPU_NOT_IN_CATALOG = Code(
    "cost_gpu_not_in_catalog", _of_run("{gpu} is not in the GPU catalog, whose names price sheets use")
)
"""The GPU is not in the catalog, whose names price sheets use."""
COST_GPU_UNKNOWN = Code("cost_gpu_unknown", _of_run("the GPU is unknown"))
"""The GPU is unknown."""
COST_NO_PRICE = Code("cost_no_price", _of_run("the price sheet has no price for {gpu}"))
"""The price sheet has no price for the GPU."""
COST_GPU_COUNT_UNKNOWN = Code("cost_gpu_count_unknown", _of_run("the number of GPUs is unknown"))
"""The number of GPUs is unknown."""
