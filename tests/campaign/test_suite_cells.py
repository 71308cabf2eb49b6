"""Which runs are repeats of one cell, and which settings are the axes."""

from typing import Any

import pytest

from steelyard.campaign.suite_cells import LOG, ORDER, PLATFORM, REQUIRED, Profile, cells_of, platforms_of
from steelyard.experiment.keys import KEYS, STATED

BATCH, MICRO, LENGTH = "training.global_batch_size", "training.micro_batch_size", "training.sequence_length"
WHOLE: dict[str, Any] = {
    "model": "llama3.1-8b",
    LENGTH: 8192,
    MICRO: 2,
    BATCH: 128,
    "platform.world_size": 8,
    "precision.dtype": "bf16",
}


def profiles(*runs: dict[str, Any], gpu: str | None = "h100", framework: str | None = "megatron") -> list[Profile]:
    """Profiles with other settings than `WHOLE`; `...` removes one."""
    made = []
    for number, settings in enumerate(runs):
        known = {key: value for key, value in (WHOLE | settings).items() if value is not ...}
        made.append(Profile(known, gpu, framework, f"{number}.log"))
    return made


def grouped(runs: list[Profile]) -> tuple[list[str], list[list[int]]]:
    axes, cells = cells_of(runs)
    return axes, [cell.runs for cell in cells]


def test_equal_settings_are_one_cell_without_axes() -> None:
    assert grouped(profiles({}, {}, {})) == ([], [[0, 1, 2]])


def test_the_first_settings_that_tell_all_cells_apart_are_the_axes() -> None:
    runs = profiles({MICRO: 4, BATCH: 64}, {MICRO: 2, BATCH: 32}, {MICRO: 4, BATCH: 64, "training.recompute": "full"})
    assert grouped(runs) == ([MICRO], [[1], [0, 2]])  # only one log contains recompute
    runs = profiles(*({MICRO: micro, "training.recompute": extent} for micro in (4, 2) for extent in ("full", "none")))
    assert grouped(runs) == ([MICRO, "training.recompute"], [[2], [3], [0], [1]])


def test_axes_are_in_one_order_whichever_runs_come_first() -> None:
    settings = [{MICRO: micro, LENGTH: length} for micro in (1, 2) for length in (2048, 8192)]
    assert cells_of(profiles(*settings))[0] == cells_of(profiles(*reversed(settings)))[0] == [LENGTH, MICRO]


def test_platforms_do_not_need_further_axes_for_their_own_best_settings() -> None:
    tensor = "parallelism.tensor_parallel_size"
    runs = profiles({MICRO: 2, tensor: 2}, {MICRO: 4, tensor: 2}) + profiles({MICRO: 2, tensor: 1}, gpu="mi300x")
    assert grouped(runs) == ([PLATFORM, MICRO], [[0], [1], [2]])


@pytest.mark.parametrize("key", REQUIRED)
def test_a_run_without_a_required_setting_is_a_repeat_of_nothing(key: str) -> None:
    _, cells = cells_of(profiles({}, {}, {key: ...}, {key: ...}))
    assert sorted(cell.runs for cell in cells) == [[0, 1], [2], [3]]
    assert [cell.unknown for cell in cells if len(cell.runs) == 1] == [(key,), (key,)]
    values = [tuple(cell.values.items()) for cell in cells]
    assert len(set(values)) == 3


def test_cells_that_no_setting_tells_apart_have_the_axis_log() -> None:
    axes, cells = cells_of(profiles({BATCH: ...}, {BATCH: ...}))
    assert axes == [LOG]
    assert [cell.values for cell in cells] == [{LOG: "0.log"}, {LOG: "1.log"}]


def test_a_setting_that_a_log_lacks_matters_only_where_it_decides() -> None:
    version = "platform.framework_version"
    assert grouped(profiles({version: "2.0"}, {}, {version: "2.0"})) == ([], [[0, 1, 2]])
    runs = profiles({version: "2.0"}, {version: "2.1", MICRO: 4}, {MICRO: 4})
    assert grouped(runs) == ([MICRO], [[0], [1, 2]])
    axes, cells = cells_of(profiles({version: "2.0"}, {version: "2.1"}, {}, {}))
    assert axes == [version]
    assert [(cell.runs, cell.unknown) for cell in cells] == [([0], ()), ([1], ()), ([2, 3], (version,))]


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        ([("h100", "nemo"), ("h100", "nemo")], [None, None]),
        ([("h100", "nemo"), ("mi300x", "megatron")], ["h100", "mi300x"]),
        ([("h100", "nemo"), ("h100", "megatron")], ["nemo", "megatron"]),
        ([(None, "nemo"), (None, "megatron")], ["nemo", "megatron"]),
        ([("h100", "nemo"), ("h100", "megatron"), ("b200", "nemo")], ["h100-nemo", "h100-megatron", "b200"]),
        ([("h100", "nemo"), (None, "nemo")], ["h100", None]),
        ([("h100", "nemo"), ("h100", None), ("b200", None)], ["h100", "h100", "b200"]),
        ([("h100", "nemo"), ("h100", "megatron"), ("h100", None)], ["nemo", "megatron", None]),
    ],
)
def test_a_platform_is_named_by_what_tells_it_apart(runs: list[Any], names: list[str | None]) -> None:
    assert platforms_of([Profile({}, gpu, framework, "") for gpu, framework in runs]) == names


def test_every_key_either_tells_cells_apart_or_may_differ_between_repeats() -> None:
    free = {key for key in (*KEYS, *STATED) if key not in ORDER}
    assert free == {
        *("training.seed", "data.seed", "model.preset", "training.initial_weights"),
        *("data.path", "data.dataset", "data.fingerprint"),
        *("data.tokenizer", "data.tokenizer_fingerprint", "data.tokenizer_type"),
        *("training.tokens_per_step", "data.trained_share", "measurement.memory_kind"),
        *("platform.gpu", "platform.framework", "platform.nodes", "platform.image"),
        *("platform.driver", "platform.power_cap_w", "platform.clock_mhz"),
    }
