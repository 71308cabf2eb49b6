"""What is asked of a config file beside the file: options of the command line and the hosts of a cluster file."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from steelyard.configs.choose import Asked
from steelyard.configs.inventory import read_inventory
from steelyard.errors import InputError
from steelyard.experiment import parse_settings
from steelyard.experiment.problems import plain, shown
from steelyard.hardware.catalog import CPU, known_names, lookup


def asked_of(
    platform: str | None = None,
    settings: Sequence[str] | Mapping[str, Any] | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    model: str | None = None,
    nodes: int | None = None,
    cluster: Path | None = None,
) -> Asked:
    """What the options say, with the hosts and the user of the cluster file."""
    check_gpu(gpu)
    asked = Asked(platform, parse_settings(settings or ()), gpu, gpus, model, nodes)
    if cluster is None:
        return asked
    inventory = read_inventory(cluster)
    hosts = inventory.addresses
    return replace(
        asked,
        hosts=hosts[:nodes],
        head_names=inventory.aliases.get(hosts[0], ()),
        env=tuple(inventory.env.items()),
        login=inventory.login,
        user=inventory.user,
        placeholders=inventory.placeholders,
    )


def check_gpu(gpu: str | None) -> None:
    """Refuse a GPU we hold no figures for."""
    if gpu is not None and gpu != CPU and lookup(gpu) is None:
        raise InputError(
            f"--gpu {shown(gpu)} is not in the catalog of GPUs",
            key="--gpu",
            value=plain(gpu),
            expected=f"one of {', '.join((CPU, *known_names()))}",
            next=f"--gpu {next(iter(difflib.get_close_matches(gpu.lower(), known_names(), n=1)), 'h100')}",
        )
