"""From a plan to processes to a record."""

from steelyard.runner.execute import check_machine, execute, new_run
from steelyard.runner.plan import Plan, Planned, make_plan

__all__ = ["Plan", "Planned", "check_machine", "execute", "make_plan", "new_run"]
