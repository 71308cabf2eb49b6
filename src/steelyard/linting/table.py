"""The rules: one file per rule, one name in the table."""

import importlib
from collections.abc import Iterator
from types import ModuleType

RULES = (
    "sy106_unnamed_data_path",
    "sy107_refused_by_the_framework",
    "sy108_unread_data_key",
    "sy112_unread_key",
    "sy113_contradicted_copy",
    "sy114_unread_variable",
    "sy115_overridden_by_the_preset",
    "sy116_mock_data_with_a_corpus",
    "sy117_privileged_container",
    "sy118_retired_flag",
    "sy120_variable_the_plan_sets",
    "sy121_host_directory_mounted",
    "sy122_engine_socket",
    "sy123_control_directory",
    "sy124_raw_device",
    "sy125_home_of_another",
    "sy201_world_not_divided",
    "sy202_contradicted_data_parallel",
    "sy203_ragged_global_batch",
    "sy204_contradicted_accumulation",
    "sy205_sequence_beyond_positions",
    "sy206_warmup_without_end",
    "sy207_rate_below_minimum",
    "sy208_mesh_not_the_hardware",
    "sy209_samples_seen_twice",
    "sy210_batch_that_is_not_trained",
    "sy211_sharding_not_divided",
    "sy301_heads_or_layers_not_divided",
    "sy302_heads_contradict_hidden_size",
    "sy303_label_without_its_dimensions",
    "sy304_vocabulary_of_another_model",
    "sy305_tokenizer_of_another_model",
    "sy306_padded_vocabulary",
    "sy401_format_the_gpu_lacks",
    "sy402_more_than_the_gpu_memory",
    "sy403_unknown_precision",
    "sy404_precision_contradicts_dtype",
    "sy501_threshold_above_peak",
    "sy502_tflops_contradict_tokens",
    "sy503_time_contradicts_throughput",
    "sy504_threshold_of_another_node_count",
    "sy601_hosts_not_the_nodes",
    "sy602_head_not_the_first_host",
    "sy603_hca_of_another_family",
    "sy604_rdma_turned_off",
    "sy701_left_to_framework_defaults",
    "sy702_dash_for_a_value",
)


def rule_module(name: str) -> ModuleType:
    return importlib.import_module(f"steelyard.linting.rules.{name}")


def rules_on(on: str) -> Iterator[ModuleType]:
    """The rules that check a case, a reading or a file."""
    return (module for module in map(rule_module, RULES) if module.RULE.on == on)
