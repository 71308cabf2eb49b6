"""Turns one selection of a file into a reading: the experiment, and the place of each value."""

import re
from collections.abc import Mapping
from typing import Any

from steelyard.configs.cvs import jax, megatron
from steelyard.configs.cvs.draft import Draft, Selection
from steelyard.configs.cvs.keys import CONTAINER, DATASET, JAX, RESULTS, TABLES
from steelyard.configs.cvs.section import Report, Section, dotted, example_name
from steelyard.configs.cvs.values import converted, left_open
from steelyard.configs.files import ConfigFile
from steelyard.experiment.presets import PRESETS, nearest_preset, preset_of
from steelyard.experiment.problems import PLACEHOLDER, UNKNOWN_NAME, shown
from steelyard.experiment.reading import Bound, PointerPath, Reading, Stated
from steelyard.experiment.thresholds import CVS_NAMES, parse_threshold
from steelyard.hardware.catalog import known_names, lookup, nearest_gpu
from steelyard.hardware.nics import NICS
from steelyard.hardware.sizes import MAX_NODES

GPUS_PER_NODE = 8
"""The suite assumes it, and its files do not contain it; `--gpus` overrides it."""

SET_BY_THE_PLAN = ("JAX_COORDINATOR_IP", "JAX_COORDINATOR_PORT", "MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK")
"""Variables of the container that the plan sets for each node."""


def reading(
    file: ConfigFile,
    selection: Selection,
    names: Mapping[str, str],
    nodes: int | None = None,
    gpus: int | None = None,
    given: frozenset[str] = frozenset(),
    hosts: int | None = None,
) -> Reading:
    """Read a selection. `nodes`, `gpus` and `given` are from the command line, `hosts` is the count of the cluster."""
    known = {"platform.nodes"} if nodes or hosts else set()
    report = Report(file.path, names, given | known | ({"platform.network.head"} if hosts else set()))
    config_keys, model_keys = TABLES[file.family]
    config = Section(file.at(("config",)), ("config",), config_keys, report)
    params = Section(file.at(selection.path), selection.path, model_keys, report)
    draft = Draft(selection, config, params, report)
    draft.platform["framework"] = "maxtext" if file.family == JAX else "megatron"

    _nodes(draft, nodes, gpus, hosts)
    _model(draft)
    _container(draft)
    if selection.section == "multi_node":
        _network(draft, "coordinator_ip" if file.family == JAX else "master_address")
        _port(draft)
    (jax if file.family == JAX else megatron).translate(draft)
    _data(draft)
    _thresholds(draft)
    config.unknown()
    if file.family == JAX:
        jax.unknown(params)
    else:
        params.unknown()
    _state_the_rest(config)
    _state_the_rest(params)
    return draft.reading(file)


def _nodes(draft: Draft, nodes: int | None, gpus: int | None, hosts: int | None) -> None:
    stated = draft.config.get("nnodes", required=True)
    open_place = stated is None or stated.assumed
    asked = nodes or (hosts if open_place else None)
    count = asked or (stated.value if stated else None)
    if stated and count is not None and not 1 <= count <= MAX_NODES:
        expected = f"1 to {MAX_NODES:,}"
        draft.report.wrong(stated.path, count, expected, f"write {expected}", "config.nnodes")
        count = None
    example = draft.config.example("nnodes")
    is_whole = isinstance(example, str | int) and re.fullmatch(r"[0-9]{1,9}", str(example))
    draft.example_nodes = int(example) if is_whole else None
    draft.platform["gpus_per_node"] = draft.gpus_per_node = gpus or GPUS_PER_NODE
    if stated:
        draft.paths["platform.nodes"] = stated.path
    assumed = asked is None and stated is not None and stated.assumed
    if draft.selection.section == "multi_node":
        draft.nodes = draft.platform["nodes"] = count or 1
        draft.nodes_open = count is None or (assumed and count < 2)
    else:
        draft.platform["nodes"] = 1
        draft.copies = count if count is not None and not assumed else None if nodes else hosts


def _model(draft: Draft) -> None:
    model, gpu, path = draft.selection.model, draft.selection.gpu, draft.selection.path
    draft.content["name"] = re.sub(r"[^A-Za-z0-9._-]", "-", model).lstrip(".-")[:80] or "experiment"
    if (preset := preset_of(model)) is not None:
        draft.put("model.preset", preset, path[:3])
    else:
        near = nearest_preset(model)
        fix = f"rename it to {near}" if near else "use the name of a listed model"
        message, expected = f"{shown(model)} is not a known model", f"one of {', '.join(PRESETS)}"
        draft.report.add(UNKNOWN_NAME, path[:3], message, fix, model, expected)
    if lookup(gpu) is not None:
        draft.platform["gpu"] = gpu
        draft.paths["platform.gpu"] = path
    else:
        message, expected = f"{shown(gpu)} is not in the catalog of GPUs", f"one of {', '.join(known_names())}"
        fix = f"rename it to {near}" if (near := nearest_gpu(gpu)) else "use the name of a listed GPU"
        draft.report.add(UNKNOWN_NAME, path, message, fix, gpu, expected)


