"""From a plan to processes to a record."""

from steelyard.execute.here import check_machine, execute, new_run
from steelyard.execute.hosted import Options, execute_on_hosts, new_job_id
from steelyard.execute.image import ImageSource

__all__ = [
    "ImageSource",
    "Options",
    "check_machine",
    "execute",
    "execute_on_hosts",
    "new_job_id",
    "new_run",
]
