"""MaxText's meshes do not match the hardware: ici_* covers the GPUs of a node, dcn_* the nodes.

Why: MaxText stops if the product of a mesh differs from its devices. One axis of each mesh may be -1, which takes the
rest.
Fix: make the product of ici_* the GPUs per node, and that of dcn_* the nodes.
"""

import math

from steelyard.configs.cvs.keys import JAX, LEFT_OVER, REST_AXIS
from steelyard.linting.rule import Case, Problems, Reading, Rule, Stated

RULE = Rule("SY208", "error", may_be_allowed=False)


def check(case: Case) -> Problems:
    reading = case.reading
    if reading.family == JAX:
        yield from _mesh(reading, "ici", case.placement.gpus_per_node, "the GPUs per node")
        if not reading.nodes_open:
            yield from _mesh(reading, "dcn", case.placement.nodes, "the nodes of the job")


def _mesh(reading: Reading, net: str, whole: int, devices: str) -> Problems:
    axes = {name: stated for name, stated in reading.params.items() if name.startswith(f"{net}_")}
    if not axes:
        return
    axes.setdefault(f"{net}_{REST_AXIS[net]}_parallelism", Stated(LEFT_OVER, reading.params_path))
    left = [name for name, axis in axes.items() if axis.value == LEFT_OVER]
    wrong = [name for name, axis in axes.items() if axis.value < 1 and axis.value != LEFT_OVER]
    product = math.prod(axis.value for axis in axes.values() if axis.value > 0)
    for name in wrong:
        fix = "write 1 or more, or -1 for the rest"
        yield RULE.at(reading, axes[name], f"{name} is {axes[name].value}", fix, "1 or more, or -1")
    if len(left) > 1:
        fix = f"give one of them a number; the product must be {whole}"
        message, expected = f"{' and '.join(left)} are -1", f"at most one -1 among the {net}_* axes"
        yield RULE.at(reading, axes[left[1]], message, fix, expected)
    elif not wrong and (whole % product if left else product != whole):
        without = f" without {left[0]}" if left else ""
        axis = axes[left[0]] if left else max(axes.values(), key=lambda axis: int(axis.value))
        message, fitting = f"the product of {net}_*{without} is {product}", f"{'a divisor of ' if left else ''}{whole}"
        yield RULE.at(reading, Stated(product, axis.path), message, f"make it {fitting}", f"{fitting}, {devices}")
