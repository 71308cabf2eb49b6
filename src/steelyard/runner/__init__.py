"""From a plan to processes to a record."""

from steelyard.cluster.image import ImageSource
from steelyard.runner.execute import check_machine, execute, new_run
from steelyard.runner.hosted import Options, execute_on_hosts, new_job_id
from steelyard.runner.plan import Plan, Planned, make_plan

__all__ = [
    "ImageSource",
    "Options",
    "Plan",
    "Planned",
    "check_machine",
    "execute",
    "execute_on_hosts",
    "make_plan",
    "new_job_id",
    "new_run",
]
