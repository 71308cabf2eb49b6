"""One selection of a file as a reading: the experiment it means, and where each value of it stands."""

import difflib
import re
from collections.abc import Mapping
from typing import Any

from steelyard.configs.files import ConfigFile
from steelyard.configs.suite import jax, megatron
from steelyard.configs.suite.draft import Draft
from steelyard.configs.suite.keys import (
    CONTAINER,
    DATASET,
    JAX,
    JAX_CONFIG,
    JAX_MODEL,
    MEGATRON_CONFIG,
    MEGATRON_MODEL,
    RESULTS,
)
from steelyard.configs.suite.section import Report, Section
from steelyard.configs.suite.section import dotted as dotted_path
from steelyard.configs.suite.select import Selection
from steelyard.configs.suite.values import converted, left_open
from steelyard.experiment.presets import PRESETS
from steelyard.experiment.problems import PLACEHOLDER, UNKNOWN_NAME, WRONG_VALUE, shown
from steelyard.experiment.reading import Bound, PointerPath, Reading, Stated
from steelyard.experiment.thresholds import CVS_NAMES, parse_threshold
from steelyard.hardware.catalog import known_names, lookup
from steelyard.hardware.nics import NICS
from steelyard.hardware.sizes import MAX_NODES

GPUS_PER_NODE = 8
"""The files do not say it and the suite takes it for granted; `--gpus` says otherwise."""


def reading(
    file: ConfigFile,
    selection: Selection,
    names: Mapping[str, str],
    nodes: int | None = None,
    gpus: int | None = None,
    given: frozenset[str] = frozenset(),
    hosts: int | None = None,
) -> Reading:
    """Read what the selection needs; `nodes`, `gpus` and `given` are the command line's, `hosts` the cluster's."""
    known = {"platform.nodes"} if nodes or hosts else set()
    report = Report(file.path, names, given | known | ({"platform.network.head"} if hosts else set()))
    jax_family = file.family == JAX
    config = Section(file.content.get("config"), ("config",), JAX_CONFIG if jax_family else MEGATRON_CONFIG, report)
    raw: Any = file.content.get("model_params")
    for key in selection.path[1:]:
        raw = raw.get(key) if isinstance(raw, dict) else None
    params = Section(raw, selection.path, JAX_MODEL if jax_family else MEGATRON_MODEL, report)
    draft = Draft(selection, config, params, report)

    _nodes(draft, nodes, gpus, hosts)
    _model(draft)
    _container(draft)
    if selection.section == "multi_node":
        _network(draft)
        _port(draft)
    (jax if jax_family else megatron).translate(draft)
    _data(draft)
    _thresholds(draft)
    config.unknown()
    if jax_family:
        jax.unknown(params)
    else:
        params.unknown()
    _state_the_rest(config)
    _state_the_rest(params)
    return draft.reading(file)


def _nodes(draft: Draft, asked: int | None, gpus: int | None, hosts: int | None) -> None:
    stated = draft.config.get("nnodes", required=True)
    if hosts and not (stated and not stated.assumed):
        asked = asked or hosts
    count = asked or (stated.value if stated else None)
    if count is not None and not 1 <= count <= MAX_NODES:
        assert stated is not None
        expected = f"1 to {MAX_NODES:,}"
        draft.report.add(WRONG_VALUE, stated.path, f"config.nnodes is {count}", f"write {expected}", count, expected)
        count = None
    draft.example_nodes = _whole(draft.config.example(draft.config.keys["nnodes"]))
    draft.platform["framework"] = "maxtext" if draft.config.keys is JAX_CONFIG else "megatron"
    draft.platform["gpus_per_node"] = draft.gpus_per_node = gpus or GPUS_PER_NODE
    if stated:
        draft.paths["platform.nodes"] = stated.path
    if draft.selection.section == "multi_node":
        draft.nodes = draft.platform["nodes"] = count or 1
        draft.nodes_open = count is None or (asked is None and stated is not None and stated.assumed and count < 2)
    else:
        draft.platform["nodes"] = 1
        draft.copies = None if count is None or (asked is None and stated and stated.assumed) else count


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, str | int) and re.fullmatch(r"[0-9]{1,9}", str(value)) else None


