"""MaxText's meshes are not the hardware: ici_* over the GPUs of a node, dcn_* over the nodes.

Why: MaxText stops when their products are not the devices, and at most one of each may be -1 for what is left.
Fix: make the product of ici_* the GPUs of a node and that of dcn_* the nodes.
"""

import math
from collections.abc import Iterator, Mapping

from steelyard.configs.suite.keys import JAX
from steelyard.experiment import Problem, Reading
from steelyard.experiment.case import Case
from steelyard.experiment.reading import Stated
from steelyard.linting.rule import Rule

RULE = Rule("SY208", "error")


def check(case: Case) -> Iterator[Problem]:
    reading = case.reading
    if reading.family == JAX:
        yield from _mesh(reading, "ici", case.placement.gpus_per_node, "the GPUs of a node")
        if not reading.nodes_open:
            yield from _mesh(reading, "dcn", case.placement.nodes, "the nodes of the job")


def _mesh(reading: Reading, net: str, whole: int, what: str) -> Iterator[Problem]:
    axes: Mapping[str, Stated] = {name: one for name, one in reading.params.items() if name.startswith(f"{net}_")}
    if not axes:
        return
    unsaid = f"{net}_{'fsdp' if net == 'ici' else 'data'}_parallelism"
    if unsaid not in axes:  # MaxText's own -1
        axes = {**axes, unsaid: Stated(-1, reading.params_path)}
    largest = max(axes.values(), key=lambda one: int(one.value))
    left = [name for name, one in axes.items() if one.value == -1]
    wrong = [name for name, one in axes.items() if one.value < 1 and one.value != -1]
    product = math.prod(one.value for one in axes.values() if one.value > 0)
    for name in wrong:
        yield RULE.at(
            reading,
            axes[name].path,
            message=f"{name} is {axes[name].value}",
            fix="write 1 or more, or -1 for what is left",
            value=axes[name].value,
            expected="1 or more, or -1",
        )
    if len(left) > 1:
        yield RULE.at(
            reading,
            axes[left[1]].path,
            message=f"{' and '.join(left)} are both -1",
            fix=f"give one of them a number; the product must be {whole}",
            value=-1,
            expected=f"at most one -1 among the {net}_* axes",
        )
    elif not wrong and (whole % product if left else product != whole):
        open_axis = f", with {left[0]} for what is left," if left else ""
        yield RULE.at(
            reading,
            axes[left[0]].path if left else largest.path,
            message=f"the product of {net}_*{open_axis} is {product}",
            fix=f"make it {whole}",
            value=product,
            expected=f"{'a divisor of ' if left else ''}{whole}, {what}",
        )
