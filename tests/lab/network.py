"""The network of a lab: a bridge in the controller's namespace and one cable to each host."""

import subprocess

PREFIX = "10.77.0"
CONTROLLER = f"{PREFIX}.1"


def address(number: int) -> str:
    """The address of the host of that number, from 1."""
    return f"{PREFIX}.{10 + number}"


def lay_bridge(controller: int) -> None:
    """Give the controller's namespace its bridge and address."""
    _ip(
        controller,
        "link set lo up",
        "link add br0 type bridge forward_delay 0",
        f"addr add {CONTROLLER}/24 dev br0",
        "link set br0 up",
    )


def lay_cable(controller: int, host: int, name: str, host_address: str) -> None:
    """Join a host to the bridge; its end is eth0."""
    _ip(controller, f"link add {name} type veth peer name eth0 netns {host}", f"link set {name} master br0 up")
    _ip(host, "link set lo up", f"addr add {host_address}/24 dev eth0", "link set eth0 up")


def set_cable(controller: int, name: str, state: str) -> None:
    """Pull a host's cable (`down`) or plug it in (`up`)."""
    _ip(controller, f"link set {name} {state}")


def _ip(pid: int, *lines: str) -> None:
    enter = ["nsenter", "-t", str(pid), "--net", "--", "ip", "-batch", "-"]
    subprocess.run(enter, input="\n".join(lines) + "\n", text=True, check=True, capture_output=True)
