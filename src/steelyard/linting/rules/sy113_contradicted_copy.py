"""Two places in the file contradict each other.

Why: such files contain node count, address, port and sharding several times, but only one copy of each is read. A
reader cannot see which one.
Fix: make the copies agree, or remove the one that is not read.
"""

import re
from collections.abc import Mapping
from typing import Any

from steelyard.configs.cvs.keys import COMPILER_FLAG, COMPILER_FLAGS, COPIES, JAX
from steelyard.configs.cvs.values import left_open
from steelyard.linting.rule import Edit, Problems, Reading, Rule, Stated

RULE = Rule("SY113", "error", on="reading")


def check(reading: Reading) -> Problems:
    if reading.family == "steelyard":
        return
    yield from _distributed(reading)
    yield from _node_count(reading)
    yield from _copies(reading)
    yield from _flags(reading)
    yield from _unread_keys(reading) if reading.family == JAX else _sharded(reading)


def _distributed(reading: Reading) -> Problems:
    stated, spans_nodes = reading.config.get("distributed_training"), reading.section == "multi_node"
    if stated is not None and not reading.both_sections and stated.value != spans_nodes:
        message = f"distributed_training is {stated.value} in a {reading.section} section"
        fix = f'write "{spans_nodes}", or remove it: the section decides'
        yield RULE.at(
            reading, stated, message, fix, str(spans_nodes), corrections=[Edit(stated.path, str(spans_nodes))]
        )


def _node_count(reading: Reading) -> Problems:
    """NNODES of the environment must agree with nnodes, or with a multi-node section whose nnodes is not filled in."""
    copy = reading.env.get("NNODES")
    if copy is None or left_open(copy.value) or not re.fullmatch(r"[0-9]{1,9}", str(copy.value)):
        return
    count, nnodes = int(copy.value), reading.config.get("nnodes")
    if reading.section == "single_node":
        agrees, expected = count == 1, "1, because each node runs its own job"
    elif nnodes is not None and not nnodes.assumed:
        agrees, expected = count == nnodes.value, f"{nnodes.value}, the value of nnodes"
    else:
        agrees, expected = count != 1, "2 or more for a multi_node job"
    if not agrees:
        fix = "remove it: the plan sets it on every node"
        stated = Stated(count, copy.path)
        yield RULE.at(reading, stated, f"NNODES is {count}", fix, expected, corrections=[Edit(copy.path)])


def _copies(reading: Reading) -> Problems:
    config, params, env = reading.config, reading.params, reading.env
    parts: dict[str, Mapping[str, Stated]] = {"config": config, "env": env}
    pairs = [
        (params.get("batch_size"), params.get("global_batch_size")),
        (params.get("learning_rate_final_fraction"), params.get("cosine_learning_rate_final_fraction")),
        (params.get("hf_train_files"), _corpus(reading)),
    ]
    if reading.section == "multi_node":
        pairs += [
            *((parts[part].get(name), parts[other].get(copy)) for (part, name), (other, copy) in COPIES),
            (config.get("nccl_ib_hca_list"), config.get("nccl_ib_hca")),
            (config.get("nccl_ib_hca_list") or config.get("nccl_ib_hca"), env.get("NCCL_IB_HCA")),
            (config.get("nccl_socket_ifname"), env.get("NCCL_SOCKET_IFNAME")),
            (config.get("gloo_socket_ifname"), env.get("GLOO_SOCKET_IFNAME")),
            (config.get("nccl_ib_gid_index"), env.get("NCCL_IB_GID_INDEX")),
        ]
    for read, copy in pairs:
        if read and copy and not read.assumed and not copy.assumed and _differ(read, copy):
            name = copy.path[-1]
            message = f"{name} is {copy.value}, but {read.path[-1]} is {read.value}"
            choices = Edit(copy.path), Edit(read.path, copy.value)
            yield RULE.at(reading, copy, message, f"remove {name}", str(read.value), choices=choices)
    for name, again in reading.env_copies:
        first = reading.env[name]
        if _differ(first, again):
            message = f"{name} is {again.value} here, but {first.value} in {'.'.join(first.path[:-1])}"
            choices = Edit(again.path), Edit(first.path)
            yield RULE.at(reading, again, message, "remove one of them", str(first.value), choices=choices)


def _differ(read: Stated, copy: Stated) -> bool:
    return not left_open(read.value) and not left_open(copy.value) and str(read.value) != str(copy.value)


def _corpus(reading: Reading) -> Stated | None:
    source = reading.config.get("dataset_source")
    path = source.value.get("path") if source else None
    return Stated(path, ("config", "dataset_source", "path")) if isinstance(path, str) else None


def _flags(reading: Reading) -> Problems:
    """Compiler flags can be in a mapping of config, in a key of config, and with the model, whose value wins."""
    general, model = reading.config.get(COMPILER_FLAGS), reading.params.get(COMPILER_FLAGS)
    before = dict(general.value) if general else {}
    if warn := reading.config.get(COMPILER_FLAG):
        before[warn.path[-1]] = warn.value
    for name, value in model.value.items() if model else ():
        if model and name in before and str(before[name]).lower() != str(value).lower():
            message = f"{COMPILER_FLAGS}.{name} is {value} for the model, but {before[name]} in config"
            flag = Stated(value, (*model.path, name))
            choices = Edit(flag.path), Edit(flag.path, str(before[name]))
            yield RULE.at(reading, flag, message, "remove one of them", str(before[name]), choices=choices)


def _unread_keys(reading: Reading) -> Problems:
    """Megatron keys in a JAX file that contradict MaxText's own keys; precision and batch have other rules."""
    params = reading.params
    remat = params["remat_policy"].value if "remat_policy" in params else "full"
    sharded = params["ici_fsdp_parallelism"].value if "ici_fsdp_parallelism" in params else -1
    used: dict[str, tuple[Any, str]] = {
        "recompute": (remat in ("full", "none"), f"remat_policy {remat}"),
        "fsdp": (sharded != 1, f"ici_fsdp_parallelism {sharded}"),
    }
    for name, own in (
        ("sequence_length", "max_target_length"),
        ("micro_batch_size", "per_device_batch_size"),
        ("tensor_parallelism", "ici_tensor_parallelism"),
        ("pipeline_parallelism", "ici_pipeline_parallelism"),
    ):
        if own in params:
            used[name] = (params[own].value, f"{own} {params[own].value:g}")
    for name, (value, setting) in used.items():
        stated = params.get(name)
        if stated is not None and stated.value != value:
            message = f"{name} is {stated.value:g}, but the run uses {setting}"
            fix = f"remove {name}: nothing reads it"
            yield RULE.at(reading, stated, message, fix, corrections=[Edit(stated.path)])


def _sharded(reading: Reading) -> Problems:
    fsdp, tensor = reading.params.get("fsdp"), reading.params.get("tensor_parallelism")
    if fsdp and fsdp.value and tensor and tensor.value > 1:
        message = f"tensor_parallelism is {tensor.value}, but with fsdp the launch script sets it to 1"
        choices = Edit(tensor.path, "1"), Edit(fsdp.path, "0")
        yield RULE.at(reading, tensor, message, "write 1, or turn fsdp off", "1", choices=choices)