def _model(draft: Draft) -> None:
    """The model is its key's; the GPU is its key's."""
    model, gpu = draft.selection.model, draft.selection.gpu
    draft.content["name"] = re.sub(r"[^A-Za-z0-9._-]", "-", model).lstrip(".-")[:80] or "experiment"
    preset = preset_of(model)
    if preset is None:
        near = difflib.get_close_matches(model, PRESETS, n=1, cutoff=0.3)
        draft.report.add(
            UNKNOWN_NAME,
            draft.selection.path[:3],
            f"{shown(model)} is no known model",
            f"name it like {near[0] if near else next(iter(PRESETS))}",
            model,
            f"one of {', '.join(PRESETS)}",
        )
    else:
        draft.put("model.preset", preset, draft.selection.path[:3])
    if lookup(gpu) is None:
        draft.report.add(
            UNKNOWN_NAME,
            draft.selection.path,
            f"{shown(gpu)} is not in the catalog of GPUs",
            "name it like mi300x",
            gpu,
            f"one of {', '.join(known_names())}",
        )
    else:
        draft.platform["gpu"] = gpu
        draft.paths["platform.gpu"] = draft.selection.path


def preset_of(model: str) -> str | None:
    """The preset a model's key means: llama3_1_8b and llama3.1-8b are one."""
    wanted = _normal(model)
    return next((preset for preset in PRESETS if _normal(preset) == wanted), None)


