"""From the cluster file to the hosts themselves."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from steelyard.execute.host import Host

NewKeysOption = Annotated[
    bool, typer.Option("--accept-new-host-keys", help="Take a host never seen before at its word, and remember it.")
]


def hosts_of(names: Sequence[str], cluster: Path | None, accept_new_host_keys: bool) -> "list[Host]":
    """The hosts a plan names, in its order; this machine where no cluster is given."""
    if cluster is None:
        from steelyard.execute.this_host import ThisHost

        return [ThisHost(name) for name in names]
    from steelyard.configs.inventory import read_inventory
    from steelyard.execute.ssh import Login, ssh_hosts

    inventory = read_inventory(cluster)
    login = Login(inventory.user, inventory.key_file, inventory.port, accept_new_host_keys)
    return [*ssh_hosts(names, login)]