def _container(draft: Draft) -> None:
    config = draft.config
    inner = config.section("container_config", CONTAINER)
    inner.unknown()
    devices_path = (*inner.path, "device_list")
    draft.platform["container"] = {
        "image": config.value("container_image", required=True) or "missing",
        "engine": inner.value("engine") or "docker",
        "name": config.value("container_name") or None,
        "devices": [name for name in inner.value("device_list") or [] if not _is_open(draft, name, devices_path)],
        "volumes": _volumes(draft, inner),
        "shm_size": config.value("shm_size"),
        "env": _variables(draft, inner),
    }
    for name in ("hf_token_file", "log_dir"):
        draft.platform[name] = config.value(name) or None
    draft.platform["cache_dir"] = config.value("data_cache_dir") or None
    draft.place(config, "container_image", "container_name", "hf_token_file", "data_cache_dir", "shm_size", "log_dir")
    draft.place(inner, *CONTAINER)


def _is_open(draft: Draft, value: Any, path: PointerPath) -> bool:
    if left_open(value):
        message = f"{dotted(path)} is not filled in ({shown(value)})"
        draft.report.add(
            PLACEHOLDER, path, message, "write the value, or put an underscore in front of the name", value
        )
    return left_open(value)


def _volumes(draft: Draft, inner: Section) -> dict[str, str]:
    volumes = {}
    for host, inside in (inner.value("volume_dict") or {}).items():
        path = (*inner.path, "volume_dict", host)
        if host.startswith("_") or _is_open(draft, host, path) or _is_open(draft, inside, path):
            continue
        if isinstance(inside, str):
            volumes[inner.filled(host, path)] = inner.filled(inside, path)
        else:
            draft.report.wrong(path, inside, "a path in the container", "write a path", f"volume_dict.{host}")
    return volumes


def _variables(draft: Draft, inner: Section) -> dict[str, str]:
    """The variables of the container, without those that the plan sets. All are recorded for the rules."""
    variables = {}
    for name, raw in (inner.value("env_dict") or {}).items():
        path = (*inner.path, "env_dict", name)
        if name.startswith("_") or (value := draft.variable(name, raw, path)) is None:
            continue
        if name not in SET_BY_THE_PLAN:
            variables[name] = value
    return variables


def _network(draft: Draft, head: str) -> None:
    config, network = draft.config, draft.network
    nic = config.get("nic_type", required=True)
    if nic and not nic.assumed:
        word = nic.value.strip().lower()
        if word in NICS:
            network["nic"] = word
        else:
            fix = "write the family of the cluster's network cards"
            draft.report.wrong(nic.path, nic.value, f"one of {', '.join(NICS)}", fix, "config.nic_type")
    hcas = config.get("nccl_ib_hca_list") or config.get("nccl_ib_hca")
    network["hcas"] = [name.strip() for name in hcas.value.split(",") if name.strip()] if hcas else []
    network["socket_interface"] = config.value("nccl_socket_ifname", required=True)
    network["gloo_interface"] = config.value("gloo_socket_ifname")
    gid = config.get("nccl_ib_gid_index")
    network["gid_index"] = gid.value if gid and gid.value >= 0 else None
    network["head"] = config.value(head)
    draft.place(config, "nic_type", "nccl_ib_hca_list", "nccl_socket_ifname", "nccl_ib_gid_index", head)


def _port(draft: Draft) -> None:
    """Set the port where ranks meet, from either of its two names."""
    for name in ("JAX_COORDINATOR_PORT", "MASTER_PORT"):
        stated = draft.env.get(name)
        if stated is None:
            continue
        try:
            draft.network["port"] = converted(stated.value, "whole")
            draft.paths["platform.network.port"] = stated.path
        except ValueError as expected:
            draft.report.wrong(stated.path, stated.value, str(expected), "write a port", name)


def _data(draft: Draft) -> None:
    """Set the source of the tokens, unless the family has set it."""
    source = draft.config.section("dataset_source", DATASET)
    source.unknown()
    mock = draft.config.get("mock_data")
    for name, key in DATASET.items():
        if stated := source.get(name):
            draft.put(key.reads, stated.value, stated.path)
    if mock is not None:
        draft.paths.setdefault("data.source", mock.path)


def _thresholds(draft: Draft) -> None:
    results = draft.params.section("result_dict", RESULTS)
    results.unknown()
    thresholds: list[str] = []
    for name in RESULTS:
        stated = results.get(name) if name in results else _suggested(results, name)
        if stated and (bound := _bound(draft, results, name, stated)) and not stated.assumed:
            draft.paths[f"thresholds.{len(thresholds)}"] = stated.path
            thresholds.append(bound)
    draft.content["thresholds"] = thresholds


def _suggested(results: Section, name: str) -> Stated | None:
    """A bound for which the file has only an example."""
    try:
        return Stated(converted(results.example(name), "number"), (*results.path, name), assumed=True)
    except ValueError:
        return None


def _bound(draft: Draft, results: Section, name: str, stated: Stated) -> str | None:
    metric, direction, units = CVS_NAMES[name]
    text = f"{metric}{direction}{stated.value / units:.10g}"
    example = example_name(results.values, name) if stated.assumed else None
    path = (*results.path, example) if example else stated.path
    try:
        draft.bounds.append(Bound(parse_threshold(text), path, stated.assumed))
    except ValueError:
        fix = "write the value that the run must reach, or remove it"
        draft.report.wrong(stated.path, stated.value, "a positive number", fix, f"result_dict.{name}")
        return None
    return text


def _state_the_rest(section: Section) -> None:
    """Read the remaining keys, so that rules can compare copies; report nothing."""
    before = len(section.report.problems)
    for name in section.names():
        if name in section.keys:
            section.get(name)
    del section.report.problems[before:]