def _normal(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


SET_BY_THE_PLAN = ("JAX_COORDINATOR_IP", "JAX_COORDINATOR_PORT", "MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK")
"""Variables of the container that the plan gives each node itself."""


def _container(draft: Draft) -> None:
    config = draft.config
    inner = config.section("container_config", CONTAINER)
    inner.unknown()
    draft.platform["container"] = {
        "image": config.value("container_image", required=True) or "missing",
        "engine": inner.value("engine") or "docker",
        "name": config.value("container_name") or None,
        "devices": [
            one for one in inner.value("device_list") or [] if not _is_open(draft, one, (*inner.path, "device_list"))
        ],
        "volumes": _volumes(draft, inner),
        "shm_size": config.value("shm_size"),
        "env": _variables(draft, inner),
    }
    for name in ("hf_token_file", "log_dir"):
        draft.platform[name] = config.value(name) or None
    draft.platform["cache_dir"] = config.value("data_cache_dir") or None
    for name, dotted in (
        ("container_image", "platform.container.image"),
        ("container_name", "platform.container.name"),
        ("hf_token_file", "platform.hf_token_file"),
        ("data_cache_dir", "platform.cache_dir"),
        ("shm_size", "platform.container.shm_size"),
        ("log_dir", "platform.log_dir"),
    ):
        draft.paths[dotted] = ("config", name)
    for name, dotted in (
        ("device_list", "devices"),
        ("volume_dict", "volumes"),
        ("env_dict", "env"),
        ("engine", "engine"),
    ):
        draft.paths[f"platform.container.{dotted}"] = (*inner.path, name)


def _is_open(draft: Draft, value: Any, path: PointerPath) -> bool:
    if left_open(value):
        draft.report.add(
            PLACEHOLDER, path, f"{dotted_path(path)} is left open ({shown(value)})", "write it, or park it", value
        )
        return True
    return False


def _volumes(draft: Draft, inner: Section) -> dict[str, str]:
    found = {}
    for host, inside in (inner.value("volume_dict") or {}).items():
        path = (*inner.path, "volume_dict", str(host))
        if str(host).startswith("_") or _is_open(draft, host, path) or _is_open(draft, inside, path):
            continue
        if not isinstance(inside, str):
            draft.report.add(
                WRONG_VALUE,
                path,
                f"volume_dict.{host} is {shown(inside)}",
                "write a path",
                inside,
                "a path in the container",
            )
            continue
        found[inner.filled(str(host), path)] = inner.filled(inside, path)
    return found


def _variables(draft: Draft, inner: Section) -> dict[str, str]:
    """The container's variables, but for those the plan sets itself; every one is remembered for the rules."""
    found = {}
    for name, raw in (inner.value("env_dict") or {}).items():
        path = (*inner.path, "env_dict", name)
        if name.startswith("_") or (value := draft.variable(name, raw, path)) is None:
            continue
        if name not in SET_BY_THE_PLAN:
            found[name] = value
    return found


def _network(draft: Draft) -> None:
    config, network = draft.config, draft.network
    nic = config.get("nic_type", required=True)
    if nic and not nic.assumed:
        word = nic.value.strip().lower()
        if word in NICS:
            network["nic"] = word
        else:
            draft.report.add(
                WRONG_VALUE,
                nic.path,
                f"config.nic_type is {shown(nic.value)}",
                "write the family of the cluster's network cards",
                nic.value,
                f"one of {', '.join(NICS)}",
            )
    hcas = config.get("nccl_ib_hca_list") or config.get("nccl_ib_hca")
    network["hcas"] = [one.strip() for one in hcas.value.split(",") if one.strip()] if hcas else []
    network["socket_interface"] = config.value("nccl_socket_ifname", required=True)
    network["gloo_interface"] = config.value("gloo_socket_ifname")
    gid = config.get("nccl_ib_gid_index")
    network["gid_index"] = gid.value if gid and gid.value >= 0 else None
    head = "coordinator_ip" if config.keys is JAX_CONFIG else "master_address"
    network["head"] = config.value(head)
    for name, key in (
        ("nic", "nic_type"),
        ("hcas", "nccl_ib_hca_list"),
        ("socket_interface", "nccl_socket_ifname"),
        ("gid_index", "nccl_ib_gid_index"),
        ("head", head),
    ):
        draft.paths[f"platform.network.{name}"] = ("config", key)


def _port(draft: Draft) -> None:
    """Where ranks meet, by whichever of the two names the file uses."""
    for name in ("JAX_COORDINATOR_PORT", "MASTER_PORT"):
        stated = draft.env.get(name)
        if stated is None:
            continue
        try:
            draft.network["port"] = converted(stated.value, "whole")
            draft.paths["platform.network.port"] = stated.path
        except ValueError as expected:
            draft.report.add(
                WRONG_VALUE,
                stated.path,
                f"{name} is {shown(stated.value)}",
                "write a port",
                stated.value,
                str(expected),
            )


def _data(draft: Draft) -> None:
    """Where the tokens come from, for what the family has not said already."""
    source = draft.config.section("dataset_source", DATASET)
    source.unknown()
    mock = draft.config.get("mock_data")
    for name, dotted in (("path", "data.path"), ("name", "data.dataset"), ("split", "data.split")):
        if found := source.get(name):
            draft.put(dotted, found.value, found.path)
    if mock is not None:
        draft.paths.setdefault("data.source", mock.path)


def _thresholds(draft: Draft) -> None:
    results = draft.params.section("result_dict", RESULTS)
    results.unknown()
    thresholds: list[str] = []
    for name in RESULTS:
        stated = results.get(name) if name in results else _suggested(results, name)
        if stated is None:
            continue
        if (bound := _bound(draft, results, name, stated)) and not stated.assumed:
            draft.paths[f"thresholds.{len(thresholds)}"] = stated.path
            thresholds.append(bound)
    draft.content["thresholds"] = thresholds


def _suggested(results: Section, name: str) -> Stated | None:
    """A bound that stands there as an example alone."""
    try:
        value = converted(results.example(RESULTS[name]), "number")
    except ValueError:
        return None
    return Stated(value, (*results.path, name), assumed=True)


def _bound(draft: Draft, results: Section, name: str, stated: Stated) -> str | None:
    metric, direction, units = CVS_NAMES[name]
    text = f"{metric}{direction}{stated.value / units:.10g}"
    example = results.example_name(RESULTS[name]) if stated.assumed else None
    path = (*results.path, example) if example else stated.path
    try:
        draft.bounds.append(Bound(parse_threshold(text), path, stated.assumed))
    except ValueError:
        draft.report.add(
            WRONG_VALUE,
            stated.path,
            f"result_dict.{name} is {shown(stated.value)}",
            "write what the run must reach, or remove it",
            stated.value,
            "a positive number",
        )
        return None
    return text


def _state_the_rest(section: Section) -> None:
    """Read what no one has asked for, so that rules may hold copies of a fact against one another; nothing is said."""
    before = len(section.report.problems)
    for name in section.names():
        if name in section.keys and name not in section.stated:
            section.get(name)
    del section.report.problems[before:]
