"""MaxText's meshes are not the hardware: ici_* over the GPUs of a node, dcn_* over the nodes.

Why: MaxText stops when their products are not the devices, and at most one of each may be -1 for what is left.
Fix: make the product of ici_* the GPUs of a node and that of dcn_* the nodes.
"""

import math

from steelyard.configs.suite.keys import JAX
from steelyard.linting.rule import Case, Problems, Reading, Rule, Stated

RULE = Rule("SY208", "error")


def check(case: Case) -> Problems:
    reading = case.reading
    if reading.family == JAX:
        yield from _mesh(reading, "ici", case.placement.gpus_per_node, "the GPUs of a node")
        if not reading.nodes_open:
            yield from _mesh(reading, "dcn", case.placement.nodes, "the nodes of the job")


def _mesh(reading: Reading, net: str, whole: int, devices: str) -> Problems:
    axes = {name: stated for name, stated in reading.params.items() if name.startswith(f"{net}_")}
    if not axes:
        return
    unsaid = f"{net}_{'fsdp' if net == 'ici' else 'data'}_parallelism"
    axes.setdefault(unsaid, Stated(-1, reading.params_path))  # MaxText's own default
    left = [name for name, axis in axes.items() if axis.value == -1]
    wrong = [name for name, axis in axes.items() if axis.value < 1 and axis.value != -1]
    product = math.prod(axis.value for axis in axes.values() if axis.value > 0)
    for name in wrong:
        fix = "write 1 or more, or -1 for what is left"
        yield RULE.at(reading, axes[name], f"{name} is {axes[name].value}", fix, "1 or more, or -1")
    if len(left) > 1:
        fix = f"give one of them a number; the product must be {whole}"
        message, expected = f"{' and '.join(left)} are both -1", f"at most one -1 among the {net}_* axes"
        yield RULE.at(reading, axes[left[1]], message, fix, expected)
    elif not wrong and (whole % product if left else product != whole):
        open_axis = f", with {left[0]} for what is left," if left else ""
        axis = axes[left[0]] if left else max(axes.values(), key=lambda axis: int(axis.value))
        message = f"the product of {net}_*{open_axis} is {product}"
        expected = f"{'a divisor of ' if left else ''}{whole}, {devices}"
        yield RULE.at(reading, Stated(product, axis.path), message, f"make it {whole}", expected)
